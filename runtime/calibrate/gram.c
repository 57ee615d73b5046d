/* Gram matrices, see gram.h: layout and parts of the work. */
#define GRAM_UPDATE smol_gram_update_baseline
#define LANES 4
#define ROWS 2
#include "runtime/calibrate/gram_template.h"

#include "common/checked.h"
#include "common/cpu.h"
#include "common/number.h"

enum { WIDE_STRIP = 8 * GRAM_STRIP }; /* elements of a diagonal in a part of the work */

/* Returns the number of elements in front of row i of the stored matrix. Each block of rows is one
 * block of columns shorter than the one before. */
static uint64_t row_start(size_t width, size_t i)
{
    uint64_t stored = round_up(width, GRAM_BLOCK), block = i / GRAM_BLOCK;
    uint64_t before =
        block * GRAM_BLOCK * stored - block * (block - 1) / 2 * GRAM_BLOCK * GRAM_BLOCK;
    return before + i % GRAM_BLOCK * (stored - block * GRAM_BLOCK);
}

uint64_t smol_gram_bytes(size_t width, bool diagonal)
{
    uint64_t stored = round_up(width, GRAM_BLOCK);
    return (diagonal ? stored : row_start(width, stored)) * sizeof(float);
}

uint32_t smol_gram_parts(const struct gram *gram)
{
    size_t strip = gram->diagonal ? WIDE_STRIP : GRAM_STRIP;
    return (uint32_t)((gram->width + strip - 1) / strip);
}

float smol_gram_energy(const float *x, size_t width)
{
    float sums[GRAM_BLOCK] = {0};
    size_t i = 0;
    for (; width - i >= GRAM_BLOCK; i += GRAM_BLOCK)
        for (size_t k = 0; k < GRAM_BLOCK; k++)
            sums[k] += x[i + k] * x[i + k];
    for (size_t k = 0; i + k < width; k++)
        sums[k] += x[i + k] * x[i + k];
    for (size_t half = GRAM_BLOCK / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            sums[k] += sums[k + half];
    return sums[0];
}

/* Returns the value with n / 2 smaller ones; of equal values the first counts as smaller. */
static float median(const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t n_smaller = 0;
        for (size_t k = 0; k < i; k++)
            n_smaller += values[k] <= values[i];
        for (size_t k = i; k < n; k++)
            n_smaller += values[k] < values[i];
        if (n_smaller == n / 2)
            return values[i];
    }
    return 0; /* there is a NaN, which the sums show */
}

/* Sets how much each row counts, at most 1. Every part of the work computes this again: it takes a
 * small share of the time of the part's products. */
static void weigh_rows(const float *energies, size_t n, float weights[GRAM_RUN])
{
    float most = GRAM_LARGE * median(energies, n);
    for (size_t t = 0; t < n; t++)
        weights[t] = energies[t] > most ? most / energies[t] : 1;
}

static void add_squares(const struct gram *gram, const float *x, size_t stride,
                        const float *weights, size_t n, size_t begin, size_t end)
{
    float sums[WIDE_STRIP] = {0};
    for (size_t t = 0; t < n; t++)
        for (size_t i = begin; i < end; i++) {
            float value = x[t * stride + i];
            sums[i - begin] += value * weights[t] * value;
        }
    for (size_t i = begin; i < end; i++)
        gram->sums[i] += sums[i - begin];
}

/* Copies GRAM_BLOCK columns of the first `width` of x (n, x_stride), from column `from` on, to out:
 * row t at out + t * stride, with zeros after the last column. Inlined, where gcc knows the size of
 * `out`, _FORTIFY_SOURCE would make a call of each copy. */
static __attribute__((noinline)) void copy_columns(const float *x, size_t x_stride, size_t n,
                                                   size_t width, size_t from, float *out,
                                                   size_t stride)
{
    size_t there = from < width ? width - from : 0;
    if (there >= GRAM_BLOCK) {
        for (size_t t = 0; t < n; t++)
            memcpy(out + t * stride, x + t * x_stride + from, GRAM_BLOCK * sizeof *out);
        return;
    }
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < GRAM_BLOCK; i++)
            out[t * stride + i] = i < there ? x[t * x_stride + from + i] : 0;
}

void smol_gram_add(const struct gram *gram, const float *x, size_t stride, const float *energies,
                   size_t n, uint32_t part)
{
    float a[GRAM_RUN * GRAM_STRIP], b[GRAM_RUN * GRAM_BLOCK], weights[GRAM_RUN];
    size_t width = gram->width, begin = (size_t)part * GRAM_STRIP;
    weigh_rows(energies, n, weights);
    if (gram->diagonal) {
        size_t end = (size_t)(part + 1) * WIDE_STRIP;
        add_squares(gram, x, stride, weights, n, (size_t)part * WIDE_STRIP,
                    end < width ? end : width);
        return;
    }
    gram_update *update = CPU_BEST(smol_gram_update);
    for (size_t i = 0; i < GRAM_STRIP; i += GRAM_BLOCK)
        copy_columns(x, stride, n, width, begin + i, a + i, GRAM_STRIP);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < GRAM_STRIP; i++)
            a[t * GRAM_STRIP + i] *= weights[t];
    for (size_t column = begin; column < width; column += GRAM_BLOCK) {
        copy_columns(x, stride, n, width, column, b, GRAM_BLOCK);
        for (size_t row = begin; row < begin + GRAM_STRIP && row <= column; row += GRAM_BLOCK)
            update(a + (row - begin), b, n, gram->sums + row_start(width, row) + (column - row),
                   round_up(width, GRAM_BLOCK) - row);
    }
}

bool smol_gram_pack(const struct gram *gram)
{
    bool finite = true;
    size_t at = 0;
    for (size_t i = 0; i < (gram->diagonal ? 1 : gram->width); i++) {
        size_t n = gram->width - i;
        const float *row = gram->sums + row_start(gram->width, i) + i % GRAM_BLOCK;
        memmove(gram->sums + at, gram->diagonal ? gram->sums : row, n * sizeof *row);
        for (size_t k = 0; k < n; k++)
            finite &= f32_is_finite(gram->sums[at + k]);
        at += n;
    }
    return finite;
}
