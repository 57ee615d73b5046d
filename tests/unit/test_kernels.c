/* Every instruction set's kernels against the scalar ones: the same bits on random shapes, at the
 * extremes, with guard pages around every buffer. A set that this machine cannot run is skipped
 * in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/math.h"
#include "tests/unit/guarded.h"

enum { ROUNDS = 200 };

static uint64_t random_state = 0x123456789abcdefu;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static size_t random_up_to(size_t n)
{
    return 1 + random_bits() % n;
}

static float random_float(void)
{
    return ((float)(random_bits() >> 8) * 0x1p-24f - 0.5f) * 8;
}

/* How the operands of a round look. */
enum pattern { RANDOM, ALL_MINIMUM, ALL_MAXIMUM, MIXED_EXTREMES, PATTERNS };

static int8_t pattern_step(enum pattern pattern)
{
    switch (pattern) {
    case ALL_MINIMUM:
        return -127;
    case ALL_MAXIMUM:
        return 127;
    case MIXED_EXTREMES:
        return random_bits() & 1 ? 127 : -127;
    default:
        return (int8_t)(random_bits() % 255 - 127);
    }
}

static void assert_same_bits(const float *a, const float *b, size_t n, const char *kernel,
                             const char *set)
{
    for (size_t i = 0; i < n; i++)
        if (f32_bits(a[i]) != f32_bits(b[i])) {
            print_error("%s of %s: element %zu of %zu is %a, should be %a\n", kernel, set, i, n,
                        (double)b[i], (double)a[i]);
            fail();
        }
}

typedef void check_set(const struct kernels *scalar, const struct kernels *set);

static void for_each_set(check_set *check)
{
    bool runs;
    const struct kernels *scalar = smol_kernels_at(0, &runs);
    for (size_t i = 1;; i++) {
        const struct kernels *set = smol_kernels_at(i, &runs);
        if (!set)
            break;
        if (runs)
            check(scalar, set);
        else
            print_message("SKIPPED: this machine cannot run the %s kernels\n", set->name);
    }
}

static void check_matmul_int8(const struct kernels *scalar, const struct kernels *set)
{
    for (int round = 0; round < ROUNDS; round++) {
        enum pattern pattern = round % PATTERNS;
        size_t n_groups = random_up_to(40), n_tokens = random_up_to(33);
        size_t size = n_groups * GROUP_INPUTS, out_stride = TILE_ROWS + random_up_to(5) - 1;
        size_t block_bytes = smol_block_bytes(DTYPE_INT8, n_groups * GROUP_INPUTS);
        struct guarded block = guarded_new(block_bytes, 64);
        struct guarded q = guarded_new(n_tokens * size, 1);
        struct guarded scales = guarded_new(n_tokens * n_groups * sizeof(float), 4);
        struct guarded offsets = guarded_new(n_tokens * n_groups * sizeof(int32_t), 4);
        struct quantized x = {q.data, scales.data, offsets.data, n_tokens};
        size_t out_size = ((n_tokens - 1) * out_stride + TILE_ROWS) * sizeof(float);
        struct guarded want = guarded_new(out_size, 4), got = guarded_new(out_size, 4);
        for (size_t group = 0; group < n_groups; group++) {
            uint16_t *halves = (void *)((uint8_t *)block.data + group_scales_offset(group));
            int8_t *weights = (void *)((uint8_t *)block.data + group_weights_offset(group));
            for (size_t row = 0; row < TILE_ROWS; row++)
                halves[row] = (uint16_t)(random_bits() % 0x7c00); /* subnormals too */
            for (size_t i = 0; i < GROUP_BYTES; i++)
                weights[i] = pattern_step(pattern);
        }
        for (size_t i = 0; i < n_tokens * size; i++)
            ((int8_t *)q.data)[i] = pattern_step(pattern);
        for (size_t i = 0; i < n_tokens * n_groups; i++) {
            x.scales[i] = fabsf(random_float());
            x.offsets[i] = 0;
        }
        for (size_t i = 0; i < n_tokens * size; i++) /* (n_groups, 8, n_tokens, 4) */
            x.offsets[i / (32 * n_tokens) * n_tokens + i / 4 % n_tokens] -= 128 * x.steps[i];
        scalar->matmul_int8(block.data, n_groups, &x, want.data, out_stride);
        set->matmul_int8(block.data, n_groups, &x, got.data, out_stride);
        for (size_t t = 0; t < n_tokens; t++)
            assert_same_bits((float *)want.data + t * out_stride,
                             (float *)got.data + t * out_stride, TILE_ROWS, "matmul_int8",
                             set->name);
        guarded_free(&block);
        guarded_free(&q);
        guarded_free(&scales);
        guarded_free(&offsets);
        guarded_free(&want);
        guarded_free(&got);
    }
}

static void int8_products_are_bit_identical(void **state)
{
    (void)state;
    for_each_set(check_matmul_int8);
}

static struct guarded random_floats(size_t n, size_t align)
{
    struct guarded g = guarded_new(n * sizeof(float), align);
    for (size_t i = 0; i < n; i++)
        ((float *)g.data)[i] = random_float();
    return g;
}

static void check_matmul_f32(const struct kernels *scalar, const struct kernels *set)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t cols = random_up_to(100), n_tokens = random_up_to(15);
        size_t x_stride = cols + random_up_to(4) - 1;
        struct guarded block = random_floats(cols * TILE_ROWS, 64);
        struct guarded x = random_floats((n_tokens - 1) * x_stride + cols, 4);
        struct guarded want = random_floats(n_tokens * TILE_ROWS, 4);
        struct guarded got = random_floats(n_tokens * TILE_ROWS, 4);
        scalar->matmul_f32(block.data, cols, x.data, x_stride, n_tokens, want.data, TILE_ROWS);
        set->matmul_f32(block.data, cols, x.data, x_stride, n_tokens, got.data, TILE_ROWS);
        assert_same_bits(want.data, got.data, n_tokens * TILE_ROWS, "matmul_f32", set->name);
        guarded_free(&block);
        guarded_free(&x);
        guarded_free(&want);
        guarded_free(&got);
    }
}

static void f32_products_are_bit_identical(void **state)
{
    (void)state;
    for_each_set(check_matmul_f32);
}

static void check_matmul_bf16(const struct kernels *scalar, const struct kernels *set)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t cols = random_up_to(100), n_tokens = random_up_to(21);
        size_t x_stride = cols + random_up_to(4) - 1;
        struct guarded block = random_floats((cols + 1) / 2 * TILE_ROWS, 64);
        struct guarded x = random_floats((n_tokens - 1) * x_stride + cols, 4);
        struct guarded want = random_floats(n_tokens * TILE_ROWS, 4);
        struct guarded got = random_floats(n_tokens * TILE_ROWS, 4);
        for (size_t i = 0; i < (cols + 1) / 2 * TILE_ROWS; i++) {
            uint32_t low = f32_bits(random_float()), high = f32_bits(random_float());
            ((uint32_t *)block.data)[i] = low >> 16 | (high & 0xffff0000u);
        }
        scalar->matmul_bf16(block.data, cols, x.data, x_stride, n_tokens, want.data, TILE_ROWS);
        set->matmul_bf16(block.data, cols, x.data, x_stride, n_tokens, got.data, TILE_ROWS);
        assert_same_bits(want.data, got.data, n_tokens * TILE_ROWS, "matmul_bf16", set->name);
        guarded_free(&block);
        guarded_free(&x);
        guarded_free(&want);
        guarded_free(&got);
    }
}

static void bf16_products_are_bit_identical(void **state)
{
    (void)state;
    for_each_set(check_matmul_bf16);
}

/* One row of n_groups groups. */
static struct quantized quantized_in(const struct guarded *g, size_t n_groups)
{
    float *scales = g->data;
    int32_t *offsets = (int32_t *)(scales + n_groups);
    return (struct quantized){(int8_t *)(offsets + n_groups), scales, offsets, 1};
}

static void check_quantize(const struct kernels *scalar, const struct kernels *set)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_up_to(200), n_groups = (n + GROUP_INPUTS - 1) / GROUP_INPUTS;
        struct guarded x = random_floats(n, 4);
        if (round % 3 == 0) /* magnitudes from zero over subnormals to huge */
            for (size_t i = 0; i < n; i++)
                ((float *)x.data)[i] = f32_from_bits(random_bits() & 0xbf7fffffu);
        if (round % 7 == 0)
            memset(x.data, 0, n * sizeof(float));
        size_t stride = n_groups * GROUP_INPUTS;
        struct guarded want = guarded_new(stride + n_groups * 8, 4);
        struct guarded got = guarded_new(stride + n_groups * 8, 4);
        struct quantized want_q = quantized_in(&want, n_groups),
                         got_q = quantized_in(&got, n_groups);
        assert_true(scalar->quantize(x.data, n, &want_q, 0));
        assert_true(set->quantize(x.data, n, &got_q, 0));
        assert_memory_equal(want.data, got.data, stride + n_groups * 8);
        for (size_t group = 0; group < n_groups; group++) {
            int32_t sum = 0;
            for (size_t i = 0; i < GROUP_INPUTS; i++) {
                assert_true(got_q.steps[group * GROUP_INPUTS + i] >= -127);
                sum += got_q.steps[group * GROUP_INPUTS + i];
            }
            assert_int_equal(got_q.offsets[group], -128 * sum);
        }
        ((float *)x.data)[random_up_to(n) - 1] = round & 1 ? NAN : -INFINITY;
        assert_false(scalar->quantize(x.data, n, &want_q, 0));
        assert_false(set->quantize(x.data, n, &got_q, 0));
        guarded_free(&x);
        guarded_free(&want);
        guarded_free(&got);
    }
}

static void quantizing_is_bit_identical_and_notices_nan(void **state)
{
    (void)state;
    for_each_set(check_quantize);
}

static void check_elementwise(const struct kernels *scalar, const struct kernels *set)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = random_up_to(300);
        struct guarded x = random_floats(n, 4), weight = random_floats(n, 4);
        struct guarded want = random_floats(n, 4), got = random_floats(n, 4);
        scalar->rms_norm(x.data, weight.data, n, 1e-5f, want.data);
        set->rms_norm(x.data, weight.data, n, 1e-5f, got.data);
        assert_same_bits(want.data, got.data, n, "rms_norm", set->name);
        for (size_t i = 0; i < n; i++)
            ((float *)want.data)[i] = ((float *)got.data)[i] = random_float() * 30;
        scalar->swiglu(want.data, x.data, n);
        set->swiglu(got.data, x.data, n);
        assert_same_bits(want.data, got.data, n, "swiglu", set->name);
        uint16_t want_half[300], got_half[300];
        for (size_t i = 0; i < n; i++) /* any finite value */
            ((float *)x.data)[i] = f32_from_bits(random_bits() & 0xbfffffffu);
        scalar->to_f16(x.data, n, want_half);
        set->to_f16(x.data, n, got_half);
        assert_memory_equal(want_half, got_half, n * sizeof(uint16_t));
        guarded_free(&x);
        guarded_free(&weight);
        guarded_free(&want);
        guarded_free(&got);
    }
}

static void elementwise_kernels_are_bit_identical(void **state)
{
    (void)state;
    for_each_set(check_elementwise);
}

static struct guarded random_cache(enum kv_type type, size_t n)
{
    struct guarded g = guarded_new(n * (type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1), 16);
    for (size_t i = 0; i < n; i++)
        if (type == KV_F32)
            ((float *)g.data)[i] = random_float();
        else if (type == KV_F16)
            ((uint16_t *)g.data)[i] = f16_from_f32(random_float());
        else
            ((int8_t *)g.data)[i] = pattern_step(RANDOM);
    return g;
}

/* Each query's maximum, sum and values, then working memory for scores. */
static struct attention attention_in(const struct guarded *g, size_t n, size_t dim,
                                     const float *queries)
{
    size_t stride = round_up(dim, 16);
    float *data = g->data;
    struct attention a = {n, dim, queries, data, data + n, data + 17 * n, data + (17 + stride) * n};
    for (size_t j = 0; j < n * (17 + stride); j++)
        data[j] = j < n ? -FLT_MAX : 0;
    return a;
}

static void check_attention(const struct kernels *scalar, const struct kernels *set)
{
    for (int round = 0; round < ROUNDS; round++) {
        enum kv_type type = round % KV_TYPES;
        size_t dim = 2 * random_up_to(80), stride = round_up(dim, 16);
        size_t n = random_up_to(QUERY_TILE);
        struct guarded queries = random_floats(n * dim, 4);
        size_t state = (17 + stride) * n, all_floats = state + KV_BLOCK * n;
        struct guarded want = random_floats(all_floats, 4), got = random_floats(all_floats, 4);
        struct attention a = attention_in(&want, n, dim, queries.data);
        struct attention b = attention_in(&got, n, dim, queries.data);
        for (int n_blocks = 0; n_blocks < 3; n_blocks++) {
            struct guarded k = random_cache(type, KV_BLOCK * dim);
            struct guarded v = random_cache(type, KV_BLOCK * stride);
            struct guarded k_scale = random_floats(KV_BLOCK, 4);
            struct guarded v_scale = random_floats(KV_BLOCK, 4);
            struct kv_block block = {k.data, v.data, NULL, NULL};
            if (type == KV_INT8) {
                block.k_scale = k_scale.data;
                block.v_scale = v_scale.data;
            }
            uint32_t visible[QUERY_TILE];
            for (size_t j = 0; j < n; j++)
                visible[j] = (uint32_t)random_up_to(KV_BLOCK + 1) - 1;
            scalar->attend[type](&a, &block, visible, 0.125f);
            set->attend[type](&b, &block, visible, 0.125f);
            assert_same_bits(want.data, got.data, state, "attend", set->name);
            guarded_free(&k);
            guarded_free(&v);
            guarded_free(&k_scale);
            guarded_free(&v_scale);
        }
        guarded_free(&queries);
        guarded_free(&want);
        guarded_free(&got);
    }
}

static void attention_is_bit_identical_for_every_cache_type(void **state)
{
    (void)state;
    for_each_set(check_attention);
}

static void unknown_instruction_sets_are_refused_by_name(void **state)
{
    (void)state;
    struct error error;
    const struct kernels *kernels = NULL;
    setenv("SMOL_ISA", "scalar", 1);
    assert_int_equal(smol_kernels_select(&kernels, &error), STATUS_OK);
    assert_string_equal(kernels->name, "scalar");
    setenv("SMOL_ISA", "mmx", 1);
    assert_int_equal(smol_kernels_select(&kernels, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "mmx"));
    unsetenv("SMOL_ISA");
}

/* The distance of `got` from `want` in units of the last place of want as a float. */
static double ulps(double want, float got)
{
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - 24);
}

static void exp_is_within_two_units_of_the_c_library(void **state)
{
    (void)state;
    for (float x = -87.3f; x < 88.3f; x += 0.0037f)
        assert_true(ulps(exp((double)x), math_exp(x)) < 2);
    assert_true(math_exp(-INFINITY) == 0 && math_exp(-87.4f) == 0);
    assert_true(math_exp(0) == 1.0f);
    assert_true(isnan(math_exp(NAN)));
}

static void sine_and_cosine_are_rounded_correctly(void **state)
{
    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_products_are_bit_identical),
        cmocka_unit_test(f32_products_are_bit_identical),
        cmocka_unit_test(bf16_products_are_bit_identical),
        cmocka_unit_test(quantizing_is_bit_identical_and_notices_nan),
        cmocka_unit_test(elementwise_kernels_are_bit_identical),
        cmocka_unit_test(attention_is_bit_identical_for_every_cache_type),
        cmocka_unit_test(unknown_instruction_sets_are_refused_by_name),
        cmocka_unit_test(exp_is_within_two_units_of_the_c_library),
        cmocka_unit_test(sine_and_cosine_are_rounded_correctly),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
