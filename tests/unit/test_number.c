/* Tests of the 16-bit floating-point conversions, compared with their definition (a table of all
 * values in double) and, if the processor has F16C, with its instructions. */
#include <math.h>

#include "common/cpu.h"
#include "common/number.h"
#include "tests/unit/unit.h"

enum { INFINITE = 0x7c00, N_HALVES = 0x10000, RANDOM_ROUNDS = 2000000 };

/* Returns the value of a half >= 0 by definition. The value that would follow 65504 represents
 * infinity, because rounding treats the range as unbounded. */
static double value_of(unsigned half)
{
    unsigned exponent = half >> 10, fraction = half & 0x3ff;
    return exponent ? ldexp(1024 + fraction, (int)exponent - 25) : ldexp(fraction, -24);
}

/* Returns the half >= 0 whose value is nearest to `value` >= 0; ties to even. */
static unsigned nearest_half(double value)
{
    unsigned low = 0, high = INFINITE; /* value_of(low) <= value < value_of(high) */
    if (value >= value_of(INFINITE))
        return INFINITE;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (value_of(middle) <= value)
            low = middle;
        else
            high = middle;
    }
    double below = value - value_of(low), above = value_of(high) - value;
    return below < above || (below == above && low % 2 == 0) ? low : high;
}

/* Expects that both signs of `magnitude` become the nearest half. */
static void check_narrowing(float magnitude)
{
    unsigned want = nearest_half(magnitude);
    unsigned plus = f16_from_f32(magnitude), minus = f16_from_f32(-magnitude);
    if (plus != want || minus != (want | 0x8000u))
        fail_msg("%a became 0x%04x, its negative 0x%04x, should be 0x%04x", (double)magnitude, plus,
                 minus, want);
}

/* ---- widening ---- */

TEST(widens_every_finite_half_exactly)
{
    for (unsigned half = 0; half < INFINITE; half++) {
        float plus = f32_from_f16((uint16_t)half), minus = f32_from_f16((uint16_t)(half | 0x8000u));
        if ((double)plus != value_of(half) || f32_bits(minus) != (f32_bits(plus) | 0x80000000u))
            fail_msg("0x%04x became %a and %a", half, (double)plus, (double)minus);
    }
}

TEST(widens_infinities_and_nans_with_their_payload)
{
    for (unsigned half = INFINITE; half < 0x8000; half++)
        for (unsigned sign = 0; sign < 2; sign++) {
            uint32_t want = sign << 31 | 0x7f800000u | (half & 0x3ff) << 13;
            assert_int_equal(f32_bits(f32_from_f16((uint16_t)(half | sign << 15))), want);
        }
}

TEST(widens_every_bf16_to_its_own_bits)
{
    for (unsigned half = 0; half < N_HALVES; half++)
        assert_int_equal(f32_bits(f32_from_bf16((uint16_t)half)), half << 16);
}

/* Computes the value from sign, exponent and fraction; `bias` is the exponent's. */
static double value_of_byte(unsigned byte, int fraction_bits, int bias)
{
    int exponent = (int)(byte & 0x7f) >> fraction_bits;
    unsigned fraction = byte & ((1u << fraction_bits) - 1);
    double one = exponent ? 1u << fraction_bits : 0;
    double value = ldexp(one + fraction, (exponent ? exponent : 1) - bias - fraction_bits);
    return byte & 0x80 ? -value : value;
}

TEST(widens_every_byte_of_both_formats_exactly)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        float e4m3 = f32_from_f8_e4m3((uint8_t)byte), e5m2 = f32_from_f8_e5m2((uint8_t)byte);
        assert_int_equal(signbit(e4m3) != 0, byte >> 7);
        assert_int_equal(signbit(e5m2) != 0, byte >> 7);
        if ((byte & 0x7f) == 0x7f)
            assert_true(isnan(e4m3));
        else
            assert_true((double)e4m3 == value_of_byte(byte, 3, 7));
        if ((byte & 0x7f) < 0x7c)
            assert_true((double)e5m2 == value_of_byte(byte, 2, 15));
        else
            assert_true((byte & 0x7f) == 0x7c ? isinf(e5m2) : isnan(e5m2));
    }
}

/* ---- narrowing ---- */

TEST(every_half_survives_the_round_trip)
{
    for (unsigned half = 0; half < N_HALVES; half++) {
        unsigned quiet = (half & 0x7fff) > INFINITE ? 0x200u : 0; /* NaN becomes quiet */
        assert_int_equal(f16_from_f32(f32_from_f16((uint16_t)half)), half | quiet);
    }
}

TEST(rounds_halfway_cases_to_even_and_their_neighbours_to_the_nearest)
{
    for (unsigned half = 0; half < INFINITE; half++) {
        float middle = (float)((value_of(half) + value_of(half + 1)) / 2);
        check_narrowing(middle);
        check_narrowing(nextafterf(middle, 0));
        check_narrowing(nextafterf(middle, INFINITY));
    }
}

TEST(rounds_random_floats_to_the_nearest)
{
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        uint32_t bits = random_bits() & 0x7fffffffu;
        if (round % 2) /* within the range of f16, including subnormals */
            bits = 0x32000000u + bits % (0x48000000u - 0x32000000u);
        if (bits < 0x7f800000u)
            check_narrowing(f32_from_bits(bits));
    }
}

TEST(too_large_becomes_infinity_and_nan_stays_nan)
{
    assert_int_equal(f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(f16_from_f32(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(f16_from_f32(65520.0f), INFINITE);
    assert_int_equal(f16_from_f32(-FLT_MAX), INFINITE | 0x8000);
    assert_int_equal(f16_from_f32(INFINITY), INFINITE);
    for (uint32_t payload = 1; payload < 0x800000u; payload += 4099)
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint16_t half = f16_from_f32(f32_from_bits(sign << 31 | 0x7f800000u | payload));
            assert_true((half & 0x7fff) > INFINITE + 0x1ff); /* quiet */
            assert_int_equal(half >> 15, sign);
        }
}

/* ---- bf16 ---- */

/* Expects that both signs of a finite magnitude become the nearest bf16, ties to even; rounding
 * treats the range as unbounded. */
static void check_bf16(float magnitude)
{
    unsigned low = f32_bits(magnitude) >> 16, high = low + 1;
    double above = high == 0x7f80 ? 0x1p128 : (double)f32_from_bf16((uint16_t)high);
    double to_low = (double)magnitude - (double)f32_from_bf16((uint16_t)low);
    double to_high = above - (double)magnitude;
    unsigned want = to_low < to_high || (to_low == to_high && low % 2 == 0) ? low : high;
    unsigned plus = bf16_from_f32(magnitude), minus = bf16_from_f32(-magnitude);
    if (plus != want || minus != (want | 0x8000u))
        fail_msg("%a became 0x%04x, its negative 0x%04x, should be 0x%04x", (double)magnitude, plus,
                 minus, want);
}

TEST(rounds_to_the_nearest_bf16_ties_to_even)
{
    for (uint32_t half = 0; half < 0x7f80; half++) {
        check_bf16(f32_from_bits(half << 16));
        check_bf16(f32_from_bits(half << 16 | 0x7fff));
        check_bf16(f32_from_bits(half << 16 | 0x8000)); /* halfway */
        check_bf16(f32_from_bits(half << 16 | 0x8001));
        check_bf16(f32_from_bits(half << 16 | 0xffff));
    }
    for (int round = 0; round < RANDOM_ROUNDS; round++)
        check_bf16(f32_from_bits(random_bits() % 0x7f800000u));
    assert_int_equal(bf16_from_f32(INFINITY), 0x7f80);
    assert_int_equal(bf16_from_f32(-INFINITY), 0xff80);
}

/* ---- against the processor ---- */

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("f16c"))) static uint16_t narrow_by_f16c(float value)
{
    return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("f16c"))) static float widen_by_f16c(uint16_t half)
{
    return _cvtsh_ss(half);
}

TEST(agrees_with_the_processors_own_conversions)
{
    if (!smol_cpu_has(CPU_AVX2)) {
        print_message("SKIPPED: this machine has no F16C\n");
        skip();
    }
    for (unsigned half = 0; half < N_HALVES; half++) {
        uint32_t quiet = (half & 0x7fff) > INFINITE ? 0x400000u : 0; /* F16C quiets NaN */
        assert_int_equal(f32_bits(f32_from_f16((uint16_t)half)) | quiet,
                         f32_bits(widen_by_f16c((uint16_t)half)));
    }
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        float value = f32_from_bits(random_bits()); /* NaN included */
        if (f16_from_f32(value) != narrow_by_f16c(value))
            fail_msg("%a became 0x%04x, F16C says 0x%04x", (double)value, f16_from_f32(value),
                     narrow_by_f16c(value));
    }
}
#else
TEST(agrees_with_the_processors_own_conversions)
{
    print_message("SKIPPED: no F16C on this kind of processor\n");
    skip();
}
#endif

/* ---- rounding up ---- */

TEST(rounds_up_to_the_smallest_half_that_is_not_below)
{
    for (unsigned half = 0; half < INFINITE; half++) {
        float exact = f32_from_f16((uint16_t)half);
        assert_int_equal(f16_from_f32_up(exact), half);
        assert_int_equal(f16_from_f32_up(nextafterf(exact, INFINITY)), half + 1);
        if (half > 0)
            assert_int_equal(f16_from_f32_up(nextafterf(exact, 0)), half);
    }
    assert_int_equal(f16_from_f32_up(FLT_MAX), INFINITE);
    assert_int_equal(f16_from_f32_up(0x1p-149f), 1);
}

TEST(rounds_random_floats_up)
{
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        float value = f32_from_bits(random_bits() % 0x477fe001u); /* up to 65504 */
        unsigned half = f16_from_f32_up(value);
        if (value_of(half) < (double)value || (half > 0 && value_of(half - 1) >= (double)value))
            fail_msg("%a became 0x%04x", (double)value, half);
    }
}

/* ---- to integers ---- */

TEST(rounds_to_integers_like_rint)
{
    const float limit = 0x1p22f;
    for (int i = 0; i < 1 << 22; i += i < 1000 ? 1 : 997) {
        float tie = (float)i + 0.5f;
        const float near[] = {(float)i, tie, nextafterf(tie, 0), nextafterf(tie, limit)};
        for (size_t j = 0; j < sizeof near / sizeof near[0]; j++) {
            assert_true(f32_round_even(near[j]) == rintf(near[j]) || near[j] >= limit);
            assert_true(f32_round_even(-near[j]) == rintf(-near[j]) || near[j] >= limit);
        }
    }
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        float value = f32_from_bits(random_bits() % 0x4a800000u); /* below 2^22 */
        if (f32_round_even(value) != rintf(value) || f32_round_even(-value) != rintf(-value))
            fail_msg("%a became %a", (double)value, (double)f32_round_even(value));
    }
}

TEST(tells_finite_from_not)
{
    assert_true(f32_is_finite(0) && f32_is_finite(-FLT_MAX) && f32_is_finite(0x1p-149f));
    assert_false(f32_is_finite(INFINITY) || f32_is_finite(-INFINITY) || f32_is_finite(NAN));
    assert_false(f32_is_finite(f32_from_bits(0xff800001u)));
}

int main(void)
{
    return run_all_tests("number", NULL, NULL);
}
