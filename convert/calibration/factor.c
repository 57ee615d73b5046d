/* Factorization, see factor.h: a blocked Cholesky decomposition in double, right-looking. It works
 * on the matrix in reverse order, A = C CT with C lower triangular, since that gives the upper
 * triangular U: U_jk is the element of C at the rows of j and k, divided by the diagonal's at k. */
#define FACTOR_UPDATE smol_factor_update_baseline
#define LANES 2
#include "convert/calibration/factor_template.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/checked.h"
#include "common/cpu.h"
#include "common/number.h"

enum { STRIP = 32, DOUBLINGS = 40 };

struct decomposition {
    const float *values;   /* the upper triangle */
    const float *inverses; /* (n) or NULL */
    struct factor *factor;
    factor_update *update;
    size_t n, stride;
    double damping;     /* added to the diagonal */
    double *a;          /* (rows up to a multiple of STRIP, stride); the lower triangle is used */
    double *panel;      /* the current panel, see panel_at */
    atomic_bool failed; /* a pivot is not positive */
};

/* Returns element (i, k) of the symmetric matrix, of the folded inputs. */
static double element(const struct decomposition *d, size_t i, size_t k)
{
    size_t row = i < k ? i : k, column = i < k ? k : i;
    double value = d->values[(uint64_t)row * d->n - (uint64_t)row * (row + 1) / 2 + column];
    return d->inverses ? value * ((double)d->inverses[i] * d->inverses[k]) : value;
}

/* Copies row r of the matrix in reverse order, with damping. */
static void copy_row(struct decomposition *d, size_t r)
{
    size_t last = d->n - 1;
    double *row = d->a + r * d->stride;
    memset(row, 0, d->stride * sizeof *row);
    for (size_t c = 0; r < d->n && c <= r; c++)
        row[c] = element(d, last - r, last - c);
    row[r] += r < d->n ? d->damping : 1;
}

/* Decomposes the diagonal block of a panel. */
static void decompose_block(struct decomposition *d, size_t first)
{
    for (size_t c = first; c < first + FACTOR_PANEL; c++) {
        double *row = d->a + c * d->stride;
        for (size_t k = first; k <= c; k++) {
            const double *other = d->a + k * d->stride;
            double sum = row[k];
            for (size_t p = first; p < k; p++)
                sum -= row[p] * other[p];
            if (k < c)
                row[k] = sum / other[k];
            else if (sum > 0 && sum < HUGE_VAL)
                row[k] = sqrt(sum);
            else
                d->failed = true;
        }
        if (d->failed)
            return;
    }
}

/* Computes a panel's columns of STRIP rows below its diagonal block, and transposes them. */
static void solve_rows(struct decomposition *d, size_t first, size_t begin)
{
    for (size_t r = begin; r < begin + STRIP; r++) {
        double *row = d->a + r * d->stride;
        for (size_t c = first; c < first + FACTOR_PANEL; c++) {
            const double *other = d->a + c * d->stride;
            double sum = row[c];
            for (size_t p = first; p < c; p++)
                sum -= row[p] * other[p];
            row[c] = sum / other[c];
            d->panel[panel_at(r) + (c - first) * FACTOR_COLUMNS] = row[c];
        }
    }
}

/* Subtracts the panel's part from STRIP rows, from the panel's last column to their diagonal. */
static void update_rows(struct decomposition *d, size_t first, size_t begin)
{
    size_t from = first + FACTOR_PANEL;
    for (size_t r = begin; r < begin + STRIP; r += FACTOR_ROWS)
        d->update(d->panel + panel_at(r), d->panel + panel_at(from), begin + STRIP - from,
                  d->a + r * d->stride + from, d->stride);
}

/* Writes row j of U. */
static void write_row(const struct decomposition *d, size_t j)
{
    size_t last = d->n - 1;
    const double *row = d->a + (last - j) * d->stride;
    float *out = d->factor->u + j * d->factor->stride;
    memset(out, 0, d->factor->stride * sizeof *out);
    for (size_t k = j + 1; k < d->n; k++) {
        size_t c = last - k;
        out[k] = (float)(row[c] / d->a[c * d->stride + c]);
    }
}

static void decompose(void *argument, struct pool_thread *thread)
{
    struct decomposition *d = argument;
    size_t rows = (size_t)round_up(d->n, FACTOR_PANEL);
    struct pool_stage stage = pool_stage(thread, (uint32_t)rows);
    while (smol_pool_claim(&stage))
        copy_row(d, stage.item);
    for (size_t first = 0; first < rows; first += FACTOR_PANEL) {
        size_t below = first + FACTOR_PANEL;
        uint32_t n_strips = (uint32_t)((rows - below) / STRIP);
        stage = pool_stage(thread, 1);
        while (smol_pool_claim(&stage))
            decompose_block(d, first);
        if (d->failed)
            return;
        stage = pool_stage(thread, n_strips);
        while (smol_pool_claim(&stage))
            solve_rows(d, first, below + stage.item * STRIP);
        stage = pool_stage(thread, n_strips);
        while (smol_pool_claim(&stage))
            update_rows(d, first, below + stage.item * STRIP);
    }
    stage = pool_stage(thread, (uint32_t)d->n);
    while (smol_pool_claim(&stage))
        write_row(d, stage.item);
}

static smol_status run(struct decomposition *d, struct pool *pool)
{
    double sum = 0;
    for (size_t i = 0; i < d->n; i++)
        sum += element(d, i, i);
    d->damping = sum > 0 ? sum / (double)d->n * FACTOR_DAMPING : 1;
    for (int i = 0; i < DOUBLINGS; i++) {
        d->failed = false;
        smol_pool_run(pool, decompose, d);
        if (!d->failed)
            return SMOL_OK;
        d->damping *= 2;
    }
    return SMOL_ERROR_DAMAGED;
}

smol_status smol_factor_make(const float *values, const float *inverses, size_t n,
                             struct pool *pool, struct factor *factor, smol_error *error)
{
    struct decomposition d = {.values = values,
                              .inverses = inverses,
                              .factor = factor,
                              .update = CPU_BEST(smol_factor_update),
                              .n = n};
    size_t rows = (size_t)round_up(n, FACTOR_PANEL);
    d.stride = rows + 8; /* no power of two: rows in all sets of a cache */
    *factor = (struct factor){.n = n, .stride = (size_t)round_up(n, 16) + 16};
    uint64_t bytes = (uint64_t)rows * d.stride * sizeof *d.a;
    if (fits_memory(bytes)) {
        d.a = aligned_alloc(64, (size_t)round_up(bytes, 64));
        d.panel = aligned_alloc(64, FACTOR_PANEL * rows * sizeof *d.panel);
        factor->u = aligned_alloc(64, (size_t)round_up(n * factor->stride * sizeof(float), 64));
    }
    smol_status status =
        d.a && d.panel && factor->u ? run(&d, pool) : smol_fail_memory(error, "a factor");
    free(d.a);
    free(d.panel);
    if (status)
        smol_factor_free(factor);
    return status;
}

void smol_factor_free(struct factor *factor)
{
    free(factor->u);
    *factor = (struct factor){0};
}
