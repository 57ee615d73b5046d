/* Kernels that look alike on every instruction set with float vectors: the f32 and bf16 products
 * and attention, in terms of a few vector operations. Included once by each set's file, which
 * defines before, and adds its int8 product and its struct kernels after:
 *
 *   V                  the vector type, of LANES floats (8 or 16: TILE_ROWS is a multiple)
 *   TOKENS_MANY, _FEW  tokens that share a pass over an f32 or bf16 tile, as registers allow
 *   v_zero() v_set1(x) v_load(p) v_store(p, v) v_add(a, b) v_mul(a, b) v_fma(a, b, c)
 *   v_even(p) v_odd(p) the even, odd columns' weights of LANES bf16 pairs
 *   v_cache(data, i, type)  LANES elements of the KV cache, from element i, as floats
 *
 * The loops over vectors and tokens have constant counts once inlined, so that the arrays of
 * accumulators become registers. */

#include "runtime/kernels/elementwise_template.h"

#include "common/checked.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
enum { TILE_VECTORS = TILE_ROWS / LANES };

/* --- f32 and bf16 matrix products --------------------------------------------------------- */

/* The weights of one column, as vectors. */
struct column {
    V weights[TILE_VECTORS];
};

static ALWAYS_INLINE struct column f32_column(const void *block, size_t col)
{
    struct column column;
    for (size_t v = 0; v < TILE_VECTORS; v++)
        column.weights[v] = v_load((const float *)block + col * TILE_ROWS + v * LANES);
    return column;
}

static ALWAYS_INLINE struct column bf16_column(const void *block, size_t col)
{
    struct column column;
    const uint32_t *pairs = (const uint32_t *)block + col / 2 * TILE_ROWS;
    for (size_t v = 0; v < TILE_VECTORS; v++)
        column.weights[v] = col % 2 ? v_odd(pairs + v * LANES) : v_even(pairs + v * LANES);
    return column;
}

static ALWAYS_INLINE struct column load_column(const void *block, size_t col, enum blob_dtype dtype)
{
    return dtype == DTYPE_F32 ? f32_column(block, col) : bf16_column(block, col);
}

/* sum += column * x, for every token. */
static ALWAYS_INLINE void add_column(V sum[][TILE_VECTORS], struct column column, const float *x,
                                     size_t x_stride, const size_t n_tokens)
{
    for (size_t t = 0; t < n_tokens; t++) {
        V value = v_set1(x[t * x_stride]);
        for (size_t v = 0; v < TILE_VECTORS; v++)
            sum[t][v] = v_fma(column.weights[v], value, sum[t][v]);
    }
}

static ALWAYS_INLINE void float_tokens(const void *block, size_t cols, const float *x,
                                       size_t x_stride, float *out, size_t out_stride,
                                       enum blob_dtype dtype, const size_t n_tokens)
{
    V sum[TOKENS_MANY][TILE_VECTORS];
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t v = 0; v < TILE_VECTORS; v++)
            sum[t][v] = v_zero();
    size_t col = 0;
    for (; col + 2 <= cols; col += 2) { /* by pairs, as bf16 has them */
        add_column(sum, load_column(block, col, dtype), x + col, x_stride, n_tokens);
        add_column(sum, load_column(block, col + 1, dtype), x + col + 1, x_stride, n_tokens);
    }
    if (col < cols)
        add_column(sum, load_column(block, col, dtype), x + col, x_stride, n_tokens);
    for (size_t t = 0; t < n_tokens; t++)
        for (size_t v = 0; v < TILE_VECTORS; v++)
            v_store(out + t * out_stride + v * LANES, sum[t][v]);
}

static ALWAYS_INLINE void float_product(const void *block, size_t cols, const float *x,
                                        size_t x_stride, size_t n_tokens, float *out,
                                        size_t out_stride, enum blob_dtype dtype)
{
    size_t t = 0;
    for (; t + TOKENS_MANY <= n_tokens; t += TOKENS_MANY)
        float_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                     dtype, TOKENS_MANY);
    for (; t + TOKENS_FEW <= n_tokens; t += TOKENS_FEW)
        float_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                     dtype, TOKENS_FEW);
    for (; t < n_tokens; t++)
        float_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                     dtype, 1);
}

static void matmul_f32(const float *block, size_t cols, const float *x, size_t x_stride,
                       size_t n_tokens, float *out, size_t out_stride)
{
    float_product(block, cols, x, x_stride, n_tokens, out, out_stride, DTYPE_F32);
}

static void matmul_bf16(const uint32_t *block, size_t cols, const float *x, size_t x_stride,
                        size_t n_tokens, float *out, size_t out_stride)
{
    float_product(block, cols, x, x_stride, n_tokens, out, out_stride, DTYPE_BF16);
}

/* --- attention ---------------------------------------------------------------------------- */

enum { BLOCK_VECTORS = KV_BLOCK / LANES };

static ALWAYS_INLINE void attention_scores(const float *q, const struct kv_block *block,
                                           size_t head_dim, float scale, float scores[KV_BLOCK],
                                           enum kv_type type)
{
    V sum[BLOCK_VECTORS];
    for (size_t i = 0; i < BLOCK_VECTORS; i++)
        sum[i] = v_zero();
    for (size_t c = 0; c < head_dim; c++) {
        V value = v_set1(q[c]);
        for (size_t i = 0; i < BLOCK_VECTORS; i++) {
            size_t position = i * LANES; /* K's layout: (position / 16, channel, position % 16) */
            V k = v_cache(block->k, (position / 16 * head_dim + c) * 16 + position % 16, type);
            sum[i] = v_add(sum[i], v_mul(value, k));
        }
    }
    for (size_t i = 0; i < BLOCK_VECTORS; i++) {
        if (type == KV_INT8)
            sum[i] = v_mul(sum[i], v_load(block->k_scale + i * LANES));
        v_store(scores + i * LANES, v_mul(sum[i], v_set1(scale)));
    }
}

/* Channels [c, c + n_vectors * LANES) of the weighted sum of V. */
static ALWAYS_INLINE void value_channels(const float *weights, size_t n,
                                         const struct kv_block *block, size_t stride, size_t c,
                                         float *out, enum kv_type type, const size_t n_vectors)
{
    V sum[64 / LANES];
    for (size_t j = 0; j < n_vectors; j++)
        sum[j] = v_zero();
    for (size_t i = 0; i < n; i++) {
        V weight = v_set1(type == KV_INT8 ? weights[i] * block->v_scale[i] : weights[i]);
        for (size_t j = 0; j < n_vectors; j++)
            sum[j] =
                v_add(sum[j], v_mul(weight, v_cache(block->v, i * stride + c + j * LANES, type)));
    }
    for (size_t j = 0; j < n_vectors; j++)
        v_store(out + c + j * LANES, sum[j]);
}

static ALWAYS_INLINE void attention_values(const float *weights, size_t n,
                                           const struct kv_block *block, size_t head_dim,
                                           float *out, enum kv_type type)
{
    size_t stride = round_up(head_dim, 16);
    size_t c = 0;
    for (; c + 64 <= stride; c += 64)
        value_channels(weights, n, block, stride, c, out, type, 64 / LANES);
    for (; c < stride; c += 16)
        value_channels(weights, n, block, stride, c, out, type, 16 / LANES);
}

#define ATTENTION_KERNELS(name, type)                                                              \
    static void scores_##name(const float *q, const struct kv_block *block, size_t head_dim,       \
                              float scale, float scores[KV_BLOCK])                                 \
    {                                                                                              \
        attention_scores(q, block, head_dim, scale, scores, type);                                 \
    }                                                                                              \
    static void values_##name(const float *weights, size_t n, const struct kv_block *block,        \
                              size_t head_dim, float *out)                                         \
    {                                                                                              \
        attention_values(weights, n, block, head_dim, out, type);                                  \
    }

ATTENTION_KERNELS(f32, KV_F32)
ATTENTION_KERNELS(f16, KV_F16)
ATTENTION_KERNELS(int8, KV_INT8)

/* The members of a struct kernels that this file and elementwise_template.h provide. */
#define VECTOR_KERNELS                                                                             \
    .quantize = quantize, .matmul_f32 = matmul_f32, .matmul_bf16 = matmul_bf16,                    \
    .rms_norm = rms_norm, .swiglu = swiglu, .softmax = softmax,                                    \
    .attention_scores = {scores_f32, scores_f16, scores_int8},                                     \
    .attention_values = {values_f32, values_f16, values_int8}
