/* The kernels that keep a state from token to token: convolutions, Mamba2, gated DeltaNet. Each
 * must also return the same bits if its tokens come in two calls. */
#include "tests/kernels/check_kernels.h"

#include <stdio.h>
#include <string.h>

#include "tests/kernels/buffers.h"

static bool run_unit_norm(const struct kernels *set)
{
    size_t n = random_within(1, 300);
    describe("%zu elements", n);
    float *x = floats_new(n);
    if (random_bits() % 4 == 0)
        memset(x, 0, n * sizeof *x);
    float *want = floats_new(n), *got = buffer_copy(want);
    smol_kernels_scalar.unit_norm(x, n, 1e-6f, 0.125f, want);
    set->unit_norm(x, n, 1e-6f, 0.125f, got);
    if (!same_floats("output", want, got, n))
        return false;
    set->unit_norm(x, n, 1e-6f, 0.125f, x);
    return same_floats("output in place", want, x, n);
}

static bool run_convolve(const struct kernels *set)
{
    size_t channels = random_within(1, 70), n = random_within(1, 9), cut = random_within(0, n);
    size_t taps = random_within(1, 6), stride = channels + random_within(0, 5);
    size_t row = channels + random_within(0, 5);
    struct convolution c = {floats_new(taps * stride - (stride - channels)),
                            random_bits() & 1 ? floats_new(channels) : NULL,
                            NULL,
                            taps,
                            stride,
                            random_bits() & 1};
    size_t n_window = (taps - 1) * stride, n_x = n * row - (row - channels);
    describe("%zu channels, %zu taps, %zu tokens, then %zu", channels, taps, cut, n - cut);
    float *window = floats_new(n_window), *got_window = buffer_copy(window);
    float *want = floats_new(n_x), *got = buffer_copy(want);
    c.window = window;
    smol_kernels_scalar.convolve(&c, channels, want, row, n);
    c.window = got_window;
    if (cut > 0)
        set->convolve(&c, channels, got, row, cut);
    if (cut < n)
        set->convolve(&c, channels, got + cut * row, row, n - cut);
    return same_floats("output", want, got, n_x) &&
           same_floats("window", window, got_window, n_window);
}

/* Random places of a recurrence's operands: rows of x (width), two vectors (size) and, apart, two
 * numbers of each token, and the states before and after. */
struct recurrence {
    size_t n, cut, width, size, stride, step_stride;
    float *x, *a, *b, *step, *decay, *before, *state;
};

static struct recurrence recurrence_new(void)
{
    struct recurrence r = {.n = random_within(1, 9),
                           .width = random_within(1, SLICE_CHANNELS),
                           .size = random_within(1, 70),
                           .step_stride = random_within(1, 3)};
    r.cut = random_within(0, r.n);
    r.stride = r.width + 2 * r.size + random_within(0, 5);
    r.x = floats_new(r.n * r.stride - (r.stride - r.width - 2 * r.size));
    r.a = r.x + r.width;
    r.b = r.a + r.size;
    r.step = floats_new(r.n * r.step_stride);
    r.decay = floats_new(r.n * r.step_stride);
    for (size_t i = 0; i < r.n * r.step_stride; i++)
        r.decay[i] *= 0.25f;
    r.before = floats_new(r.size * SLICE_CHANNELS);
    r.state = floats_new(r.size * SLICE_CHANNELS); /* replaced without being read */
    describe("%zu channels, state of %zu, %zu tokens, then %zu", r.width, r.size, r.cut,
             r.n - r.cut);
    return r;
}

/* Returns a copy of the operands that a kernel changes. */
static struct recurrence recurrence_copy(struct recurrence r)
{
    r.x = buffer_copy(r.x);
    r.a = r.x + r.width;
    r.b = r.a + r.size;
    r.state = buffer_copy(r.state);
    return r;
}

static bool same_recurrences(const struct recurrence *want, const struct recurrence *got)
{
    return same_floats("output", want->x, got->x,
                       want->n * want->stride - (want->stride - want->width - 2 * want->size)) &&
           same_floats("state", want->state, got->state, want->size * SLICE_CHANNELS);
}

static void scan_tokens(const struct kernels *set, const struct recurrence *r, size_t first,
                        size_t n)
{
    size_t at = first * r->stride, step = first * r->step_stride;
    if (n > 0)
        set->scan(&(struct scan){.n = n,
                                 .width = r->width,
                                 .size = r->size,
                                 .x = r->x + at,
                                 .b = r->a + at,
                                 .c = r->b + at,
                                 .step = r->step + step,
                                 .decay = r->decay + step,
                                 .stride = r->stride,
                                 .step_stride = r->step_stride,
                                 .skip = 0.7f,
                                 .before = first > 0 ? r->state : r->before,
                                 .state = r->state});
}

static bool run_scan(const struct kernels *set)
{
    const struct recurrence want = recurrence_new(), got = recurrence_copy(want);
    scan_tokens(&smol_kernels_scalar, &want, 0, want.n);
    scan_tokens(set, &got, 0, got.cut);
    scan_tokens(set, &got, got.cut, got.n - got.cut);
    return same_recurrences(&want, &got);
}

static void delta_tokens(const struct kernels *set, const struct recurrence *r, size_t first,
                         size_t n)
{
    size_t at = first * r->stride, step = first * r->step_stride;
    if (n > 0)
        set->delta_rule(&(struct delta_rule){.n = n,
                                             .width = r->width,
                                             .size = r->size,
                                             .value = r->x + at,
                                             .query = r->a + at,
                                             .key = r->b + at,
                                             .rate = r->step + step,
                                             .decay = r->decay + step,
                                             .stride = r->stride,
                                             .step_stride = r->step_stride,
                                             .before = first > 0 ? r->state : r->before,
                                             .state = r->state});
}

static bool run_delta_rule(const struct kernels *set)
{
    const struct recurrence want = recurrence_new();
    for (size_t t = 0; t < want.n; t++) /* keys of length 1, or the numbers explode */
        smol_kernels_scalar.unit_norm(want.b + t * want.stride, want.size, 1e-6f, 1,
                                      want.b + t * want.stride);
    const struct recurrence got = recurrence_copy(want);
    delta_tokens(&smol_kernels_scalar, &want, 0, want.n);
    delta_tokens(set, &got, 0, got.cut);
    delta_tokens(set, &got, got.cut, got.n - got.cut);
    return same_recurrences(&want, &got);
}

/* --- benchmarks: 16 tokens of one slice of 128, the shape of Granite 4.0 H and Qwen3.5 ---------
 */

enum { BENCH_TOKENS = 16, BENCH_SIZE = 128, BENCH_STRIDE = SLICE_CHANNELS + 2 * BENCH_SIZE };
static float bench_rows[BENCH_TOKENS * BENCH_STRIDE], bench_state[BENCH_SIZE * SLICE_CHANNELS];
static float bench_steps[BENCH_TOKENS];

static struct recurrence bench_recurrence(void)
{
    return (struct recurrence){.n = BENCH_TOKENS,
                               .width = SLICE_CHANNELS,
                               .size = BENCH_SIZE,
                               .stride = BENCH_STRIDE,
                               .step_stride = 1,
                               .x = bench_rows,
                               .a = bench_rows + SLICE_CHANNELS,
                               .b = bench_rows + SLICE_CHANNELS + BENCH_SIZE,
                               .step = bench_steps,
                               .decay = bench_steps,
                               .before = bench_state,
                               .state = bench_state};
}

static void scan_once(const void *set, size_t place)
{
    const struct recurrence r = bench_recurrence();
    (void)place;
    scan_tokens(set, &r, 0, r.n);
}

static void delta_once(const void *set, size_t place)
{
    const struct recurrence r = bench_recurrence();
    (void)place;
    delta_tokens(set, &r, 0, r.n);
}

static void unit_norm_once(const void *set, size_t place)
{
    (void)place;
    ((const struct kernels *)set)->unit_norm(bench_rows, BENCH_SIZE, 1e-6f, 1, bench_state);
}

static void convolve_once(const void *set, size_t place)
{
    const struct convolution c = {bench_rows, NULL, bench_state, 4, BENCH_SIZE, true};
    (void)place;
    ((const struct kernels *)set)
        ->convolve(&c, BENCH_SIZE, bench_rows + 1024, BENCH_SIZE, BENCH_TOKENS);
}

static void bench(const struct kernels *set, double elements,
                  void (*call)(const void *operands, size_t place))
{
    memset(bench_state, 0, sizeof bench_state);
    memset(bench_rows, 0, sizeof bench_rows);
    bench_line("16 tokens, 128", (struct work){.elements = elements}, call, set, 1);
}

static void bench_scan(const struct kernels *set)
{
    bench(set, BENCH_TOKENS * BENCH_SIZE * SLICE_CHANNELS, scan_once);
}

static void bench_delta_rule(const struct kernels *set)
{
    bench(set, BENCH_TOKENS * BENCH_SIZE * SLICE_CHANNELS, delta_once);
}

static void bench_unit_norm(const struct kernels *set)
{
    bench(set, BENCH_SIZE, unit_norm_once);
}

static void bench_convolve(const struct kernels *set)
{
    bench(set, BENCH_TOKENS * BENCH_SIZE, convolve_once);
}

const struct kernel_check check_unit_norm = {"unit_norm", run_unit_norm, bench_unit_norm};
const struct kernel_check check_convolve = {"convolve", run_convolve, bench_convolve};
const struct kernel_check check_scan = {"scan", run_scan, bench_scan};
const struct kernel_check check_delta_rule = {"delta_rule", run_delta_rule, bench_delta_rule};
