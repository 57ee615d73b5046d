/* Tests of smol's exp, tanh, sine and cosine, compared with the C library's in double. */
#include <math.h>

#include "runtime/kernels/math.h"
#include "tests/unit/unit.h"

/* Returns the distance of `got` from `want` in units of the last place of want as a float. */
static double ulps(double want, float got)
{
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - 24);
}

TEST(exp_is_within_two_units_of_the_c_library)
{
    for (float x = -87.3f; x < 88.3f; x += 0.0037f)
        assert_true(ulps(exp((double)x), math_exp(x)) < 2);
    assert_true(math_exp(-INFINITY) == 0 && math_exp(-87.4f) == 0);
    assert_true(math_exp(0) == 1.0f);
    assert_true(isnan(math_exp(NAN)));
}

TEST(tanh_is_within_three_units_of_the_c_library)
{
    for (float x = 0x1p-140f; x < 100; x = x * 1.00003f + 0x1p-149f) {
        float y = math_tanh(x);
        assert_true(ulps(tanh((double)x), y) < 3);
        assert_true(math_tanh(-x) == -y && y <= 1);
    }
    assert_true(math_tanh(INFINITY) == 1 && math_tanh(-INFINITY) == -1);
    assert_true(math_tanh(0) == 0 && !signbit(math_tanh(0)) && signbit(math_tanh(-0.0f)));
    assert_true(isnan(math_tanh(NAN)) && isnan(math_tanh(-NAN)));
}

TEST(normal_is_near_the_c_library)
{
    for (float x = 0; x < 13; x += 0.00037f) {
        double tail = 0.5 * erfc((double)x * sqrt(0.5));
        assert_true(fabs((double)math_normal(x) - (1 - tail)) < 3e-7);
        assert_true(fabs((double)math_normal(-x) - tail) < 3e-7);
        assert_true(fabs((double)math_normal(-x) - tail) < 8e-6 * tail);
    }
    assert_true(math_normal(INFINITY) == 1 && math_normal(-INFINITY) == 0);
    assert_true(isnan(math_normal(NAN)));
}

TEST(log_is_rounded_like_the_c_library)
{
    for (float x = 1; x < 0x1p25f; x = x * 1.00003f + 0x1p-10f)
        assert_true(ulps(log((double)x), math_log(x)) <= 0.51);
    assert_true(math_log(1) == 0 && math_log(2) == (float)log(2));
}

TEST(softplus_and_sigmoid_are_near_the_c_library)
{
    for (float x = -87.2f; x < 100; x += 0.0037f) {
        assert_true(ulps(log1p(exp(-fabs((double)x))) + fmax((double)x, 0), math_softplus(x)) < 3);
        assert_true(ulps(1 / (1 + exp(-(double)x)), math_sigmoid(x)) < 4);
    }
    assert_true(math_softplus(-INFINITY) == 0 && math_softplus(INFINITY) == INFINITY);
    assert_true(isnan(math_softplus(NAN)) && isnan(math_sigmoid(NAN)));
}

TEST(sine_and_cosine_are_rounded_correctly)
{
    for (float x = 0; x < 131072; x = x * 1.0003f + 0.001f) {
        float s, c;
        math_sincos(x, &s, &c);
        assert_true(s == (float)sin((double)x) && c == (float)cos((double)x));
        math_sincos(-x, &s, &c);
        assert_true(s == (float)sin(-(double)x) && c == (float)cos((double)x));
    }
}

int main(void)
{
    return run_all_tests("math", NULL, NULL);
}
