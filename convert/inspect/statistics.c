/* Computes statistics of tensors, see statistics.h. The first scan computes sums; the second counts
 * outliers, which needs the results of the first. */
#include "convert/inspect/statistics.h"

#include <math.h>
#include <stdlib.h>

#include "convert/checkpoint/tensor.h"
#include "convert/inspect/scan.h"
#include "convert/weights/tile.h"
#include "convert/weights/untile.h"

/* The error of int8 in a part of a matrix. For an int8 blob, its estimate from the scales. */
struct losses {
    bool unfit; /* int8 cannot represent it */
    struct long_sum signal, noise;
    double largest;
};

struct tensor_totals {
    struct moments moments;
    struct losses losses;
};

struct measuring {
    const struct model_tensor *tensors;
    struct tensor_totals *results; /* (n) */
};

/* --- int8 --------------------------------------------------------------------------------- */

static enum error_kind error_kind_of(const struct model_tensor *tensor)
{
    if (tensor->tiled) {
        bool matrix = tensor->tiled->layout == LAYOUT_TILES;
        return !matrix                            ? ERROR_NONE
               : is_grouped(tensor->tiled->dtype) ? ERROR_ESTIMATED
                                                  : ERROR_MEASURED;
    }
    return tensor->rank == 2 && tensor_is_weight(tensor->raw) ? ERROR_MEASURED : ERROR_NONE;
}

static void add_squares(struct long_sum *sum, const double *values, size_t n)
{
    double squares[TENSOR_PIECE];
    for (size_t i = 0; i < n; i++)
        squares[i] = values[i] * values[i];
    smol_add(sum, smol_sum(squares, n));
}

static void compare(const struct scan_chunk *chunk, const float *held, struct losses *losses)
{
    double differences[TENSOR_PIECE];
    for (size_t i = 0; i < chunk->n; i++) {
        differences[i] = fabs(chunk->values[i] - (double)held[i]);
        losses->largest = differences[i] > losses->largest ? differences[i] : losses->largest;
    }
    add_squares(&losses->signal, chunk->values, chunk->n);
    add_squares(&losses->noise, differences, chunk->n);
}

/* Measures the error of int8 by quantizing row by row. */
static void measure_loss(const struct scan_chunk *chunk, struct losses *losses)
{
    float values[TENSOR_PIECE], held[TENSOR_PIECE] = {0};
    losses->unfit = !isfinite(smol_sum(chunk->values, chunk->n)); /* finite floats never overflow */
    for (size_t i = 0; i < chunk->n; i++)
        values[i] = (float)chunk->values[i]; /* exact */
    for (uint64_t r = 0; !losses->unfit && r < chunk->rows; r++)
        losses->unfit =
            !smol_tile_round_trip(values + r * chunk->cols, chunk->cols, held + r * chunk->cols);
    if (!losses->unfit)
        compare(chunk, held, losses);
}

/* The error of a weight by its level, in units of the scale: its mean square if it is spread evenly
 * among the values nearest to the level, and half the largest gap between levels. */
struct level_errors {
    double square[256]; /* index: level + 128 */
    double largest;
};

static void find_level_errors(struct level_errors *errors, const int8_t *levels, unsigned n)
{
    errors->largest = 0.5;
    for (int level = -128; level < 128; level++)
        errors->square[level + 128] = 1.0 / 12;
    for (unsigned i = 0; levels && i < n; i++) {
        double below = i > 0 ? (levels[i] - levels[i - 1]) / 2.0 : (levels[1] - levels[0]) / 2.0;
        double above = i + 1 < n ? (levels[i + 1] - levels[i]) / 2.0 : below;
        errors->square[levels[i] + 128] =
            (below * below * below + above * above * above) / (3 * (below + above));
        errors->largest = above > errors->largest ? above : errors->largest;
    }
}

/* Adds up the mean squares of n weights of a group, in units of the scale. */
static double sum_of_squares(const struct level_errors *errors, const double *values, uint64_t n,
                             double scale)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        double level = values[i] / scale;
        if (fabs(level) <= 127) /* not for scales that are 0, NaN or infinite */
            sum += errors->square[128 + lrint(level)];
    }
    return sum;
}

/* Estimates the error of a grouped dtype from the scales, and the levels if there are any. */
static void estimate_loss(const struct model_tensor *tensor, const struct scan_chunk *chunk,
                          struct losses *losses)
{
    struct level_errors errors;
    find_level_errors(&errors, tensor->levels, level_count(tensor->tiled->dtype));
    add_squares(&losses->signal, chunk->values, chunk->n);
    for (uint64_t r = 0; r < chunk->rows; r++)
        for (uint64_t c = 0; c < chunk->cols; c += GROUP_INPUTS) {
            uint64_t n = chunk->cols - c < GROUP_INPUTS ? chunk->cols - c : GROUP_INPUTS;
            double step = (double)smol_untile_scale(tensor->tiled, tensor->data, chunk->row + r,
                                                    (chunk->col + c) / GROUP_INPUTS);
            const double *values = chunk->values + r * chunk->cols + c;
            double largest = fabs(step) * errors.largest;
            smol_add(&losses->noise, step * step * sum_of_squares(&errors, values, n, step));
            losses->largest = largest > losses->largest ? largest : losses->largest;
        }
}

static void merge_losses(struct losses *losses, const struct losses *other)
{
    losses->unfit |= other->unfit;
    smol_add(&losses->signal, other->signal.sum);
    smol_add(&losses->noise, other->noise.sum);
    losses->signal.rest += other->signal.rest;
    losses->noise.rest += other->noise.rest;
    losses->largest = other->largest > losses->largest ? other->largest : losses->largest;
}

static struct int8_error error_of(const struct losses *losses, enum error_kind kind, uint64_t n)
{
    double signal = losses->signal.sum + losses->signal.rest;
    double noise = losses->noise.sum + losses->noise.rest;
    if (losses->unfit || n == 0 || kind == ERROR_NONE)
        return (struct int8_error){ERROR_NONE, 0, 0, 0};
    return (struct int8_error){kind, sqrt(noise / (double)n), losses->largest,
                               noise > 0 ? 10 * log10(signal / noise) : INFINITY};
}

/* --- the first scan ----------------------------------------------------------------------- */

static void add_moments(const void *context, struct scan_chunk *chunk, void *out)
{
    const struct measuring *measuring = context;
    const struct model_tensor *tensor = &measuring->tensors[chunk->tensor];
    struct tensor_totals *result = out;
    enum error_kind kind = error_kind_of(tensor);
    if (kind == ERROR_MEASURED && !result->losses.unfit)
        measure_loss(chunk, &result->losses);
    if (kind == ERROR_ESTIMATED)
        estimate_loss(tensor, chunk, &result->losses);
    struct moments moments = smol_moments(chunk->values, chunk->n, chunk->start);
    smol_moments_merge(&result->moments, &moments);
}

static void collect_moments(void *context, size_t tensor, const void *out)
{
    struct measuring *measuring = context;
    const struct tensor_totals *result = out;
    smol_moments_merge(&measuring->results[tensor].moments, &result->moments);
    merge_losses(&measuring->results[tensor].losses, &result->losses);
}

static struct statistics statistics_of(const struct model_tensor *tensor,
                                       const struct tensor_totals *result)
{
    const struct moments *moments = &result->moments;
    double sum = moments->sum.sum + moments->sum.rest;
    if (!smol_tensor_is_number(tensor))
        return (struct statistics){.is_known = false};
    return (struct statistics){
        .is_known = true,
        .n = tensor->n_elements,
        .n_nan = moments->n_nan,
        .n_infinite = moments->n_infinite,
        .first_not_finite = moments->first_not_finite,
        .n_zeros = moments->n_zeros,
        .sum = sum,
        .mean = moments->n > 0 ? sum / (double)moments->n : NAN,
        .variance = moments->n > 1 ? moments->squares / (double)(moments->n - 1) : NAN,
        .min = moments->n > 0 ? moments->min : NAN,
        .max = moments->n > 0 ? moments->max : NAN,
        .int8 = error_of(&result->losses, error_kind_of(tensor), moments->n),
    };
}

/* --- the second scan ----------------------------------------------------------------------- */

static void add_outliers(const void *context, struct scan_chunk *chunk, void *out)
{
    const struct statistics *statistics = (const struct statistics *)context + chunk->tensor;
    double bound = OUTLIER_DEVIATIONS * sqrt(statistics->variance);
    uint64_t n = 0;
    for (size_t i = 0; i < chunk->n; i++) { /* the test fails for NaN and infinity */
        double distance = fabs(chunk->values[i] - statistics->mean);
        n += distance > bound && distance < INFINITY;
    }
    *(uint64_t *)out += n;
}

static void collect_outliers(void *context, size_t tensor, const void *out)
{
    struct statistics *all = context;
    all[tensor].n_outliers += *(const uint64_t *)out;
}

smol_status smol_statistics(const struct model_tensor *tensors, size_t n, struct pool *pool,
                            bool quiet, struct statistics *all, smol_error *error)
{
    struct measuring measuring = {tensors, calloc(n + 1, sizeof *measuring.results)};
    if (!measuring.results)
        return smol_fail_memory(error, "statistics");
    struct tensor_scan scan = {sizeof(struct tensor_totals), add_moments, collect_moments,
                               &measuring};
    smol_status status = smol_scan(&scan, tensors, n, pool, quiet, error);
    for (size_t i = 0; i < n; i++)
        all[i] = statistics_of(&tensors[i], &measuring.results[i]);
    free(measuring.results);
    scan = (struct tensor_scan){sizeof(uint64_t), add_outliers, collect_outliers, all};
    return status ? status : smol_scan(&scan, tensors, n, pool, quiet, error);
}
