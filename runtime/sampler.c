/* The choice of the next token, see smol.h. sampler_filter.c has the filters. */
#include "runtime/sampler.h"

#include <float.h>
#include <string.h>

#include "common/memory.h"
#include "common/number.h"
#include "runtime/engine/fpenv.h"
#include "runtime/model.h"
#include "runtime/philox.h"

/* --- creation ----------------------------------------------------------------------------- */

/* Checks that `value` is from 0 to `highest`; NaN never is. */
static smol_status check_range(const char *name, float value, float highest, smol_error *error)
{
    if (value >= 0 && value <= highest)
        return SMOL_OK;
    if (highest == FLT_MAX)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s of %g: must be finite and at least 0", name,
                         (double)value);
    return smol_fail(error, SMOL_ERROR_USAGE, "%s of %g: must be from 0 to %g", name, (double)value,
                     (double)highest);
}

smol_status smol_sampler_check(const smol_sampler_params *params, smol_error *error)
{
    const struct {
        const char *name;
        float value, highest;
    } checks[] = {
        {"temperature", params->temperature, FLT_MAX},
        {"top_p", params->top_p, 1},
        {"min_p", params->min_p, 1},
        {"repetition_penalty", params->repetition_penalty, FLT_MAX},
    };
    smol_status status = CHECK_RESERVED(sampler_params, params, error);
    for (size_t i = 0; !status && i < sizeof checks / sizeof checks[0]; i++)
        status = check_range(checks[i].name, checks[i].value, checks[i].highest, error);
    if (!status &&
        !(f32_is_finite(params->frequency_penalty) && f32_is_finite(params->presence_penalty)))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "frequency_penalty and presence_penalty must be finite");
    for (size_t i = 0; !status && i < params->n_logit_bias; i++)
        if (!f32_is_finite(params->logit_bias[i].bias))
            return smol_fail(error, SMOL_ERROR_USAGE, "logit_bias of token %u: must be finite",
                             params->logit_bias[i].id);
    return status;
}

/* Copies the parameters, which may be the sampler's own. */
static smol_status take_params(smol_sampler *sampler, const smol_sampler_params *params,
                               smol_error *error)
{
    smol_logit_bias *biases = NULL;
    if (params->n_logit_bias > 0) {
        biases = smol_reallocarray(NULL, params->n_logit_bias, sizeof *biases);
        if (!biases)
            return smol_fail_memory(error, "a sampler");
        memcpy(biases, params->logit_bias, params->n_logit_bias * sizeof *biases);
    }
    sampler->params = *params;
    smol_free(sampler->biases);
    sampler->biases = biases;
    sampler->params.logit_bias = biases;
    return SMOL_OK;
}

smol_status smol_sampler_create(const smol_sampler_params *params, smol_sampler **out,
                                smol_error *error)
{
    const smol_sampler_params greedy = {0};
    error_clear(error);
    *out = NULL;
    if (!params)
        params = &greedy;
    smol_status status = smol_sampler_check(params, error);
    if (status)
        return status;
    smol_sampler *sampler = smol_calloc(1, sizeof *sampler);
    if (!sampler)
        return smol_fail_memory(error, "a sampler");
    status = take_params(sampler, params, error);
    if (status)
        smol_sampler_free(sampler);
    else
        *out = sampler;
    return status;
}

smol_sampler_params smol_sampler_get_params(const smol_sampler *sampler)
{
    return sampler->params;
}

smol_status smol_sampler_set_params(smol_sampler *sampler, const smol_sampler_params *params,
                                    smol_error *error)
{
    error_clear(error);
    smol_status status = smol_sampler_check(params, error);
    if (status)
        return status;
    bool is_new = params->seed != sampler->params.seed;
    status = take_params(sampler, params, error);
    if (!status && is_new)
        sampler->n_calls = 0;
    return status;
}

void smol_sampler_free(smol_sampler *sampler)
{
    if (!sampler)
        return;
    smol_free(sampler->heap);
    smol_free(sampler->biases);
    smol_free(sampler);
}

/* --- sampling ----------------------------------------------------------------------------- */

static smol_status reserve(smol_sampler *sampler, size_t n, smol_error *error)
{
    const size_t each =
        sizeof *sampler->heap + sizeof *sampler->candidates + sizeof(float) + sizeof *sampler->ids;
    if (n <= sampler->capacity)
        return SMOL_OK;
    void *memory = n <= SIZE_MAX / each ? smol_malloc(n * each) : NULL;
    if (!memory)
        return smol_fail_memory(error, "sampling");
    smol_free(sampler->heap);
    sampler->heap = memory;
    sampler->candidates = (struct candidate *)(sampler->heap + n);
    sampler->scores = (float *)(sampler->candidates + n);
    sampler->ids = (uint32_t *)(sampler->scores + n);
    sampler->capacity = n;
    return SMOL_OK;
}

/* Returns the first candidate at which the running sum of weights exceeds the share `uniform` of
 * the total. Both sums add the candidates in order. */
static uint32_t draw(const struct candidate *candidates, size_t n, double uniform)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        total += (double)candidates[i].weight;
    double target = uniform * total;
    for (size_t i = 0; i < n - 1; i++) {
        sum += (double)candidates[i].weight;
        if (sum > target)
            return candidates[i].id;
    }
    return candidates[n - 1].id;
}

/* Moves the scores (n) of the tokens of a mask to the front of the sampler's, and their ids to
 * sampler->ids. Returns their number. */
static size_t gather(smol_sampler *sampler, const float *scores, size_t n, const uint64_t *mask)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (mask[i / 64] >> i % 64 & 1) {
            sampler->ids[kept] = (uint32_t)i;
            sampler->scores[kept++] = scores[i];
        }
    return kept;
}

static smol_status check_biases(const smol_sampler *sampler, size_t n, smol_error *error)
{
    for (size_t i = 0; i < sampler->params.n_logit_bias; i++)
        if (sampler->biases[i].id >= n)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "logit_bias of token %u: the vocabulary has %zu tokens, from 0",
                             sampler->biases[i].id, n);
    return SMOL_OK;
}

static smol_status sample(smol_sampler *sampler, const float *logits, size_t n,
                          const uint64_t *mask, const uint32_t *history, size_t n_history,
                          size_t n_output, uint32_t *id, smol_error *error)
{
    const smol_sampler_params *params = &sampler->params;
    double uniform = philox_uniform(params->seed, sampler->n_calls);
    bool greedy = params->temperature == 0;
    bool changed = smol_sampler_changes_logits(sampler);
    if (n == 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "no logits to sample from");
    smol_status status = check_biases(sampler, n, error);
    if (!status && (!greedy || changed || mask))
        status = reserve(sampler, n, error);
    if (status)
        return status;
    if (changed)
        smol_sampler_penalize(sampler, logits, n, history, n_history, n_output);
    const float *scores = changed ? sampler->scores : logits;
    if (mask) {
        n = gather(sampler, scores, n, mask);
        scores = sampler->scores;
    }
    if (n == 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "the mask allows no token");
    status = smol_sampler_best(scores, n, id, error);
    if (!status && !greedy) {
        size_t n_candidates = smol_sampler_filter(sampler, scores, n, scores[*id]);
        *id = draw(sampler->candidates, n_candidates, uniform);
    }
    if (!status && mask)
        *id = sampler->ids[*id];
    return status;
}

smol_status smol_sampler_choose(smol_sampler *sampler, const float *logits, size_t n,
                                const uint64_t *mask, const uint32_t *history, size_t n_history,
                                size_t n_output, uint32_t *id, smol_error *error)
{
    fenv_t saved;
    error_clear(error);
    fpenv_enter(&saved);
    smol_status status = sample(sampler, logits, n, mask, history, n_history, n_output, id, error);
    fpenv_leave(&saved);
    sampler->n_calls += status == SMOL_OK;
    return status;
}

smol_status smol_sample_masked(smol_sampler *sampler, const float *logits, size_t n,
                               const uint64_t *mask, const uint32_t *history, size_t n_history,
                               uint32_t *id, smol_error *error)
{
    return smol_sampler_choose(sampler, logits, n, mask, history, n_history, n_history, id, error);
}

smol_status smol_sample(smol_sampler *sampler, const float *logits, size_t n,
                        const uint32_t *history, size_t n_history, uint32_t *id, smol_error *error)
{
    return smol_sample_masked(sampler, logits, n, NULL, history, n_history, id, error);
}
