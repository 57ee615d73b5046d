/* The kernels that go over vectors: quantizing, normalizing, SwiGLU, conversion to f16. */
#include "tests/kernels/check_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "tests/kernels/buffers.h"

enum { MAX_ELEMENTS = 300 };

/* --- quantize -------------------------------------------------------------------------------- */

/* Groups that are random, or of all magnitudes, zero, at the extremes, or half-way between steps.
 */
static const char *fill_inputs(float *x, size_t n)
{
    size_t kind = random_bits() % 5;
    float extreme = fabsf(random_wide());
    for (size_t i = 0; i < n; i++) {
        float sign = random_bits() & 1 ? -1.0f : 1.0f;
        float half_way = (float)random_within(0, 126) + 0.5f;
        const float values[] = {random_float(), random_wide(), sign * 0, sign * extreme,
                                i % GROUP_INPUTS ? sign * half_way : sign * 127};
        x[i] = values[kind];
    }
    const char *const names[] = {"ordinary", "of all magnitudes", "zero", "extreme", "half-way"};
    return names[kind];
}

static bool same_quantized(const struct quantized *want, const struct quantized *got,
                           size_t n_groups)
{
    size_t n = n_groups * want->stride;
    for (size_t i = 0; i < n; i++)
        if (want->offsets[i] != got->offsets[i])
            return report("offset %zu of %zu is %d, should be %d", i, n, got->offsets[i],
                          want->offsets[i]);
    size_t n_bytes = n * GROUP_INPUTS * (want->wide ? 2 : 1);
    return same_steps("byte of steps", want->steps, got->steps, n_bytes) &&
           same_floats("scale", want->scales, got->scales, n);
}

/* Checks what holds for every answer, the scalar one too: no -128, and the offset of the steps. */
static bool is_quantized(const struct quantized *q, size_t t, size_t size)
{
    for (size_t group = 0; group * GROUP_INPUTS < size; group++) {
        int32_t sum = 0;
        for (size_t i = group * GROUP_INPUTS; i < (group + 1) * GROUP_INPUTS; i++) {
            int32_t step = quantized_step(q, i, t), most = q->wide ? 127 * 256 : 127;
            if (abs(step) > most || (i >= size && step))
                return report("step %zu of %zu is %d", i, size, step);
            sum += step;
        }
        if (q->offsets[group * q->stride + t] != -128 * sum)
            return report("the offset of group %zu does not belong to its steps", group);
    }
    return true;
}

/* One of several tokens; what belongs to the others must stay as it is. */
static bool run_quantize(const struct kernels *set)
{
    size_t size = random_within(1, MAX_ELEMENTS), n_groups = count_groups(size);
    size_t n = random_within(1, 3), t = random_within(0, n - 1);
    float *x = floats_new(size);
    const char *kind = fill_inputs(x, size);
    bool wide = random_bits() % 2;
    describe("%zu elements, token %zu of %zu, %s numbers, wide %d", size, t, n, kind, wide);
    const struct quantized want = quantized_new(n, n, n_groups, wide), got = quantized_copy(&want);
    if (!smol_kernels_scalar.quantize(x, size, &want, t) || !set->quantize(x, size, &got, t))
        return report("finite numbers were refused");
    if (!is_quantized(&want, t, size))
        return false;
    for (size_t group = 0; wide && set->pair_steps && group < n_groups; group++)
        quantized_pair(&want, group, t);
    if (!same_quantized(&want, &got, n_groups))
        return false;
    x[random_within(0, size - 1)] = random_bits() & 1 ? NAN : -INFINITY;
    if (smol_kernels_scalar.quantize(x, size, &want, t) || set->quantize(x, size, &got, t))
        return report("NaN or infinity was not noticed");
    return true;
}

/* One group of the first tokens; other groups and tokens must stay as they are. */
static bool run_quantize_slice(const struct kernels *set)
{
    size_t stride = random_within(1, 40), n = random_within(1, stride), n_groups = 3;
    size_t group = random_within(0, n_groups - 1), size = n * GROUP_INPUTS;
    float *x = floats_new(size);
    const char *kind = fill_inputs(x, size);
    bool wide = random_bits() % 2;
    describe("group %zu of %zu tokens of %zu, %s numbers, wide %d", group, n, stride, kind, wide);
    const struct quantized want = quantized_new(stride, stride, n_groups, wide),
                           got = quantized_copy(&want);
    if (!smol_kernels_scalar.quantize_slice(x, n, &want, group) ||
        !set->quantize_slice(x, n, &got, group))
        return report("finite numbers were refused");
    for (size_t t = 0; wide && set->pair_steps && t < n; t++)
        quantized_pair(&want, group, t);
    if (!same_quantized(&want, &got, n_groups))
        return false;
    x[random_within(0, size - 1)] = random_bits() & 1 ? NAN : INFINITY;
    if (smol_kernels_scalar.quantize_slice(x, n, &want, group) ||
        set->quantize_slice(x, n, &got, group))
        return report("NaN or infinity was not noticed");
    return true;
}

/* --- norms, activations, to_f16 --------------------------------------------------------------- */

static bool run_rms_norm(const struct kernels *set)
{
    size_t n = random_within(1, MAX_ELEMENTS);
    describe("%zu elements", n);
    float *x = floats_new(n), *weight = floats_new(n);
    float eps = random_bits() & 1 ? 1e-5f : 1e-6f;
    if (random_bits() % 4 == 0)
        memset(x, 0, n * sizeof *x);
    float *want = floats_new(n), *got = buffer_copy(want);
    smol_kernels_scalar.rms_norm(x, weight, n, eps, want);
    set->rms_norm(x, weight, n, eps, got);
    if (!same_floats("output", want, got, n))
        return false;
    set->rms_norm(x, weight, n, eps, x);
    return same_floats("output in place", want, x, n);
}

static bool run_layer_norm(const struct kernels *set)
{
    size_t n = random_within(1, MAX_ELEMENTS);
    describe("%zu elements", n);
    float *x = floats_new(n), *weight = floats_new(n), *bias = floats_new(n);
    float eps = random_bits() & 1 ? 1e-5f : 1e-12f;
    if (random_bits() % 4 == 0)
        for (size_t i = 0; i < n; i++)
            x[i] = x[0];
    float *want = floats_new(n), *got = buffer_copy(want);
    smol_kernels_scalar.layer_norm(x, weight, bias, n, eps, want);
    set->layer_norm(x, weight, bias, n, eps, got);
    if (!same_floats("output", want, got, n))
        return false;
    set->layer_norm(x, weight, bias, n, eps, x);
    return same_floats("output in place", want, x, n);
}

/* n numbers, some of them far enough for exp and tanh to reach both ends. */
static float *wide_floats(size_t n)
{
    float *x = floats_new(n);
    for (size_t i = 0; i < n; i++)
        x[i] = random_bits() % 4 ? random_float() : random_float() * 30;
    return x;
}

static bool run_gate(void (*scalar)(float *, const float *, size_t),
                     void (*kernel)(float *, const float *, size_t))
{
    size_t n = random_within(1, MAX_ELEMENTS);
    describe("%zu elements", n);
    float *up = floats_new(n), *want = wide_floats(n), *got = buffer_copy(want);
    float *want_alone = buffer_copy(want), *got_alone = buffer_copy(want);
    scalar(want, up, n);
    kernel(got, up, n);
    if (!same_floats("output", want, got, n))
        return false;
    scalar(want_alone, NULL, n);
    kernel(got_alone, NULL, n);
    for (size_t i = 0; i < n; i++)
        if (f32_bits(want_alone[i] * up[i]) != f32_bits(want[i]))
            return report("a gate is not the product of activation and up");
    return same_floats("output without a gate", want_alone, got_alone, n);
}

static bool run_swiglu(const struct kernels *set)
{
    return run_gate(smol_kernels_scalar.swiglu, set->swiglu);
}

static bool run_geglu_tanh(const struct kernels *set)
{
    return run_gate(smol_kernels_scalar.geglu_tanh, set->geglu_tanh);
}

static bool run_geglu(const struct kernels *set)
{
    return run_gate(smol_kernels_scalar.geglu, set->geglu);
}

static bool run_reglu_squared(const struct kernels *set)
{
    return run_gate(smol_kernels_scalar.reglu_squared, set->reglu_squared);
}

/* Numbers of all magnitudes too. */
static bool run_softcap(const struct kernels *set)
{
    size_t n = random_within(1, MAX_ELEMENTS);
    float cap = fabsf(random_wide()) + 0x1p-126f;
    float *want = wide_floats(n);
    for (size_t i = 0; i < n; i++)
        want[i] = random_bits() % 4 ? want[i] : random_wide();
    describe("%zu elements, cap %g", n, (double)cap);
    float *got = buffer_copy(want);
    smol_kernels_scalar.softcap(want, n, cap);
    set->softcap(got, n, cap);
    return same_floats("output", want, got, n);
}

/* Any number: half of them where f16 has its range, some half-way between two f16. */
static float random_for_f16(void)
{
    float value = f32_from_bits(random_bits());
    if (random_bits() & 1)
        value = random_float() * f32_from_bits((uint32_t)random_within(100, 145) << 23);
    if (random_bits() % 4 == 0)
        value = f32_from_bits((f32_bits(value) & 0xffffe000u) | 0x1000);
    return value != value ? INFINITY : value;
}

static bool run_to_f16(const struct kernels *set)
{
    size_t n = random_within(1, MAX_ELEMENTS);
    describe("%zu elements", n);
    float *x = floats_new(n);
    for (size_t i = 0; i < n; i++)
        x[i] = random_for_f16();
    uint16_t *want = buffer_new(n * sizeof *want, sizeof *want), *got = buffer_copy(want);
    smol_kernels_scalar.to_f16(x, n, want);
    set->to_f16(x, n, got);
    return same_halves("half", want, got, n);
}

/* --- benchmarks ------------------------------------------------------------------------------ */

enum { MAX_BENCH = 1536 };
static float bench_x[MAX_BENCH], bench_y[MAX_BENCH], bench_out[MAX_BENCH];

struct bench_operands {
    const struct kernels *set;
    size_t n;
};

static void quantize_once(const void *operands, size_t place)
{
    static int8_t steps[MAX_BENCH];
    static float scales[MAX_BENCH / GROUP_INPUTS];
    static int32_t offsets[MAX_BENCH / GROUP_INPUTS];
    static const struct quantized out = {steps, scales, offsets, 1, 1, false};
    const struct bench_operands *o = operands;
    o->set->quantize(bench_x, o->n, &out, place);
}

static void quantize_slice_once(const void *operands, size_t place)
{
    static int8_t steps[MAX_BENCH];
    static float scales[MAX_BENCH / GROUP_INPUTS];
    static int32_t offsets[MAX_BENCH / GROUP_INPUTS];
    const struct bench_operands *o = operands;
    size_t n = o->n / GROUP_INPUTS;
    const struct quantized out = {steps, scales, offsets, n, n, false};
    o->set->quantize_slice(bench_x, n, &out, place);
}

static void rms_norm_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->rms_norm(bench_x, bench_y, o->n, 1e-5f, bench_out);
}

static void swiglu_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->swiglu(bench_out, bench_y, o->n);
}

static void layer_norm_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->layer_norm(bench_x, bench_y, bench_y, o->n, 1e-5f, bench_out);
}

static void geglu_tanh_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->geglu_tanh(bench_out, bench_y, o->n);
}

static void geglu_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->geglu(bench_out, bench_y, o->n);
}

static void reglu_squared_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->reglu_squared(bench_out, bench_y, o->n);
}

static void softcap_once(const void *operands, size_t place)
{
    const struct bench_operands *o = operands;
    (void)place;
    o->set->softcap(bench_x, o->n, 30);
}

static void to_f16_once(const void *operands, size_t place)
{
    static uint16_t out[MAX_BENCH];
    const struct bench_operands *o = operands;
    (void)place;
    o->set->to_f16(bench_x, o->n, out);
}

static void bench(const struct kernels *set, size_t n, void (*call)(const void *, size_t))
{
    const struct bench_operands o = {set, n};
    char shape[32];
    random_start(1);
    for (size_t i = 0; i < MAX_BENCH; i++) {
        bench_x[i] = random_float();
        bench_y[i] = random_float();
        bench_out[i] = 0;
    }
    snprintf(shape, sizeof shape, "%zu elements", n);
    bench_line(shape, (struct work){.elements = (double)n}, call, &o, 1);
}

static void bench_quantize(const struct kernels *set)
{
    bench(set, 576, quantize_once);
    bench(set, 1536, quantize_once);
}

static void bench_quantize_slice(const struct kernels *set)
{
    bench(set, 1024, quantize_slice_once); /* 32 tokens */
}

#define BENCH(name, n)                                                                             \
    static void bench_##name(const struct kernels *set)                                            \
    {                                                                                              \
        bench(set, n, name##_once);                                                                \
    }
BENCH(rms_norm, 576)
BENCH(swiglu, 1536)
BENCH(layer_norm, 576)
BENCH(geglu_tanh, 1536)
BENCH(geglu, 1536)
BENCH(reglu_squared, 1536)
BENCH(softcap, 1536)
BENCH(to_f16, 64)

const struct kernel_check check_quantize = {"quantize", run_quantize, bench_quantize};
const struct kernel_check check_quantize_slice = {"quantize_slice", run_quantize_slice,
                                                  bench_quantize_slice};
const struct kernel_check check_rms_norm = {"rms_norm", run_rms_norm, bench_rms_norm};
const struct kernel_check check_swiglu = {"swiglu", run_swiglu, bench_swiglu};
const struct kernel_check check_layer_norm = {"layer_norm", run_layer_norm, bench_layer_norm};
const struct kernel_check check_geglu_tanh = {"geglu_tanh", run_geglu_tanh, bench_geglu_tanh};
const struct kernel_check check_geglu = {"geglu", run_geglu, bench_geglu};
const struct kernel_check check_reglu_squared = {"reglu_squared", run_reglu_squared,
                                                 bench_reglu_squared};
const struct kernel_check check_softcap = {"softcap", run_softcap, bench_softcap};
const struct kernel_check check_to_f16 = {"to_f16", run_to_f16, bench_to_f16};
