/* Kernels in plain C, which define every result. */
#include "runtime/kernels/elementwise_template.h"

#include <math.h>

#include "common/checked.h"

/* Quantizes one group to place (group, t) of out. Returns false if an element is not finite. */
static bool quantize_group(const float *x, size_t size, const struct quantized *out, size_t group,
                           size_t t)
{
    float amax = 0;
    bool finite = true;
    for (size_t i = 0; i < size; i++) {
        finite &= f32_is_finite(x[i]);
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    }
    bool zero = amax < 0x1p-100f || !finite; /* most / amax might overflow */
    float most = most_steps(out->wide), inverse = zero ? 0 : most / amax;
    int32_t steps[GROUP_INPUTS], sum = 0;
    int8_t *to = out->steps + (group * out->stride + t) * quantized_bytes(out->wide);
    for (size_t i = 0; i < GROUP_INPUTS; i++) {
        steps[i] = !zero && i < size ? f32_round_even(x[i] * inverse) : 0;
        sum += steps[i];
    }
    out->scales[group * out->stride + t] = zero ? 0 : amax / most;
    out->offsets[group * out->stride + t] = -128 * sum;
    if (out->wide) {
        store_wide(steps, to);
        return finite;
    }
    for (size_t i = 0; i < GROUP_INPUTS; i++)
        to[i] = (int8_t)steps[i];
    return finite;
}

static bool quantize(const float *x, size_t size, const struct quantized *out, size_t t)
{
    bool finite = true;
    for (size_t start = 0; start < size; start += GROUP_INPUTS) {
        size_t rest = size - start;
        finite &= quantize_group(x + start, rest < GROUP_INPUTS ? rest : GROUP_INPUTS, out,
                                 start / GROUP_INPUTS, t);
    }
    return finite;
}

static bool quantize_slice(const float *x, size_t n, const struct quantized *out, size_t group)
{
    bool finite = true;
    for (size_t t = 0; t < n; t++)
        finite &= quantize_group(x + t * GROUP_INPUTS, GROUP_INPUTS, out, group, t);
    return finite;
}

/* Adds the integer dot products of one group of weights with a token's bytes, exact in any
 * order. */
static inline void add_dot(enum blob_dtype dtype, const int8_t *levels, const uint8_t *weights,
                           const int8_t *steps, int32_t dot[TILE_ROWS])
{
    for (size_t quad = 0; quad < GROUP_QUADS; quad++, steps += 4) {
        if (dtype == DTYPE_INT8) { /* the same, as a loop that compilers turn into vectors */
            const int8_t *w = (const int8_t *)weights + quad * QUAD_BYTES;
            for (size_t row = 0; row < TILE_ROWS; row++)
                dot[row] += w[row * 4] * steps[0] + w[row * 4 + 1] * steps[1] +
                            w[row * 4 + 2] * steps[2] + w[row * 4 + 3] * steps[3];
            continue;
        }
        for (size_t row = 0; row < TILE_ROWS; row++)
            for (size_t i = 0; i < 4; i++)
                dot[row] += group_weight(dtype, levels, weights, quad * 4 + i, row) * steps[i];
    }
}

/* Computes the dot products of one group of weights with token t's group. */
static inline void dot_group(enum blob_dtype dtype, const int8_t *levels, const uint8_t *weights,
                             const struct quantized *x, size_t group, size_t t,
                             int32_t dot[TILE_ROWS])
{
    const int8_t *steps = x->steps + (group * x->stride + t) * quantized_bytes(x->wide);
    memset(dot, 0, TILE_ROWS * sizeof *dot);
    add_dot(dtype, levels, weights, steps, dot);
    if (!x->wide)
        return;
    for (size_t row = 0; row < TILE_ROWS; row++)
        dot[row] *= 256;
    add_dot(dtype, levels, weights, steps + GROUP_INPUTS, dot);
}

static inline void grouped_block(enum blob_dtype dtype, const int8_t *levels, const uint8_t *block,
                                 size_t n_groups, const struct quantized *x, float *out,
                                 size_t out_stride)
{
    for (size_t t = 0; t < x->n; t++) {
        float sum[TILE_ROWS] = {0};
        for (size_t group = 0; group < n_groups; group++) {
            const uint16_t *weight_scales =
                (const void *)(block + group_scales_offset(dtype, group));
            int32_t dot[TILE_ROWS];
            dot_group(dtype, levels, block + group_weights_offset(dtype, group), x, group, t, dot);
            float scale = x->scales[group * x->stride + t];
            for (size_t row = 0; row < TILE_ROWS; row++)
                sum[row] += (float)dot[row] * (f32_from_f16(weight_scales[row]) * scale);
        }
        memcpy(out + t * out_stride, sum, sizeof sum);
    }
}

#define GROUPED_MATMUL(name, dtype)                                                                \
    static void name(const uint8_t *blocks, size_t n_blocks, size_t n_groups,                      \
                     const int8_t *levels, const struct quantized *x, float *out,                  \
                     size_t out_stride)                                                            \
    {                                                                                              \
        for (size_t i = 0; i < n_blocks; i++)                                                      \
            grouped_block(dtype, levels, blocks + i * grouped_block_bytes(dtype, n_groups),        \
                          n_groups, x, out + i * TILE_ROWS, out_stride);                           \
    }

GROUPED_MATMUL(matmul_int8, DTYPE_INT8)
GROUPED_MATMUL(matmul_int6, DTYPE_INT6)
GROUPED_MATMUL(matmul_int5, DTYPE_INT5)
GROUPED_MATMUL(matmul_int4, DTYPE_INT4)

/* Returns the weight at column `col` and row `row` of a block. */
static inline float f32_weight(const float *block, size_t col, size_t row)
{
    return block[col * TILE_ROWS + row];
}

static inline float bf16_weight(const uint32_t *block, size_t col, size_t row)
{
    uint32_t pair = block[col / 2 * TILE_ROWS + row];
    return f32_from_bf16((uint16_t)(col % 2 ? pair >> 16 : pair));
}

#define FLOAT_MATMUL(name, type, weight, block_elements)                                           \
    static void name(const type *blocks, size_t n_blocks, size_t cols, const float *x,             \
                     size_t x_stride, size_t n_tokens, float *out, size_t out_stride)              \
    {                                                                                              \
        for (size_t i = 0; i < n_blocks; i++)                                                      \
            for (size_t t = 0; t < n_tokens; t++) {                                                \
                const type *block = blocks + i * (block_elements);                                 \
                float sum[TILE_ROWS] = {0};                                                        \
                for (size_t col = 0; col < cols; col++)                                            \
                    for (size_t row = 0; row < TILE_ROWS; row++)                                   \
                        sum[row] = fmaf(weight(block, col, row), x[t * x_stride + col], sum[row]); \
                memcpy(out + t * out_stride + i * TILE_ROWS, sum, sizeof sum);                     \
            }                                                                                      \
    }

FLOAT_MATMUL(matmul_f32, float, f32_weight, cols *TILE_ROWS)
FLOAT_MATMUL(matmul_bf16, uint32_t, bf16_weight, (cols + 1) / 2 * TILE_ROWS)

static void scan(const struct scan *s)
{
    for (size_t t = 0; t < s->n; t++) {
        float *x = s->x + t * s->stride;
        const float *b = s->b + t * s->stride, *c = s->c + t * s->stride;
        float step = s->step[t * s->step_stride], decay = s->decay[t * s->step_stride];
        const float *before = t > 0 ? s->state : s->before;
        for (size_t i = 0; i < SLICE_CHANNELS; i++) {
            float value = i < s->width ? x[i] : 0, driven = value * step, sum = 0;
            for (size_t j = 0; j < s->size; j++) {
                size_t at = j * SLICE_CHANNELS + i;
                s->state[at] = before[at] * decay + driven * b[j];
                sum += s->state[at] * c[j];
            }
            if (i < s->width)
                x[i] = sum + s->skip * value;
        }
    }
}

static void delta_rule(const struct delta_rule *r)
{
    for (size_t t = 0; t < r->n; t++) {
        float *value = r->value + t * r->stride;
        const float *query = r->query + t * r->stride, *key = r->key + t * r->stride;
        float rate = r->rate[t * r->step_stride], decay = r->decay[t * r->step_stride];
        const float *before = t > 0 ? r->state : r->before;
        for (size_t i = 0; i < SLICE_CHANNELS; i++) {
            float recalled = 0, sum = 0;
            for (size_t j = 0; j < r->size; j++)
                recalled += (before[j * SLICE_CHANNELS + i] * decay) * key[j];
            float change = ((i < r->width ? value[i] : 0) - recalled) * rate;
            for (size_t j = 0; j < r->size; j++) {
                size_t at = j * SLICE_CHANNELS + i;
                r->state[at] = before[at] * decay + key[j] * change;
                sum += r->state[at] * query[j];
            }
            if (i < r->width)
                value[i] = sum;
        }
    }
}

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = f16_from_f32(x[i]);
}

const int8_t smol_kv_levels[KV_LEVELS] = {-116, -90, -71, -56, -43, -29, -17, -6,
                                          6,    17,  29,  43,  56,  71,  90,  116};

/* Attention reads its cache through one of the next functions: channel c at position i of K or V.
 */
#define CACHE_LOADS(type, element, value)                                                          \
    static inline float load_k_##type(const struct kv_block *block, size_t c, size_t i)            \
    {                                                                                              \
        element x = ((const element *)block->k)[c * KV_BLOCK + i];                                 \
        return value;                                                                              \
    }                                                                                              \
                                                                                                   \
    static inline float load_v_##type(const struct kv_block *block, size_t head_dim, size_t c,     \
                                      size_t i)                                                    \
    {                                                                                              \
        element x = ((const element *)block->v)[i * round_up(head_dim, 16) + c];                   \
        return value;                                                                              \
    }

CACHE_LOADS(f32, float, x)
CACHE_LOADS(f16, uint16_t, f32_from_f16(x))
CACHE_LOADS(int8, int8_t, (float)x)

static inline float level(uint8_t byte, bool high)
{
    return smol_kv_levels[high ? byte >> 4 : byte & 15];
}

static inline float load_k_int4(const struct kv_block *block, size_t c, size_t i)
{
    return level(((const uint8_t *)block->k)[kv_k_byte(c, i)], kv_k_high(c));
}

static inline float load_v_int4(const struct kv_block *block, size_t head_dim, size_t c, size_t i)
{
    size_t byte = i * kv_v_stride(head_dim) + kv_v_byte(c);
    return level(((const uint8_t *)block->v)[byte], kv_v_high(c));
}

/* Turns the scores of the positions that query j sees into weights. Returns the factor for the sums
 * so far. */
static float weigh(const struct attention *a, size_t j, float *scores, struct kv_range seen)
{
    if (a->softcap > 0)
        softcap(scores + seen.first, seen.end - seen.first, a->softcap);
    float largest = a->max[j];
    for (size_t i = seen.first; i < seen.end; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    largest += 0.0f; /* no -0 */
    float sums[16] = {0};
    for (size_t i = seen.first; i < seen.end; i++) {
        scores[i] = math_exp(scores[i] - largest);
        sums[i % 16] += scores[i];
    }
    float rescale = math_exp(a->max[j] - largest);
    for (size_t lane = 0; lane < 16; lane++)
        a->sums[j * 16 + lane] = a->sums[j * 16 + lane] * rescale + sums[lane];
    a->max[j] = largest;
    return rescale;
}

/* Implements `attend` one query at a time, over the positions that it sees. */
#define ATTENTION_KERNEL(type, scaled)                                                             \
    static void attend_##type(const struct attention *a, const struct kv_block *block,             \
                              const struct kv_range *seen)                                         \
    {                                                                                              \
        size_t stride = round_up(a->head_dim, 16);                                                 \
        for (size_t j = 0; j < a->n; j++) {                                                        \
            float *scores = a->scores + j * KV_BLOCK, *values = a->values + j * stride;            \
            for (size_t i = seen[j].first; i < seen[j].end; i++) {                                 \
                float sum = 0;                                                                     \
                for (size_t c = 0; c < a->head_dim; c++)                                           \
                    sum += a->queries[c * QUERY_TILE + j] * load_k_##type(block, c, i);            \
                scores[i] = scaled ? sum * block->k_scale[i] : sum;                                \
            }                                                                                      \
            float rescale = weigh(a, j, scores, seen[j]);                                          \
            for (size_t c = 0; c < stride; c++) {                                                  \
                float sum = 0;                                                                     \
                for (size_t i = seen[j].first; i < seen[j].end; i++)                               \
                    sum += (scaled ? scores[i] * block->v_scale[i] : scores[i]) *                  \
                           load_v_##type(block, a->head_dim, c, i);                                \
                values[c] = values[c] * rescale + sum;                                             \
            }                                                                                      \
        }                                                                                          \
    }

ATTENTION_KERNEL(f32, false)
ATTENTION_KERNEL(f16, false)
ATTENTION_KERNEL(int8, true)
ATTENTION_KERNEL(int4, true)

const struct kernels smol_kernels_scalar = {
    .name = "scalar",
    .quantize = quantize,
    .quantize_slice = quantize_slice,
    .matmul_int8 = matmul_int8,
    .matmul_int6 = matmul_int6,
    .matmul_int5 = matmul_int5,
    .matmul_int4 = matmul_int4,
    .matmul_f32 = matmul_f32,
    .matmul_bf16 = matmul_bf16,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .swiglu = swiglu,
    .geglu_tanh = geglu_tanh,
    .geglu = geglu,
    .reglu_squared = reglu_squared,
    .softcap = softcap,
    .unit_norm = unit_norm,
    .convolve = convolve,
    .scan = scan,
    .delta_rule = delta_rule,
    .attend = {attend_f32, attend_f16, attend_int8, attend_int4},
    .to_f16 = to_f16,
};
