/* Tests of statistics of tensors: known values, the same bits for any number of threads, and int8's
 * error compared with the result of a conversion. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cpu.h"
#include "convert/inspect/histogram.h"
#include "convert/inspect/statistics.h"
#include "convert/weights/tile.h"
#include "convert/weights/untile.h"
#include "tests/unit/unit.h"

enum { MOST = 1 << 18 };

static float values[MOST];
static smol_error error;
static void draw(size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] =
            ((float)(random_bits() >> 8) - 0x1p23f) * (random_bits() % 9 ? 0x1p-24f : 0x1p-4f);
}

static struct safetensors_tensor raw_of(uint64_t rows, uint64_t cols)
{
    return (struct safetensors_tensor){
        .name = "x",
        .dtype = ST_F32,
        .rank = rows ? 2 : 1,
        .shape = {rows ? rows : cols, rows ? cols : 0},
        .data = (const uint8_t *)values,
        .size = (rows ? rows : 1) * cols * sizeof *values,
    };
}

static struct statistics measure(const struct safetensors_tensor *raw, unsigned n_threads)
{
    struct model_tensor tensor = {.name = "x"};
    struct statistics statistics;
    struct pool *pool;
    smol_tensor_set_raw(&tensor, raw);
    assert_int_equal(smol_pool_create(n_threads, &pool, &error), SMOL_OK);
    assert_int_equal(smol_statistics(&tensor, 1, pool, true, &statistics, &error), SMOL_OK);
    smol_pool_destroy(pool);
    return statistics;
}

TEST(a_few_numbers_have_the_statistics_that_one_computes_by_hand)
{
    const float some[] = {1, -2, 0, 4, -0.0f, NAN, INFINITY, -INFINITY, 3};
    memcpy(values, some, sizeof some);
    struct safetensors_tensor raw = raw_of(0, sizeof some / sizeof *some);
    struct statistics s = measure(&raw, 1);
    assert_true(s.is_known && s.n == 9 && s.n_nan == 1 && s.n_infinite == 2);
    assert_true(s.first_not_finite == 5 && s.n_zeros == 2 && s.n_outliers == 0);
    assert_true(s.sum == 6 && s.mean == 1 && s.min == -2 && s.max == 4);
    assert_true(s.variance == (0 + 9 + 1 + 9 + 1 + 4) / 5.0);
    assert_int_equal(s.int8.kind, ERROR_NONE);
}

TEST(of_nothing_and_of_one_there_is_no_variance)
{
    struct safetensors_tensor raw = raw_of(0, 0);
    struct statistics s = measure(&raw, 2);
    assert_true(s.is_known && s.n == 0 && s.sum == 0 && isnan(s.mean) && isnan(s.variance));
    assert_true(isnan(s.min) && isnan(s.max));
    values[0] = 5;
    raw = raw_of(1, 1);
    s = measure(&raw, 2);
    assert_true(s.mean == 5 && s.min == 5 && s.max == 5 && isnan(s.variance));
    assert_true(s.int8.kind == ERROR_MEASURED && s.int8.largest <= 5.0 / 127 / 2);
}

TEST(one_far_away_among_many_is_an_outlier)
{
    for (size_t i = 0; i < 1000; i++)
        values[i] = i % 2 ? 1 : -1;
    values[77] = 7;
    struct safetensors_tensor raw = raw_of(0, 1000);
    struct statistics s = measure(&raw, 1);
    assert_int_equal(s.n_outliers, 1);
    values[77] = 6; /* within the bounds: the mean is 0.005, the deviation 1.017 */
    assert_int_equal(measure(&raw, 1).n_outliers, 0);
}

/* Large sums that cancel: the error of one addition is compensated. */
TEST(sums_lose_nothing_across_parts)
{
    struct long_sum sum = {0, 0};
    smol_add(&sum, 1);
    smol_add(&sum, 1e100);
    smol_add(&sum, 1);
    smol_add(&sum, -1e100);
    assert_true(sum.sum + sum.rest == 2);
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    const uint64_t shapes[][2] = {{0, 1},    {0, 200001}, {1, 70000}, {3, 1025}, {1000, 3},
                                  {131, 33}, {257, 1000}, {64, 1024}, {70000, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        draw(MOST);
        struct safetensors_tensor raw = raw_of(shapes[i][0], shapes[i][1]);
        struct statistics one = measure(&raw, 1);
        for (unsigned n = 2; n <= 5; n++) {
            struct statistics other = measure(&raw, n);
            assert_memory_equal(&one.sum, &other.sum, sizeof one.sum);
            assert_memory_equal(&one.variance, &other.variance, sizeof one.variance);
            assert_memory_equal(&one.int8.rmse, &other.int8.rmse, sizeof one.int8.rmse);
            assert_memory_equal(&one.int8.snr, &other.int8.snr, sizeof one.int8.snr);
            assert_true(one.n_outliers == other.n_outliers && one.n_zeros == other.n_zeros);
        }
    }
}

/* Tiles values as a conversion does, and reads them back. */
TEST(the_round_trip_is_what_a_conversion_writes)
{
    for (uint64_t cols = 1; cols <= 131; cols += 13) {
        static float scratch[131], held[131], back[131];
        const struct blob_tensor layout = {
            .dtype = DTYPE_INT8, .layout = LAYOUT_TILES, .rows = 1, .cols = cols};
        struct safetensors_tensor raw = raw_of(1, cols);
        uint8_t *block = malloc(smol_block_bytes(DTYPE_INT8, cols));
        draw(cols);
        assert_non_null(block);
        assert_int_equal(smol_tile_block(&raw, &layout, NULL, 0, scratch, block).status, SMOL_OK);
        smol_untile(&layout, NULL, block, 0, 0, cols, held);
        assert_true(smol_tile_round_trip_baseline(values, cols, back));
        assert_memory_equal(back, held, cols * sizeof *held);
#if defined(__x86_64__)
        if (smol_cpu_has(CPU_AVX2))
            assert_true(smol_tile_round_trip_avx2(values, cols, back));
        assert_memory_equal(back, held, cols * sizeof *held);
#endif
        for (uint64_t c = 0; c < cols; c++) {
            float step = smol_untile_scale(&layout, block, 0, c / GROUP_INPUTS);
            assert_true(fabsf(values[c] - held[c]) <= step / 2);
        }
        free(block);
    }
}

TEST(what_int8_cannot_hold_has_no_error)
{
    draw(4 * 64);
    values[130] = 3e38f;
    struct safetensors_tensor raw = raw_of(4, 64);
    assert_int_equal(measure(&raw, 1).int8.kind, ERROR_NONE);
    values[130] = NAN;
    assert_int_equal(measure(&raw, 1).int8.kind, ERROR_NONE);
    values[130] = 1;
    assert_int_equal(measure(&raw, 1).int8.kind, ERROR_MEASURED);
    memset(values, 0, 4 * 64 * sizeof *values);
    struct statistics s = measure(&raw, 1);
    assert_true(s.int8.kind == ERROR_MEASURED && s.int8.rmse == 0 && isinf(s.int8.snr));
}

TEST(histograms_count_every_finite_element)
{
    struct model_tensor tensor = {.name = "x"};
    struct histogram histogram = {.low = -1, .high = 1};
    struct pool *pool;
    const int group[] = {0};
    const size_t n = 70001;
    draw(n);
    values[0] = -1; /* the bounds are inclusive */
    values[1] = 1;
    values[2] = NAN;
    values[3] = 1.0001f;
    struct safetensors_tensor raw = raw_of(0, n);
    smol_tensor_set_raw(&tensor, &raw);
    assert_int_equal(smol_pool_create(3, &pool, &error), SMOL_OK);
    assert_int_equal(smol_histograms(&tensor, 1, group, pool, true, &histogram, &error), SMOL_OK);
    smol_pool_destroy(pool);
    uint64_t due[HISTOGRAM_BINS] = {0}, outside = 0;
    for (size_t i = 0; i < n; i++) {
        double value = (double)values[i];
        outside += value < -1 || value > 1;
        for (unsigned bin = 0; bin < HISTOGRAM_BINS; bin++)
            due[bin] += value >= smol_histogram_edge(&histogram, bin) &&
                        (value < smol_histogram_edge(&histogram, bin + 1) ||
                         (bin + 1 == HISTOGRAM_BINS && value == 1));
    }
    assert_memory_equal(histogram.bins, due, sizeof due);
    assert_int_equal(histogram.n_outside, outside);
}

int main(void)
{
    return run_all_tests("statistics", NULL, NULL);
}
