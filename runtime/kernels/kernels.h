/* The operations of the forward pass that are worth a version for each instruction set. Their
 * contracts fix every rounding, so that all versions return the same bits; the scalar version
 * is the specification.
 *
 * Sums over a vector (rms_norm, softmax) keep 16 partial sums, element i going to sum i mod 16, and
 * add them in a fixed tree: lanes 0..7 += lanes 8..15, 0..3 += 4..7, 0..1 += 2..3, 0 += 1.
 *
 * Row blocks lie on 64 bytes, K and V of a KV block on 16, everything else as its type wants.
 *
 * Adding an instruction set: one file that fills a struct kernels, one line in kernels.c. */
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
};

/* Quantized activations of n tokens: int8 steps of a scale for each group of 32 inputs. Tokens lie
 * side by side, in units of the four inputs that a dot product instruction takes, with room for
 * `stride` tokens.
 *
 * -128 times the sum of a group's steps is what a product starts from whose weights were moved up
 * by 128, for instruction sets that can only multiply unsigned by signed bytes. */
struct quantized {
    int8_t *steps;    /* (n_groups * 8, stride, 4) */
    float *scales;    /* (n_groups, stride) */
    int32_t *offsets; /* (n_groups, stride) */
    size_t n, stride;
};

/* Element type of the KV cache. */
enum kv_type { KV_F32, KV_F16, KV_INT8, KV_TYPES };

/* One KV block of one layer and one key-value head. K lies with positions side by side, so that
 * scores need no horizontal sums, V with channels side by side, so that their weighted sum needs
 * none. int8 elements are steps of their position's scale. */
struct kv_block {
    const void *k;        /* (head_dim, KV_BLOCK) */
    const void *v;        /* (KV_BLOCK, round_up(head_dim, 16)), padded with zeros */
    const float *k_scale; /* (KV_BLOCK), int8 only */
    const float *v_scale; /* (KV_BLOCK), int8 only */
};

/* Attention of some queries that share a key-value head, as far as it has come: the largest score
 * so far, 16 partial sums of the weights exp(score - max), position i in sum i mod 16, and the
 * values so weighted (online softmax, Milakov and Gimelshein, 2018). Starts with max = -FLT_MAX,
 * sums and values 0. */
struct attention {
    size_t n; /* queries, at most QUERY_TILE */
    size_t head_dim;
    const float *queries; /* (head_dim, QUERY_TILE): a column each, times the model's scale */
    float *max;           /* (n) */
    float *sums;          /* (n, 16) */
    float *values;        /* (n, round_up(head_dim, 16)) */
    float *scores;        /* (n, KV_BLOCK): working memory */
    float softcap;        /* of scores; 0: none */
};

/* The positions of a block that a query sees: first to behind - 1; none if they are equal. */
struct kv_range {
    uint32_t first, behind; /* first <= behind <= KV_BLOCK */
};

struct kernels {
    const char *name;

    /* Quantizes x (size) into token t of out: per group, scale = amax / 127 and step = x * (127 /
     * amax) rounded to nearest even; amax below 2^-100 counts as 0 and gives scale 0. Steps after
     * the end are 0. False when an element is NaN or infinite: what is in the token then is of no
     * use. */
    bool (*quantize)(const float *x, size_t size, const struct quantized *out, size_t t);

    /* As quantize, for one group of the first n tokens: x (n, GROUP_INPUTS). */
    bool (*quantize_slice)(const float *x, size_t n, const struct quantized *out, size_t group);

    /* n_blocks int8 row blocks, one after the other, times x: out[t][r] for each token and the
     * TILE_ROWS rows r of each block. Per group, in order: out += (float)dot * (weight scale *
     * activation scale), each operation rounded. out (x->n, out_stride). */
    void (*matmul_int8)(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                        const struct quantized *x, float *out, size_t out_stride);

    /* f32 row blocks (n_blocks, cols, TILE_ROWS) times n_tokens vectors: out[t][r] = fused
     * multiply-add over the columns in order, from 0. */
    void (*matmul_f32)(const float *blocks, size_t n_blocks, size_t cols, const float *x,
                       size_t x_stride, size_t n_tokens, float *out, size_t out_stride);

    /* As matmul_f32 for bf16 row blocks of pairs of columns, (cols + 1) / 2 pairs of TILE_ROWS:
     * the low half of a 32-bit lane is the even column's weight, the high half the odd one's. An
     * odd number of columns is padded with zero weights, which are left out of the sum. */
    void (*matmul_bf16)(const uint32_t *blocks, size_t n_blocks, size_t cols, const float *x,
                        size_t x_stride, size_t n_tokens, float *out, size_t out_stride);

    /* out = weight * (x * (1 / sqrt(mean(x^2) + eps))), from left to right as bracketed; out may be
     * x. */
    void (*rms_norm)(const float *x, const float *weight, size_t n, float eps, float *out);

    /* gate = gate / (1 + exp(-gate)) * up, element by element (SwiGLU). */
    void (*swiglu)(float *gate, const float *up, size_t n);

    /* gate = 0.5 * gate * (1 + tanh(inner)) * up from left to right, element by element, with inner
     * = sqrt(2 / pi) * (gate + 0.044715 * (gate * gate * gate)) (GEGLU with GELU's tanh formula).
     */
    void (*geglu)(float *gate, const float *up, size_t n);

    /* x = tanh(x / cap) * cap, element by element. */
    void (*softcap)(float *x, size_t n, float cap);

    /* Takes one more block into each query's attention. Query j sees the block's positions seen[j].
     * In this order, multiply then add throughout:
     *
     *   score[i] = sum over channels c, in order, of q[c] * k[c][i]; for int8, times k_scale[i];
     *              if there is a softcap, as the kernel of this name
     *   new      = largest of max and of score[i] that is seen
     *   rescale  = exp(max - new)
     *   weight   = exp(score[i] - new), 0 for what is not seen
     *   sums     = sums * rescale + (16 partial sums of the weights, in order from 0)
     *   values   = values * rescale + (sum over positions, in order from 0, of weight * v[i]);
     *              for int8, weight * v_scale[i] comes first
     *
     * Positions after all that a query sees are not read from V. Others that it does not see
     * change nothing, since no partial sum here is ever -0. */
    void (*attend[KV_TYPES])(const struct attention *attention, const struct kv_block *block,
                             const struct kv_range *seen);

    /* n f32 to f16, to nearest even. */
    void (*to_f16)(const float *x, size_t n, uint16_t *out);
};

/* The best kernels for this machine, or those that the environment variable SMOL_ISA names.
 * Errors: SMOL_ERROR_USAGE (an unknown name, or one that this machine cannot run). */
smol_status smol_kernels_select(const struct kernels **kernels, smol_error *error);

/* The ladder, weakest first; NULL from index `smol_kernels_at` has no more. `*runs` says whether
 * this machine can run it. For tests. */
const struct kernels *smol_kernels_at(size_t index, bool *runs);

extern const struct kernels smol_kernels_scalar;
#if defined(__x86_64__)
extern const struct kernels smol_kernels_avx2;
extern const struct kernels smol_kernels_avx512;
#elif defined(__aarch64__)
extern const struct kernels smol_kernels_neon;
extern const struct kernels smol_kernels_dotprod;
#endif

#endif
