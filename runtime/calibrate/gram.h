/* Gram matrices of the rows that enter matrix products: sums of x xT over tokens, or only their
 * diagonals. A token whose row is many times larger than others counts less: the first tokens of
 * texts have such rows in some layers, which would outweigh all others. The order of additions is
 * fixed (format/STATS.md), so that the bytes are the same for any number of threads and any
 * instruction set: threads divide the elements, never a sum. */
#ifndef SMOL_RUNTIME_GRAM_H
#define SMOL_RUNTIME_GRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRAM_BLOCK = 16, /* columns that are added together */
    GRAM_STRIP = 32, /* rows of a part of the work */
    GRAM_RUN = 128,  /* most tokens that are added together */
    GRAM_LARGE = 16, /* times the median of a run: the largest sum of squares that counts */
};

/* A sum. Row i of a matrix starts at column i / GRAM_BLOCK * GRAM_BLOCK, and rows have a multiple
 * of GRAM_BLOCK columns; a diagonal is one row. */
struct gram {
    size_t width;
    bool diagonal;
    float *sums;
};

/* Returns the bytes of the sums, which fit 64 bits for the widths of a model. */
uint64_t smol_gram_bytes(size_t width, bool diagonal);

/* Returns the number of parts that an addition is divided into. */
uint32_t smol_gram_parts(const struct gram *gram);

/* Returns the sum of squares of a row x (width). */
float smol_gram_energy(const float *x, size_t width);

/* Adds the first `width` columns of the rows x (n, stride), n at most GRAM_RUN, to the elements of
 * part `part`. energies (n) are those of the rows. */
void smol_gram_add(const struct gram *gram, const float *x, size_t stride, const float *energies,
                   size_t n, uint32_t part);

/* Moves the upper triangle, row by row, or the diagonal, to the start of the sums. Returns whether
 * all of its elements are finite. */
bool smol_gram_pack(const struct gram *gram);

/* Adds the products of GRAM_BLOCK columns of a (n, GRAM_STRIP) and GRAM_BLOCK columns b (n,
 * GRAM_BLOCK) to out: row i at out + i * stride. */
typedef void gram_update(const float *a, const float *b, size_t n, float *out, size_t stride);
gram_update smol_gram_update_baseline;
#if defined(__x86_64__)
gram_update smol_gram_update_avx2;
gram_update smol_gram_update_avx512;
#endif

#endif
