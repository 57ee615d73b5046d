/* Factors of Gram matrices, for error feedback.
 *
 * With H the damped Gram matrix of a product's inputs, the squared error of the product with
 * weights w - e is e H eT. The factors H = U D UT, U with ones on the diagonal and zeros below it,
 * make this a sum over inputs k of D_k (e_k + sum over j < k of e_j U_jk)^2: the inputs are rounded
 * in order, and each one makes up for the errors before it (LDLQ; Chee et al., 2023; equal to GPTQ,
 * Frantar et al., 2022). */
#ifndef SMOL_CONVERT_FACTOR_H
#define SMOL_CONVERT_FACTOR_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/pool.h"

struct factor {
    size_t n;
    size_t stride; /* of u */
    float *u;      /* (n, stride): U_jk at j * stride + k; only k > j is set */
};

/* The share of its mean that is added to the diagonal. */
#define FACTOR_DAMPING 0.01

/* Factorizes the Gram matrix whose upper triangle is `values`, row by row, of inputs that are then
 * multiplied by `inverses` (n), or by 1 if it is NULL. Doubles the damping
 * until the matrix is positive definite. The order of operations is fixed: the bits are the same
 * for any number of threads and any instruction set. Needs 12 bytes for each element of the
 * matrix. After an error there is nothing to free. Errors: SMOL_ERROR_DAMAGED (no damping
 * suffices; without a message), SMOL_ERROR_MEMORY. */
smol_status smol_factor_make(const float *values, const float *inverses, size_t n,
                             struct pool *pool, struct factor *factor, smol_error *error);

/* Frees the memory. A zeroed factor is allowed. */
void smol_factor_free(struct factor *factor);

/* A panel is FACTOR_PANEL columns of the decomposition, stored by blocks of FACTOR_COLUMNS rows:
 * panel_at returns the place of a row; its elements are FACTOR_COLUMNS apart. */
enum { FACTOR_PANEL = 64, FACTOR_ROWS = 4, FACTOR_COLUMNS = 16 };
static inline size_t panel_at(size_t row)
{
    return row / FACTOR_COLUMNS * FACTOR_PANEL * FACTOR_COLUMNS + row % FACTOR_COLUMNS;
}

/* Subtracts from out (FACTOR_ROWS, stride), n_columns of it, a multiple of FACTOR_COLUMNS, products
 * of rows of a panel: the sum over its columns, in order, of those of row i at a and row k at b. */
typedef void factor_update(const double *a, const double *b, size_t n_columns, double *out,
                           size_t stride);
factor_update smol_factor_update_baseline;
#if defined(__x86_64__)
factor_update smol_factor_update_avx2;
factor_update smol_factor_update_avx512;
#endif

#endif
