/* The Hadamard transform, see hadamard.h. */
#include "runtime/engine/hadamard.h"

#include "format/layout.h"

/* Adds and subtracts the two halves of x (n) and interleaves the results. Repeated log2(n) times,
 * this is the transform, and every step has the same loop, which compilers vectorize. */
static void mix_halves(const float *restrict x, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n / 2; i++) {
        out[2 * i] = x[i] + x[i + n / 2];
        out[2 * i + 1] = x[i] - x[i + n / 2];
    }
}

/* Writes the transform of x (n) times `scale` to x. */
static void transform(float *x, size_t n, float scale)
{
    float memory[2][MAX_HEAD_DIM];
    const float *in = x;
    size_t step = 0;
    for (size_t size = 1; size < n; size *= 2, step++) {
        mix_halves(in, n, memory[step % 2]);
        in = memory[step % 2];
    }
    for (size_t i = 0; i < n; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all n were mixed */
        x[i] = in[i] * scale;
}

static size_t part_of(size_t head_dim)
{
    return head_dim & (~head_dim + 1);
}

void smol_hadamard(float *x, size_t n_heads, size_t head_dim)
{
    size_t n = part_of(head_dim);
    for (size_t i = 0; i < n_heads * head_dim; i += n)
        transform(x + i, n, 1);
}

void smol_hadamard_inverse(float *x, size_t n_heads, size_t head_dim)
{
    size_t n = part_of(head_dim);
    for (size_t i = 0; i < n_heads * head_dim; i += n)
        transform(x + i, n, 1 / (float)n);
}
