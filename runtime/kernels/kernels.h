/* The operations of the forward pass that benefit from a version for each instruction set. Their
 * contracts fix every rounding, so all versions return the same bits; the scalar version is the
 * specification.
 *
 * Sums over a vector (norms, softmax) keep 16 partial sums, add element i to sum i mod 16, and
 * add the sums in a fixed tree: lanes 0..7 += lanes 8..15, 0..3 += 4..7, 0..1 += 2..3, 0 += 1.
 *
 * Row blocks are aligned to 64 bytes, K and V of a KV block to 16 bytes, everything else to its
 * type.
 *
 * To add an instruction set, add a file with its products or all its kernels, a struct kernels, and
 * one line to kernels.c. */
#ifndef SMOL_RUNTIME_KERNELS_KERNELS_H
#define SMOL_RUNTIME_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/layout.h"

enum {
    KV_BLOCK = 64,   /* positions of a KV cache block */
    QUERY_TILE = 24, /* most queries that attend to a block together */
    KV_LEVELS = 16,  /* of an int4 element */
};

/* Quantized activations of n tokens: int8 steps with a scale for each group of 32 inputs, with room
 * for `stride` tokens.
 *
 * An offset is -128 times the sum of a group's steps. Instruction sets that can only multiply
 * unsigned by signed bytes increase the weights by 128 and start the sum at the offset.
 *
 * Wide steps have 16 bits, -127 * 256 to 127 * 256, and are two planes. Sets that multiply bytes
 * have high bytes in the first plane and low bytes in the second: step = 256 * high + low, with
 * both signed. Those that pair_steps have inputs 0 and 2 in the first and inputs 1 and 3 in the
 * second, as numbers of 16 bits. */
struct quantized {
    int8_t *steps;    /* (n_groups, stride, planes, GROUP_INPUTS): one plane, or two if wide */
    float *scales;    /* (n_groups, stride) */
    int32_t *offsets; /* (n_groups, stride) */
    size_t n, stride;
    bool wide;
};

/* Returns the bytes of one token's steps in a group. */
static inline size_t quantized_bytes(bool wide)
{
    return wide ? 2 * GROUP_INPUTS : GROUP_INPUTS;
}

/* Returns a view of q that starts at place `at`: group * stride + token. */
static inline struct quantized quantized_from(struct quantized q, size_t at)
{
    q.steps += at * quantized_bytes(q.wide);
    q.scales += at;
    q.offsets += at;
    return q;
}

/* Element type of the KV cache. */
enum kv_type { KV_F32, KV_F16, KV_INT8, KV_INT4, KV_TYPES };

/* One KV block of one layer and one key-value head. K stores positions contiguously and V stores
 * channels contiguously, so that neither scores nor weighted sums need horizontal sums. An int8
 * element, and the level of an int4 element, is multiplied by the scale of its position.
 *
 * A byte of int4 has two channels of one position, the first in its low half: in K, channels 2i and
 * 2i + 1 at byte (i, position); in V, channels c and c + 16 of each 32. */
struct kv_block {
    const void *k;        /* (head_dim, KV_BLOCK) */
    const void *v;        /* (KV_BLOCK, round_up(head_dim, 16)), padded with zeros */
    const float *k_scale; /* (KV_BLOCK), int8 and int4 only */
    const float *v_scale; /* (KV_BLOCK), int8 and int4 only */
};

/* The places of int4 elements. kv_k_byte(c, i) is that of channel c at position i, and so is
 * kv_v_byte, whose positions are kv_v_stride(head_dim) bytes apart; kv_k_high and kv_v_high tell
 * which half of the byte it is. */
static inline size_t kv_k_byte(size_t c, size_t i)
{
    return c / 2 * KV_BLOCK + i;
}

static inline bool kv_k_high(size_t c)
{
    return c % 2 == 1;
}

static inline size_t kv_v_stride(size_t head_dim)
{
    return (head_dim + 31) / 32 * 16;
}

static inline size_t kv_v_byte(size_t c)
{
    return c / 32 * 16 + c % 16;
}

static inline bool kv_v_high(size_t c)
{
    return c % 32 >= 16;
}

/* The levels of int4 codes 0 to 15: those with the least mean squared error for 64 normally
 * distributed numbers whose largest magnitude is 127, times 0.95, which measures better. */
extern const int8_t smol_kv_levels[KV_LEVELS];

/* Attention state of some queries that share a key-value head: the largest score so far, 16 partial
 * sums of the weights exp(score - max), with position i in sum i mod 16, and the sum of the values
 * times these weights (online softmax, Milakov and Gimelshein, 2018). It starts with max = -FLT_MAX
 * and with sums and values of 0. */
struct attention {
    size_t n; /* queries, at most QUERY_TILE */
    size_t head_dim;
    const float *queries; /* (head_dim, QUERY_TILE): one query a column, times the model's scale */
    float *max;           /* (n) */
    float *sums;          /* (n, 16) */
    float *values;        /* (n, round_up(head_dim, 16)) */
    float *scores;        /* (n, KV_BLOCK): working memory */
    float softcap;        /* of scores; 0: no soft-cap */
};

/* The positions of a block that a query sees: first to end - 1; none if they are equal. */
struct kv_range {
    uint32_t first, end; /* first <= end <= KV_BLOCK */
};

/* --- recurrences ------------------------------------------------------------------------------
 *
 * They run from token to token and keep a state, so each channel has one order of sums, however
 * a text is split. A slice of SLICE_CHANNELS channels of one head has its own state, small enough
 * for the first-level cache, and lanes are channels. */
enum { SLICE_CHANNELS = 16 };

/* A causal convolution of each channel with its last inputs (depthwise). */
struct convolution {
    const float *weight; /* (taps, stride): the last row is for the token itself */
    const float *bias;   /* (n_channels) or NULL */
    float *window;       /* (taps - 1, stride): the inputs before, oldest first */
    size_t taps, stride;
    bool activates; /* SiLU follows */
};

/* One slice of a head of Mamba2 (Dao and Gu, 2024) for n tokens, in rows `stride` apart. */
struct scan {
    size_t n, width;           /* tokens; channels of the slice, at most SLICE_CHANNELS */
    size_t size;               /* of the state of each channel */
    float *x;                  /* (n, width) */
    const float *b, *c;        /* (n, size) */
    const float *step, *decay; /* (n), `step_stride` apart */
    size_t stride, step_stride;
    float skip;
    const float *before; /* (size, SLICE_CHANNELS): the states before the first token */
    float *state;        /* likewise: those after the last one; may be `before` */
};

/* One slice of a head of gated DeltaNet (Yang et al., 2024), likewise. */
struct delta_rule {
    size_t n, width;
    size_t size;               /* of keys and queries */
    float *value;              /* (n, width) */
    const float *query, *key;  /* (n, size) */
    const float *rate, *decay; /* (n), `step_stride` apart */
    size_t stride, step_stride;
    const float *before; /* (size, SLICE_CHANNELS) */
    float *state;        /* likewise */
};

/* Multiplies n_blocks contiguous row blocks of a grouped dtype by x: out[t][r] for each token and
 * the TILE_ROWS rows r of each block. Per group, in order: out += (float)dot * (weight scale *
 * activation scale), each operation rounded. `levels` (MAX_LEVELS) are the values of the codes of
 * int6, int5 and int4, within -127..127; for int8 it is not used. out (x->n, out_stride). */
typedef void grouped_product(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                             const int8_t *levels, const struct quantized *x, float *out,
                             size_t out_stride);

struct kernels {
    const char *name;

    /* Quantizes x (size) into token t of out: per group, scale = amax / most and step = x * (most /
     * amax) rounded to nearest even, where most is 127, or 127 * 256 for wide steps. An amax below
     * 2^-100 counts as 0 and gets scale 0. Steps after the end are 0. Returns false if an element
     * is NaN or infinite; the token's contents are then unspecified. */
    bool (*quantize)(const float *x, size_t size, const struct quantized *out, size_t t);

    /* Quantizes one group of the first n tokens, as quantize does: x (n, GROUP_INPUTS). */
    bool (*quantize_slice)(const float *x, size_t n, const struct quantized *out, size_t group);

    grouped_product *matmul_int8, *matmul_int6, *matmul_int5, *matmul_int4;

    /* Multiplies f32 row blocks (n_blocks, cols, TILE_ROWS) by n_tokens vectors: out[t][r] = fused
     * multiply-add over the columns in order, starting at 0. */
    void (*matmul_f32)(const float *blocks, size_t n_blocks, size_t cols, const float *x,
                       size_t x_stride, size_t n_tokens, float *out, size_t out_stride);

    /* Multiplies bf16 row blocks, as matmul_f32 does. A block has (cols + 1) / 2 pairs of columns
     * of TILE_ROWS: the low half of a 32-bit lane is the even column's weight, the high half the
     * odd one's. An odd number of columns is padded with zero weights, which are not part of the
     * sum. */
    void (*matmul_bf16)(const uint32_t *blocks, size_t n_blocks, size_t cols, const float *x,
                        size_t x_stride, size_t n_tokens, float *out, size_t out_stride);

    /* out = weight * (x * (1 / sqrt(mean(x^2) + eps))), evaluated as bracketed. out may be x. */
    void (*rms_norm)(const float *x, const float *weight, size_t n, float eps, float *out);

    /* LayerNorm (Ba et al., 2016): out = ((x - mean) * inverse) * weight + bias, as bracketed, with
     * mean = sum(x) / n and inverse = 1 / sqrt(sum((x - mean)^2) / n + eps). out may be x. */
    void (*layer_norm)(const float *x, const float *weight, const float *bias, size_t n, float eps,
                       float *out);

    /* The activations of the MLP, element by element. `up` is NULL if the MLP has no gate: the
     * multiplication by it is then left out. */

    /* gate = gate / (1 + exp(-gate)) * up (SwiGLU) */
    void (*swiglu)(float *gate, const float *up, size_t n);

    /* gate = 0.5 * gate * (1 + tanh(inner)) * up from left to right, with inner = sqrt(2 / pi) *
     * (gate + 0.044715 * (gate * gate * gate)) (GEGLU with GELU's tanh formula) */
    void (*geglu_tanh)(float *gate, const float *up, size_t n);

    /* gate = gate * Phi(gate) * up from left to right, with Phi as math_normal (GEGLU) */
    void (*geglu)(float *gate, const float *up, size_t n);

    /* gate = gate * (gate < 0 ? 0 : gate) * up from left to right (ReLU squared; So et al., 2021)
     */
    void (*reglu_squared)(float *gate, const float *up, size_t n);

    /* out = (x * (1 / sqrt(sum(x^2) + eps))) * scale, evaluated as bracketed. out may be x. */
    void (*unit_norm)(const float *x, size_t n, float eps, float scale, float *out);

    /* Replaces each x (n, n_channels), rows `stride` apart, with bias + weight[0] * window[0] + ...
     * + weight[taps - 1] * x, from left to right (without a bias the first term is 0), and then, if
     * activates, with y / (1 + exp(-y)). The window then holds the last taps - 1 inputs. */
    void (*convolve)(const struct convolution *convolution, size_t n_channels, float *x,
                     size_t stride, size_t n);

    /* For each token in turn, and each channel i of the slice, for j = 0 to size - 1 (channels from
     * width on count as 0):
     *
     *   state[j][i] = state[j][i] * decay + (x[i] * step) * b[j]
     *   y[i]       += state[j][i] * c[j], from 0
     *
     * and then x[i] = y[i] + skip * x[i]. */
    void (*scan)(const struct scan *scan);

    /* Likewise:
     *
     *   recalled[i] += (state[j][i] * decay) * key[j], from 0
     *
     * then with change[i] = (value[i] - recalled[i]) * rate:
     *
     *   state[j][i]  = state[j][i] * decay + key[j] * change[i]
     *   out[i]      += state[j][i] * query[j], from 0
     *
     * and then value = out. */
    void (*delta_rule)(const struct delta_rule *rule);

    /* x = tanh(x / cap) * cap, element by element. */
    void (*softcap)(float *x, size_t n, float cap);

    /* Adds one more block to each query's attention. Query j sees the block's positions seen[j].
     * In this order, with separate multiplications and additions:
     *
     *   score[i] = sum over channels c, in order, of q[c] * k[c][i]; for int8 and int4, times
     *              k_scale[i];
     *              then the soft-cap, if any, as the kernel of that name
     *   new      = largest of max and of each score[i] that is seen
     *   rescale  = exp(max - new)
     *   weight   = exp(score[i] - new), 0 for positions that are not seen
     *   sums     = sums * rescale + (16 partial sums of the weights, in order from 0)
     *   values   = values * rescale + (sum over positions, in order from 0, of weight * v[i]);
     *              for int8 and int4, weight * v_scale[i] comes first
     *
     * V is not read after the last position that a query sees. Other positions that the query does
     * not see change nothing, because no partial sum is ever -0. */
    void (*attend[KV_TYPES])(const struct attention *attention, const struct kv_block *block,
                             const struct kv_range *seen);

    /* Converts n f32 values to f16, rounding to nearest even. */
    void (*to_f16)(const float *x, size_t n, uint16_t *out);

    bool pair_steps; /* wide ones, see struct quantized */
};

/* Selects the best kernels for this machine, or those that the environment variable SMOL_ISA names.
 * Errors: SMOL_ERROR_USAGE (an unknown name, or kernels that this machine cannot run). */
smol_status smol_kernels_select(const struct kernels **kernels, smol_error *error);

/* Returns the set at `index` in the ladder, weakest first, or NULL after the last. Sets `*runs` to
 * whether this machine can run it. For tests. */
const struct kernels *smol_kernels_at(size_t index, bool *runs);

/* The products with grouped dtypes have a file for each set; sets that differ in nothing else share
 * their other kernels. */
#define GROUPED_PRODUCTS(set)                                                                      \
    extern grouped_product smol_##set##_int8, smol_##set##_int6, smol_##set##_int5,                \
        smol_##set##_int4
#define GROUPED_KERNELS(set)                                                                       \
    .matmul_int8 = smol_##set##_int8, .matmul_int6 = smol_##set##_int6,                            \
    .matmul_int5 = smol_##set##_int5, .matmul_int4 = smol_##set##_int4

extern const struct kernels smol_kernels_scalar;
#if defined(__x86_64__)
extern const struct kernels smol_kernels_avx2, smol_kernels_avxvnni, smol_kernels_avx512,
    smol_kernels_avx512vbmi, smol_kernels_avx512amx;
GROUPED_PRODUCTS(avx2);
GROUPED_PRODUCTS(avxvnni);
GROUPED_PRODUCTS(avx512);
GROUPED_PRODUCTS(avx512vbmi);
GROUPED_PRODUCTS(avx512amx);
#elif defined(__aarch64__)
extern const struct kernels smol_kernels_neon, smol_kernels_dotprod, smol_kernels_i8mm;
GROUPED_PRODUCTS(neon);
GROUPED_PRODUCTS(dotprod);
GROUPED_PRODUCTS(i8mm);
#endif

#endif
