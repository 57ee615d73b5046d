/* The operations of the forward pass that are worth a version for each instruction set. Their
 * contracts fix every rounding, so that all versions return the same bits; the scalar version
 * is the specification.
 *
 * Sums over a vector (rms_norm, softmax) keep 16 partial sums, element i going to sum i mod 16, and
 * add them in a fixed tree: lanes 0..7 += lanes 8..15, 0..3 += 4..7, 0..1 += 2..3, 0 += 1.
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
    KV_BLOCK = 64, /* positions of a KV cache block; attention combines whole blocks */
};

/* Element type of the KV cache. */
enum kv_type { KV_F32, KV_F16, KV_INT8, KV_TYPES };

/* One KV block of one layer and one key-value head. K lies with positions side by side, so that
 * scores need no horizontal sums: k[position / 16][channel][position % 16]; V lies as
 * v[position][channel], channels padded to a multiple of 16 with zeros. int8 elements are steps of
 * their position's scale. */
struct kv_block {
    const void *k;        /* (KV_BLOCK / 16, head_dim, 16) */
    const void *v;        /* (KV_BLOCK, round_up(head_dim, 16)) */
    const float *k_scale; /* (KV_BLOCK), int8 only */
    const float *v_scale; /* (KV_BLOCK), int8 only */
};

struct kernels {
    const char *name;

    /* Quantizes x (n): per group of 32, scale = amax / 127 and q = x * (127 / amax) rounded to
     * nearest even; amax below 2^-100 counts as 0 and gives scale 0. q has room for and is zeroed
     * to a multiple of 32. False when an element is NaN or infinite. */
    bool (*quantize)(const float *x, size_t n, int8_t *q, float *scales);

    /* One int8 row block times n_tokens vectors: out[t][r] for the TILE_ROWS rows r. Per group,
     * in order: out += (float)dot * (weight scale * activation scale), each operation rounded.
     * q (n_tokens, q_stride), scales (n_tokens, scale_stride), out (n_tokens, out_stride). */
    void (*matmul_int8)(const uint8_t *block, size_t n_groups, const int8_t *q, size_t q_stride,
                        const float *scales, size_t scale_stride, size_t n_tokens, float *out,
                        size_t out_stride);

    /* One f32 row block (cols, TILE_ROWS) times n_tokens vectors: out[t][r] = fused multiply-add
     * over the columns in order, from 0. */
    void (*matmul_f32)(const float *block, size_t cols, const float *x, size_t x_stride,
                       size_t n_tokens, float *out, size_t out_stride);

    /* As matmul_f32 for a bf16 row block of pairs of columns, (cols + 1) / 2 pairs of TILE_ROWS:
     * the low half of a 32-bit lane is the even column's weight, the high half the odd one's. An
     * odd number of columns is padded with zero weights, which are left out of the sum. */
    void (*matmul_bf16)(const uint32_t *block, size_t cols, const float *x, size_t x_stride,
                        size_t n_tokens, float *out, size_t out_stride);

    /* out = weight * (x * (1 / sqrt(mean(x^2) + eps))), from left to right as bracketed. */
    void (*rms_norm)(const float *x, const float *weight, size_t n, float eps, float *out);

    /* gate = gate / (1 + exp(-gate)) * up, element by element (SwiGLU). */
    void (*swiglu)(float *gate, const float *up, size_t n);

    /* scores[i] = exp(scores[i] - max) for i < n, 0 up to KV_BLOCK; returns their sum, *max is the
     * largest of scores[0..n), n > 0. */
    float (*softmax)(float scores[KV_BLOCK], size_t n, float *max);

    /* scores[i] = scale * (sum over channels c, in order, of q[c] * k[i][c]) for all KV_BLOCK
     * positions; for int8, the sum is first multiplied by the position's k_scale. */
    void (*attention_scores[KV_TYPES])(const float *q, const struct kv_block *block,
                                       size_t head_dim, float scale, float scores[KV_BLOCK]);

    /* out[c] = sum over positions i < n, in order, of weights[i] * v[i][c], multiply then add,
     * for all channels, the padding included; for int8, weights[i] * v_scale[i] comes first. */
    void (*attention_values[KV_TYPES])(const float *weights, size_t n, const struct kv_block *block,
                                       size_t head_dim, float *out);

    /* n f32 to f16, to nearest even. */
    void (*to_f16)(const float *x, size_t n, uint16_t *out);
};

/* The best kernels for this machine, or those that the environment variable SMOL_ISA names.
 * Errors: STATUS_USAGE (an unknown name, or one that this machine cannot run). */
enum status smol_kernels_select(const struct kernels **kernels, struct error *error);

/* The ladder, weakest first; NULL from index `smol_kernels_at` has no more. `*runs` says whether
 * this machine can run it. For tests. */
const struct kernels *smol_kernels_at(size_t index, bool *runs);

extern const struct kernels smol_kernels_scalar;
#if defined(__x86_64__)
extern const struct kernels smol_kernels_avx2;
extern const struct kernels smol_kernels_avx512;
#endif

#endif
