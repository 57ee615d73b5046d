/* Computes sums in double, see statistics.h. A part of a tensor is small enough for two passes in
 * the cache, first the mean and then the deviations. Parts are merged in order. This avoids
 * cancellation, and the result depends only on the elements. */
#include "convert/inspect/statistics.h"

#include <math.h>

enum { LANES = 16, MOST = 1024 };

double smol_sum(const double *values, size_t n)
{
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += values[i + lane];
    for (size_t lane = 0; lane < n - i; lane++)
        lanes[lane] += values[i + lane];
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/* Adds a value to a sum and its rounding error, which is exact in double (Knuth's two-sum). */
void smol_add(struct long_sum *sum, double value)
{
    double total = sum->sum + value, part = total - sum->sum;
    sum->rest += (sum->sum - (total - part)) + (value - part);
    sum->sum = total;
}

static inline double lesser(double a, double b)
{
    return b < a ? b : a;
}

static inline double greater(double a, double b)
{
    return b > a ? b : a;
}

/* Finds the smallest and the largest of n > 0 values, by lanes, without branches on values. */
static void find_range(const double *values, size_t n, struct moments *moments)
{
    double low[LANES], high[LANES];
    for (size_t lane = 0; lane < LANES; lane++)
        low[lane] = high[lane] = values[0];
    size_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            low[lane] = lesser(low[lane], values[i + lane]);
            high[lane] = greater(high[lane], values[i + lane]);
        }
    for (size_t lane = 0; lane < n - i; lane++) {
        low[lane] = lesser(low[lane], values[i + lane]);
        high[lane] = greater(high[lane], values[i + lane]);
    }
    moments->min = moments->max = values[0];
    for (size_t lane = 0; lane < LANES; lane++) {
        moments->min = lesser(moments->min, low[lane]);
        moments->max = greater(moments->max, high[lane]);
    }
}

/* Counts the values that are not finite, and moves the finite ones to the front. */
static void sort_out(double *values, size_t n, uint64_t start, struct moments *moments)
{
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i])) {
            values[moments->n++] = values[i];
            continue;
        }
        if (moments->n_nan + moments->n_infinite == 0)
            moments->first_not_finite = start + i;
        moments->n_nan += isnan(values[i]);
        moments->n_infinite += !isnan(values[i]);
    }
}

struct moments smol_moments(double *values, size_t n, uint64_t start)
{
    struct moments moments = {0};
    double deviations[MOST];
    /* if a sum of finite numbers overflows, sort_out removes none */
    if (isfinite(smol_sum(values, n)))
        moments.n = n;
    else
        sort_out(values, n, start, &moments);
    if (moments.n == 0)
        return moments;
    n = moments.n;
    moments.sum.sum = smol_sum(values, n);
    double mean = moments.sum.sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        moments.n_zeros += values[i] == 0;
        deviations[i] = (values[i] - mean) * (values[i] - mean);
    }
    moments.squares = smol_sum(deviations, n);
    find_range(values, n, &moments);
    return moments;
}

static double mean_of(const struct moments *moments)
{
    return (moments->sum.sum + moments->sum.rest) / (double)moments->n;
}

void smol_moments_merge(struct moments *moments, const struct moments *other)
{
    if (moments->n_nan + moments->n_infinite == 0)
        moments->first_not_finite = other->first_not_finite;
    moments->n_nan += other->n_nan;
    moments->n_infinite += other->n_infinite;
    if (other->n == 0)
        return;
    if (moments->n > 0) {
        double a = (double)moments->n, b = (double)other->n;
        double between = mean_of(other) - mean_of(moments);
        moments->squares += other->squares + between * between * (a / (a + b) * b);
        moments->min = lesser(moments->min, other->min);
        moments->max = greater(moments->max, other->max);
    } else {
        moments->squares = other->squares;
        moments->min = other->min;
        moments->max = other->max;
    }
    moments->n += other->n;
    moments->n_zeros += other->n_zeros;
    smol_add(&moments->sum, other->sum.sum);
    moments->sum.rest += other->sum.rest;
}
