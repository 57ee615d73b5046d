/* Pooling of hidden states, see pooling.h. */
#include "runtime/pooling.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"

/* Sets what SMOL_POOL_MODEL stands for: an encoder's own pooling, else the mean of length 1. */
static void resolve(struct pooling *pooling, const struct blob_encoder *encoder)
{
    static const smol_pooling kinds[ENCODER_POOLINGS] = {
        [ENCODER_MEAN] = SMOL_POOL_MEAN,
        [ENCODER_FIRST] = SMOL_POOL_FIRST,
        [ENCODER_MAX] = SMOL_POOL_MAX,
    };
    pooling->kind = encoder ? kinds[encoder->pooling] : SMOL_POOL_MEAN;
    pooling->normalizes = !encoder || encoder->normalizes;
}

smol_status smol_pooling_init(struct pooling *pooling, const smol_model *model, smol_pooling kind,
                              float *out, smol_error *error)
{
    *pooling = (struct pooling){.kind = kind, .width = model->blob.model->hidden_size, .out = out};
    if ((unsigned)kind > SMOL_POOL_MODEL)
        return smol_fail(error, SMOL_ERROR_USAGE, "pooling: %d is not a value of smol_pooling",
                         (int)kind);
    if (kind == SMOL_POOL_MODEL)
        resolve(pooling, model->blob.encoder);
    if (pooling->kind != SMOL_POOL_MEAN)
        return SMOL_OK;
    pooling->sums = smol_calloc(pooling->width, sizeof *pooling->sums);
    return pooling->sums ? SMOL_OK : smol_fail_memory(error, "the mean");
}

void smol_pooling_free(struct pooling *pooling)
{
    smol_free(pooling->sums);
    *pooling = (struct pooling){0};
}

static void take_larger(struct pooling *pooling, const float *states, size_t n)
{
    size_t width = pooling->width;
    for (size_t i = 0; i < n * width; i++)
        if ((pooling->n == 0 && i < width) || states[i] > pooling->out[i % width])
            pooling->out[i % width] = states[i];
}

void smol_pooling_add(struct pooling *pooling, const float *states, size_t n)
{
    size_t width = pooling->width;
    switch (pooling->kind) {
    case SMOL_POOL_NONE:
        memcpy(pooling->out + pooling->n * width, states, n * width * sizeof *states);
        break;
    case SMOL_POOL_LAST:
        memcpy(pooling->out, states + (n - 1) * width, width * sizeof *states);
        break;
    case SMOL_POOL_FIRST:
        if (pooling->n == 0)
            memcpy(pooling->out, states, width * sizeof *states);
        break;
    case SMOL_POOL_MAX:
        take_larger(pooling, states, n);
        break;
    case SMOL_POOL_MEAN:
    case SMOL_POOL_MODEL:
        for (size_t i = 0; i < n * width; i++)
            pooling->sums[i % width] += (double)states[i];
    }
    pooling->n += n;
}

/* Divides the embedding by its length; one of zeros stays. */
static void normalize(struct pooling *pooling)
{
    double squares = 0;
    for (size_t i = 0; i < pooling->width; i++)
        squares += (double)pooling->out[i] * (double)pooling->out[i];
    double length = sqrt(squares);
    for (size_t i = 0; i < pooling->width && length > 0; i++)
        pooling->out[i] = (float)((double)pooling->out[i] / length);
}

void smol_pooling_finish(struct pooling *pooling)
{
    for (size_t i = 0; pooling->kind == SMOL_POOL_MEAN && i < pooling->width; i++)
        pooling->out[i] = (float)(pooling->sums[i] / (double)pooling->n);
    if (pooling->normalizes)
        normalize(pooling);
}
