/* Tests of log-probabilities, compared with the C library's functions in long double. */
#include <math.h>

#include "cli/request/likelihood.h"
#include "tests/unit/unit.h"

static uint64_t state = 1;

/* Returns a uniform number in [low, high), the same in every run (Knuth's MMIX generator). */
static double uniform(double low, double high)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (high - low) * (double)(state >> 11) * 0x1p-53;
}

TEST(exponentials_are_within_two_units)
{
    double worst = 0;
    for (int i = 0; i < 1000000; i++) {
        double x = i % 2 ? uniform(-708, 709) : uniform(-30, 1);
        long double expected = expl((long double)x);
        double error = (double)fabsl(((long double)smol_exp(x) - expected) / expected);
        worst = error > worst ? error : worst;
    }
    assert_true(worst < 2 * 0x1p-52);
    assert_true(smol_exp(0) == 1);
    assert_true(smol_exp(-1e300) == smol_exp(-708) && smol_exp(-708) > 0);
    assert_true(isinf(smol_exp(709.1)));
}

static long double expected_sum(const float *logits, size_t n)
{
    long double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += expl((long double)logits[i] - logits[0]);
    return logits[0] + logl(sum);
}

TEST(sums_are_those_of_long_doubles)
{
    static float logits[50000];
    for (size_t n = 1; n <= 50000; n = n < 40 ? n + 1 : n * 5)
        for (int spread = 1; spread <= 1000; spread *= 10) {
            for (size_t i = 0; i < n; i++)
                logits[i] = (float)uniform(-spread, spread);
            double error =
                (double)((long double)smol_log_sum_exp(logits, n) - expected_sum(logits, n));
            assert_true(fabs(error) < 1e-15 * spread + 1e-14);
        }
}

TEST(nothing_overflows)
{
    const float huge[] = {3e38f, -3e38f, 3e38f}, small[] = {-3e38f, -3e38f};
    assert_true(smol_log_sum_exp(huge, 3) == (double)3e38f);
    assert_true(smol_log_sum_exp(small, 2) == (double)-3e38f);
    assert_true(smol_log_sum_exp(huge, 1) == (double)3e38f);
}

TEST(the_lowest_of_the_largest_is_the_top)
{
    const float logits[] = {-5, 2, 1, 2, -7};
    assert_int_equal(smol_top_token(logits, 5), 1);
    assert_int_equal(smol_top_token(logits, 1), 0);
    assert_int_equal(smol_top_token(logits + 2, 3), 1);
}

TEST(the_largest_come_in_order_of_equals_the_lowest_first)
{
    const float logits[] = {-5, 2, 1, 2, -7, 3, 1};
    const uint32_t order[] = {5, 1, 3, 2, 6, 0, 4};
    for (size_t n = 0; n <= 9; n++) {
        uint32_t top[9];
        size_t expected = n < 7 ? n : 7;
        assert_int_equal(smol_top_tokens(logits, 7, n, top), expected);
        assert_memory_equal(top, order, expected * sizeof *top);
    }
}

TEST(means_have_their_standard_error)
{
    struct tally tally = {0};
    const double values[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
    tally_add(&tally, values[0]);
    assert_true(isnan(tally_error(&tally)));
    for (size_t i = 1; i < 4; i++)
        tally_add(&tally, values[i]);
    assert_true(tally.mean == 1e9 + 10);
    assert_true(fabs(tally_error(&tally) - sqrt(90.0 / 3 / 4)) < 1e-7);
}

int main(void)
{
    return run_all_tests("likelihood", NULL, NULL);
}
