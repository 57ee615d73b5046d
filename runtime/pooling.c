/* Pooling of hidden states, see pooling.h. */
#include "runtime/pooling.h"

#include <math.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "runtime/kernels/math.h"

/* Sets what SMOL_POOL_MODEL stands for: an encoder's own pooling, else the mean of length 1. */
static void resolve(struct pooling *pooling, const struct blob_encoder *encoder)
{
    static const smol_pooling kinds[ENCODER_POOLINGS] = {
        [ENCODER_MEAN] = SMOL_POOL_MEAN,
        [ENCODER_FIRST] = SMOL_POOL_FIRST,
        [ENCODER_MAX] = SMOL_POOL_MAX,
        [ENCODER_LAST] = SMOL_POOL_LAST,
    };
    pooling->kind = encoder ? kinds[encoder->pooling] : SMOL_POOL_MEAN;
    pooling->normalizes = !encoder || encoder->normalizes;
}

/* Returns the floats of a row of a matrix's products, whose row blocks are whole. */
static size_t padded(size_t n)
{
    return round_up(n, TILE_ROWS);
}

/* Prepares the dense layers, if there are any. */
static smol_status begin_layers(struct pooling *pooling, const struct embedder *embedder,
                                smol_error *error)
{
    size_t size = padded(pooling->width);
    if (!embedder->header || embedder->header->n_dense == 0)
        return SMOL_OK;
    for (size_t i = 0; i < embedder->header->n_dense; i++)
        size += padded(embedder->header->dense[i].outputs);
    pooling->work = smol_calloc(size, sizeof *pooling->work);
    if (!pooling->work)
        return smol_fail_memory(error, "dense layers");
    pooling->embedder = embedder;
    pooling->out = pooling->work;
    return SMOL_OK;
}

smol_status smol_pooling_init(struct pooling *pooling, const smol_model *model, smol_pooling kind,
                              float *out, smol_error *error)
{
    *pooling = (struct pooling){.kind = kind, .width = model->blob.model->hidden_size, .out = out};
    if ((unsigned)kind > SMOL_POOL_MODEL)
        return smol_fail(error, SMOL_ERROR_USAGE, "pooling: %d is not a value of smol_pooling",
                         (int)kind);
    pooling->result = out;
    smol_status status = SMOL_OK;
    if (kind == SMOL_POOL_MODEL) {
        resolve(pooling, model->blob.encoder);
        pooling->norm_eps = model->blob.model->rms_norm_eps;
        status = begin_layers(pooling, &model->blob.embedder, error);
    }
    if (status || pooling->kind != SMOL_POOL_MEAN)
        return status;
    pooling->sums = smol_calloc(pooling->width, sizeof *pooling->sums);
    return pooling->sums ? SMOL_OK : smol_fail_memory(error, "the mean");
}

void smol_pooling_free(struct pooling *pooling)
{
    smol_free(pooling->sums);
    smol_free(pooling->work);
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

/* Replaces x (n) with what GELU and a LayerNorm make of it. The sums run in order. */
static void gelu_norm(float *x, size_t n, float eps)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        x[i] *= math_normal(x[i]);
        sum += (double)x[i];
    }
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double root = sqrt(squares / (double)n + (double)eps);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(((double)x[i] - mean) / root);
}

static void activate(float *x, const struct blob_dense *dense, float norm_eps)
{
    if (dense->activation == DENSE_GELU_NORM)
        gelu_norm(x, dense->outputs, norm_eps);
    for (size_t i = 0; dense->activation == DENSE_TANH && i < dense->outputs; i++)
        x[i] = math_tanh(x[i]);
    for (size_t i = 0; dense->activation == DENSE_RELU && i < dense->outputs; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}

/* Computes dense layer i of x (inputs) into out (padded outputs). */
static void apply_layer(const struct pooling *pooling, const struct kernels *kernels, size_t i,
                        const float *x, size_t inputs, float *out)
{
    const struct embedder *embedder = pooling->embedder;
    const struct blob_dense *dense = &embedder->header->dense[i];
    size_t blocks = count_blocks(dense->outputs), stride = blocks * TILE_ROWS;
    if (embedder->dtype == DTYPE_F32)
        kernels->matmul_f32(embedder->matrix[i], blocks, inputs, x, inputs, 1, out, stride);
    else
        kernels->matmul_bf16(embedder->matrix[i], blocks, inputs, x, inputs, 1, out, stride);
    for (size_t j = 0; embedder->bias[i] && j < dense->outputs; j++)
        out[j] += embedder->bias[i][j];
    activate(out, dense, pooling->norm_eps);
}

static float score_of(enum embedder_score kind, float x)
{
    return kind == SCORE_LOGISTIC ? 1 / (1 + math_exp(-x)) : x;
}

/* Applies the dense layers to the pooled state, and copies the last one's outputs to the result. */
static void apply_layers(struct pooling *pooling, const struct kernels *kernels)
{
    const struct blob_embedder *header = pooling->embedder->header;
    const float *x = pooling->work;
    float *out = pooling->work + padded(pooling->width);
    for (size_t i = 0; i < header->n_dense; i++) {
        apply_layer(pooling, kernels, i, x, pooling->width, out);
        x = out;
        out += padded(header->dense[i].outputs);
        pooling->width = header->dense[i].outputs;
    }
    for (size_t i = 0; i < pooling->width; i++)
        pooling->result[i] = score_of((enum embedder_score)header->score, x[i]);
}

/* Divides the embedding by its length; one of zeros stays. */
static void normalize(struct pooling *pooling)
{
    double squares = 0;
    for (size_t i = 0; i < pooling->width; i++)
        squares += (double)pooling->result[i] * (double)pooling->result[i];
    double length = sqrt(squares);
    for (size_t i = 0; i < pooling->width && length > 0; i++)
        pooling->result[i] = (float)((double)pooling->result[i] / length);
}

void smol_pooling_finish(struct pooling *pooling, const struct kernels *kernels)
{
    for (size_t i = 0; pooling->kind == SMOL_POOL_MEAN && i < pooling->width; i++)
        pooling->out[i] = (float)(pooling->sums[i] / (double)pooling->n);
    if (pooling->embedder)
        apply_layers(pooling, kernels);
    if (pooling->normalizes)
        normalize(pooling);
}
