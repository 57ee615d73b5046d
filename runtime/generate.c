/* Generation, see smol.h: prepares generations, and runs a single one to its end. */
#include <stdbool.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "runtime/generation.h"
#include "runtime/matcher.h"
#include "runtime/model.h"
#include "runtime/prefix.h"

/* Checks the parameters and reserves memory. Every token except the last occupies a position of the
 * context, whose capacity therefore bounds the history. */
static smol_status prepare(smol_generation *g, const uint32_t *prompt, smol_error *error)
{
    size_t capacity = smol_context_capacity(g->context);
    smol_status status = CHECK_RESERVED(generate_params, &g->params, error);
    if (status)
        return status;
    if (g->n_prompt == 0) {
        smol_fail(error, SMOL_ERROR_USAGE, "the prompt is empty: pass at least one token");
        return SMOL_ERROR_USAGE; /* a constant, for static analyzers */
    }
    if (g->params.slide && g->params.n_keep >= capacity) {
        smol_fail(error, SMOL_ERROR_USAGE,
                  "n_keep is %zu, but the context has room for %zu tokens: keep fewer",
                  g->params.n_keep, capacity);
        return SMOL_ERROR_USAGE;
    }
    size_t rows = g->params.lookup || g->params.all_tokens ? MOST_LOGITS : 1;
    size_t vocab_size = g->context->model->blob.model->vocab_size;
    g->logits = smol_calloc(rows * vocab_size, sizeof *g->logits);
    g->history = smol_calloc(capacity + 1, sizeof *g->history);
    g->prompt = smol_reallocarray(NULL, g->n_prompt, sizeof *g->prompt);
    smol_lookup_init(&g->lookup, g->context->state.n_floats > 0);
    if (!g->logits || !g->history || !g->prompt)
        return smol_fail_memory(error, "generation");
    memcpy(g->prompt, prompt, g->n_prompt * sizeof *prompt);
    if (g->params.matcher) {
        if (matcher_head(g->params.matcher)->model != g->context->model)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "the matcher's constraint was compiled for another model");
        g->mask = smol_calloc((vocab_size + 63) / 64, sizeof *g->mask);
        if (!g->mask)
            return smol_fail_memory(error, "generation");
    }
    return smol_stream_create(g->params.stop, g->params.n_stop, &g->stream, error);
}

smol_status smol_generation_create(smol_context *context, smol_sampler *sampler,
                                   const uint32_t *prompt, size_t n,
                                   const smol_generate_params *params, smol_generation **out,
                                   smol_error *error)
{
    error_clear(error);
    *out = NULL;
    smol_generation *g = smol_calloc(1, sizeof *g);
    if (!g)
        return smol_fail_memory(error, "generation");
    g->context = context;
    g->sampler = sampler;
    if (params)
        g->params = *params;
    g->n_prompt = n;
    g->start = clock_seconds();
    smol_status status = prepare(g, prompt, error);
    if (status)
        smol_generation_free(g);
    else
        *out = g;
    return status;
}

int smol_generation_finished(const smol_generation *generation, smol_generate_result *result,
                             smol_error *error)
{
    if (result)
        *result = generation->result;
    if (error)
        *error = generation->error;
    return generation->finished;
}

void smol_generation_free(smol_generation *generation)
{
    if (!generation)
        return;
    smol_stream_free(generation->stream);
    smol_free(generation->prompt);
    smol_free(generation->history);
    smol_free(generation->logits);
    smol_free(generation->mask);
    smol_free(generation);
}

static smol_status generate(smol_context *context, smol_sampler *sampler, const uint32_t *prompt,
                            size_t n, const smol_generate_params *params,
                            smol_generate_result *result, smol_error *error)
{
    smol_generation *g;
    smol_status status = smol_generation_create(context, sampler, prompt, n, params, &g, error);
    if (status)
        return status;
    while (!smol_generation_finished(g, result, error))
        smol_generation_step(&g, 1);
    status = g->error.status;
    smol_generation_free(g);
    return status;
}

/* The state of a context before a generation without a prompt. */
struct end {
    size_t length, n_ids, lost_from;
    bool unshared;
};

/* Puts back the last id, which was taken as the prompt and has not been read. Its keys and values
 * are there if they were. */
static void put_back(smol_context *c, const struct end *end)
{
    size_t known = smol_state_known(&c->state, end->length);
    if (end->lost_from < end->n_ids && known == end->n_ids)
        known = end->n_ids - 1; /* those before it may have been found */
    c->length = end->length;
    c->n_ids = end->n_ids;
    c->unshared |= end->unshared;
    if (known < c->length && known < c->lost_from)
        c->lost_from = known;
}

/* Generates without a prompt. The last id of the sequence becomes the prompt, because its logits
 * are not kept. */
static smol_status resume(smol_context *c, smol_sampler *sampler,
                          const smol_generate_params *params, smol_generate_result *result,
                          smol_error *error)
{
    const struct end end = {c->length, c->n_ids, c->lost_from, c->unshared};
    if (end.n_ids == 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the context and the prompt are empty: pass at least one token");
    smol_status status = prefix_own(c, error); /* a borrowed block could go with the last id */
    if (status)
        return status;
    uint32_t last = c->ids[end.n_ids - 1];
    smol_generate_params continued = params ? *params : (smol_generate_params){0};
    continued.new_text = 0;
    smol_context_truncate(c, end.n_ids - 1);
    status = generate(c, sampler, &last, 1, &continued, result, error);
    bool unread = status || (result->finish == SMOL_FINISH_CANCELLED && result->n_prompt == 0);
    if (unread && c->length == end.n_ids - 1) /* nothing else was changed */
        put_back(c, &end);
    return status;
}

smol_status smol_generate(smol_context *context, smol_sampler *sampler, const uint32_t *prompt,
                          size_t n, const smol_generate_params *params,
                          smol_generate_result *result, smol_error *error)
{
    smol_generate_result unused;
    if (!result)
        result = &unused;
    error_clear(error);
    *result = (smol_generate_result){0};
    if (n == 0)
        return resume(context, sampler, params, result, error);
    return generate(context, sampler, prompt, n, params, result, error);
}
