/* Hidden states instead of logits, see smol.h. */
#include <string.h>

#include "common/memory.h"
#include "runtime/engine/fpenv.h"
#include "runtime/engine/pass.h"

/* What becomes of the states of all tokens, which come in pieces. */
struct pooling {
    smol_pooling kind;
    size_t width; /* hidden_size */
    float *out;
    double *sums; /* (width), for the mean: one order of sums, whatever the pieces */
};

static void pool_states(void *user, const float *states, size_t n)
{
    struct pooling *pooling = user;
    size_t width = pooling->width;
    switch (pooling->kind) {
    case SMOL_POOL_NONE:
        memcpy(pooling->out, states, n * width * sizeof *states);
        pooling->out += n * width;
        break;
    case SMOL_POOL_LAST:
        memcpy(pooling->out, states + (n - 1) * width, width * sizeof *states);
        break;
    case SMOL_POOL_MEAN:
        for (size_t i = 0; i < n * width; i++)
            pooling->sums[i % width] += (double)states[i];
    }
}

static void finish_mean(const struct pooling *pooling, size_t n)
{
    fenv_t saved;
    fpenv_enter(&saved);
    for (size_t i = 0; i < pooling->width; i++)
        pooling->out[i] = (float)(pooling->sums[i] / (double)n);
    fpenv_leave(&saved);
}

smol_status smol_embed(smol_context *context, const uint32_t *ids, size_t n, smol_pooling kind,
                       float *states, smol_error *error)
{
    struct pooling pooling = {
        .kind = kind, .width = context->model->blob.model->hidden_size, .out = states};
    error_clear(error);
    if ((unsigned)kind > SMOL_POOL_LAST)
        return smol_fail(error, SMOL_ERROR_USAGE, "pooling: %d is not a value of smol_pooling",
                         (int)kind);
    if (kind == SMOL_POOL_MEAN) {
        pooling.sums = smol_calloc(pooling.width, sizeof *pooling.sums);
        if (!pooling.sums)
            return smol_fail_memory(error, "the mean");
    }
    smol_eval_part part = {.context = context, .ids = ids, .n = n};
    smol_status status = smol_evaluate(&part, 1, pool_states, &pooling, error);
    if (!status && kind == SMOL_POOL_MEAN)
        finish_mean(&pooling, n);
    smol_free(pooling.sums);
    return status;
}
