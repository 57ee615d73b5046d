/* The matrix products. */
#include "tests/kernels/check_kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/number.h"
#include "tests/kernels/buffers.h"

/* --- grouped dtypes: operands ---------------------------------------------------------------- */

/* How weights and inputs look. The extremes are where a 16-bit sum would overflow. */
static const char *const pattern_names[] = {"random", "minimum", "maximum", "mixed extremes"};
enum { PATTERNS = sizeof pattern_names / sizeof pattern_names[0] };

/* A step with the sign of `step` that is extreme, or whose low byte is. */
static int32_t extreme_wide_step(int32_t step)
{
    int32_t sign = step < 0 ? -1 : 1;
    const int32_t steps[] = {127 * 256, 126 * 256 + 127, 127 * 256 - 128, 128};
    return sign * steps[random_bits() % 4];
}

static int32_t random_wide_step(void)
{
    return (int32_t)(random_bits() % (2 * 127 * 256 + 1)) - 127 * 256;
}

static int8_t pattern_step(size_t pattern)
{
    switch (pattern) {
    case 0:
        return random_step();
    case 1:
        return -127;
    case 2:
        return 127;
    default:
        return random_bits() & 1 ? 127 : -127;
    }
}

/* Fills a table of levels: ascending as a blob's, or with any pattern, which kernels take too. The
 * lowest and the highest possible level are often among them. */
static void fill_levels(int8_t *levels, size_t n, size_t pattern)
{
    if (random_bits() % 2) {
        for (size_t i = 0; i < n; i++)
            levels[i] = pattern_step(pattern);
        return;
    }
    size_t spare = 255 - n; /* of the levels from -127 to 127, these are left out */
    for (size_t level = 0, i = 0; i < n; level++)
        if (random_bits() % (n - i + spare) < spare && level > 0)
            spare--;
        else
            levels[i++] = (int8_t)((int)level - 127);
    if (random_bits() % 2)
        levels[n - 1] = 127;
}

/* Fills a block; all codes of int6, int5 and int4 are valid. */
static void fill_grouped_block(enum blob_dtype dtype, uint8_t *block, size_t n_groups,
                               size_t pattern)
{
    for (size_t group = 0; group < n_groups; group++) {
        uint16_t *scales = (void *)(block + group_scales_offset(dtype, group));
        uint8_t *weights = block + group_weights_offset(dtype, group);
        unsigned negative = dtype == DTYPE_INT8 ? 0 : 0x8000;
        for (size_t row = 0; row < TILE_ROWS; row++) /* finite, subnormals too */
            scales[row] = (uint16_t)(random_bits() % 0x7c00 | (random_bits() & negative));
        for (size_t i = 0; i < group_bytes(dtype); i++)
            weights[i] = dtype == DTYPE_INT8 ? (uint8_t)pattern_step(pattern)
                                             : (uint8_t)(random_bits() >> 24);
    }
}

static void fill_quantized(const struct quantized *x, size_t n_groups, size_t pattern)
{
    for (size_t group = 0; group < n_groups; group++)
        for (size_t t = 0; t < x->n; t++) {
            int32_t sum = 0;
            for (size_t i = 0; i < GROUP_INPUTS; i++) {
                int32_t step = pattern_step(pattern);
                if (x->wide)
                    step = pattern > 0 ? extreme_wide_step(step) : random_wide_step();
                quantized_put(x, group * GROUP_INPUTS + i, t, step);
                sum += step;
            }
            x->scales[group * x->stride + t] = fabsf(random_float());
            x->offsets[group * x->stride + t] = -128 * sum;
        }
}

/* --- grouped dtypes: the test ---------------------------------------------------------------- */

static grouped_product *product_of(const struct kernels *set, enum blob_dtype dtype)
{
    switch (dtype) {
    case DTYPE_INT4:
        return set->matmul_int4;
    case DTYPE_INT5:
        return set->matmul_int5;
    case DTYPE_INT6:
        return set->matmul_int6;
    default:
        return set->matmul_int8;
    }
}

static bool run_grouped(const struct kernels *set, enum blob_dtype dtype)
{
    size_t n_groups = random_within(1, 40), n_tokens = random_within(1, 40);
    size_t n_blocks = random_within(1, 3), stride = n_tokens + random_within(0, 4);
    size_t out_stride = n_blocks * TILE_ROWS + random_within(0, 4);
    size_t weights = random_bits() % PATTERNS, inputs = random_bits() % PATTERNS;
    if (random_bits() % 4 == 0)
        n_tokens = 1; /* as in decode */
    bool wide = random_bits() % 2;
    describe("%zu blocks of %zu groups, %zu tokens, out_stride %zu, %s weights, %s %sinputs",
             n_blocks, n_groups, n_tokens, out_stride, pattern_names[weights],
             pattern_names[inputs], wide ? "wide " : "");
    size_t block_bytes = smol_block_bytes(dtype, n_groups * GROUP_INPUTS);
    uint8_t *block = buffer_new(n_blocks * block_bytes, 64);
    int8_t *levels = buffer_new(MAX_LEVELS, 1);
    struct quantized x = quantized_new(n_tokens, stride, n_groups, wide), own;
    for (size_t i = 0; i < n_blocks; i++)
        fill_grouped_block(dtype, block + i * block_bytes, n_groups, weights);
    fill_levels(levels, (size_t)1 << (dtype == DTYPE_INT8 ? 6 : weight_bits(dtype)), weights);
    fill_quantized(&x, n_groups, inputs);
    size_t n_out = (n_tokens - 1) * out_stride + n_blocks * TILE_ROWS;
    float *want = floats_new(n_out), *got = buffer_copy(want);
    own = quantized_copy(&x);
    for (size_t i = 0; wide && set->pair_steps && i < n_groups * n_tokens; i++)
        quantized_pair(&own, i / n_tokens, i % n_tokens);
    product_of(&smol_kernels_scalar, dtype)(block, n_blocks, n_groups, levels, &x, want,
                                            out_stride);
    product_of(set, dtype)(block, n_blocks, n_groups, levels, &own, got, out_stride);
    return same_floats("output", want, got, n_out);
}

/* --- f32 and bf16: the test ------------------------------------------------------------------ */

static float random_weight(bool wide)
{
    return wide ? random_wide() : random_float();
}

static void *random_float_blocks(enum blob_dtype dtype, size_t n_blocks, size_t cols, bool wide)
{
    size_t size = n_blocks * smol_block_bytes(dtype, cols);
    uint32_t *block = buffer_new(size, 64);
    for (size_t i = 0; i < size / sizeof *block; i++) {
        block[i] = f32_bits(random_weight(wide));
        if (dtype == DTYPE_BF16)
            block[i] = block[i] >> 16 | (f32_bits(random_weight(wide)) & 0xffff0000u);
    }
    return block;
}

static void multiply(const struct kernels *set, enum blob_dtype dtype, const void *block,
                     size_t n_blocks, size_t cols, const float *x, size_t x_stride, size_t n_tokens,
                     float *out, size_t out_stride)
{
    if (dtype == DTYPE_F32)
        set->matmul_f32(block, n_blocks, cols, x, x_stride, n_tokens, out, out_stride);
    else
        set->matmul_bf16(block, n_blocks, cols, x, x_stride, n_tokens, out, out_stride);
}

static bool run_float(const struct kernels *set, enum blob_dtype dtype)
{
    size_t cols = random_within(1, 100), n_tokens = random_within(1, 40);
    size_t n_blocks = random_within(1, 3), x_stride = cols + random_within(0, 3);
    size_t out_stride = n_blocks * TILE_ROWS + random_within(0, 4);
    bool wide = random_bits() % 3 == 0;
    describe("%zu blocks, %zu columns, %zu tokens, x_stride %zu, out_stride %zu, %s numbers",
             n_blocks, cols, n_tokens, x_stride, out_stride,
             wide ? "very small to very large" : "ordinary");
    const void *block = random_float_blocks(dtype, n_blocks, cols, wide);
    float *x = floats_new((n_tokens - 1) * x_stride + cols);
    for (size_t i = 0; wide && i < (n_tokens - 1) * x_stride + cols; i++)
        x[i] = random_wide();
    size_t n_out = (n_tokens - 1) * out_stride + n_blocks * TILE_ROWS;
    float *want = floats_new(n_out), *got = buffer_copy(want);
    multiply(&smol_kernels_scalar, dtype, block, n_blocks, cols, x, x_stride, n_tokens, want,
             out_stride);
    multiply(set, dtype, block, n_blocks, cols, x, x_stride, n_tokens, got, out_stride);
    return same_floats("output", want, got, n_out);
}

/* --- benchmarks ------------------------------------------------------------------------------ */

enum {
    MAX_COLS = 1536,
    MAX_TOKENS = 64,
    STREAM_BYTES = 96 << 20, /* more than caches hold */
    BLOCKS_ALIGN = 65536,    /* any page size */
};

/* One product; its weights are one block after the other. */
struct product {
    const struct kernels *set;
    enum blob_dtype dtype;
    bool wide;
    size_t cols, n_tokens, block_bytes;
    const uint8_t *blocks;
};

static void multiply_once(const void *operands, size_t place)
{
    static float x[MAX_TOKENS * MAX_COLS], out[MAX_TOKENS * TILE_ROWS];
    static int8_t steps[2 * MAX_TOKENS * MAX_COLS];
    static float scales[MAX_TOKENS * MAX_COLS / GROUP_INPUTS];
    static int32_t offsets[MAX_TOKENS * MAX_COLS / GROUP_INPUTS];
    static const int8_t levels[MAX_LEVELS];
    const struct product *p = operands;
    const struct quantized quantized = {steps, scales, offsets, p->n_tokens, p->n_tokens, p->wide};
    const void *block = p->blocks + place * p->block_bytes;
    if (p->dtype >= DTYPE_INT8)
        product_of(p->set, p->dtype)(block, 1, p->cols / GROUP_INPUTS, levels, &quantized, out,
                                     TILE_ROWS);
    else
        multiply(p->set, p->dtype, block, 1, p->cols, x, p->cols, p->n_tokens, out, TILE_ROWS);
}

static void bench_product(struct product p, bool streamed)
{
    char shape[64];
    struct work work = {.mul_adds = (double)(p.cols * TILE_ROWS * p.n_tokens)};
    if (p.n_tokens == 1)
        work.bytes = (double)p.block_bytes;
    snprintf(shape, sizeof shape, "%zu columns, %zu %stoken%s, %s", p.cols, p.n_tokens,
             p.wide ? "wide " : "", p.n_tokens == 1 ? "" : "s", streamed ? "streamed" : "cached");
    bench_line(shape, work, multiply_once, &p, streamed ? STREAM_BYTES / p.block_bytes : 1);
}

static void bench(const struct kernels *set, enum blob_dtype dtype)
{
    static const size_t cols[] = {576, 1536}, tokens[] = {1, 2, 8, 64};
    uint8_t *blocks = aligned_alloc(BLOCKS_ALIGN, STREAM_BYTES);
    if (!blocks) {
        puts("# no memory for this benchmark");
        return;
    }
    madvise(blocks, STREAM_BYTES, MADV_NOHUGEPAGE); /* a mapped blob has small pages */
    memset(blocks, 0, STREAM_BYTES); /* all its pages exist; speed does not depend on values */
    for (size_t c = 0; c < 2; c++) {
        size_t block_bytes = smol_block_bytes(dtype, cols[c]);
        struct product p = {set, dtype, false, cols[c], 1, block_bytes, blocks};
        bench_product(p, true);
        for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
            p.n_tokens = tokens[t];
            bench_product(p, false);
        }
        p.wide = dtype >= DTYPE_INT8;
        if (p.wide)
            bench_product(p, false);
    }
    free(blocks);
}

#define CHECK(type, run, TYPE)                                                                     \
    static bool run_##type(const struct kernels *set)                                              \
    {                                                                                              \
        return run(set, TYPE);                                                                     \
    }                                                                                              \
    static void bench_##type(const struct kernels *set)                                            \
    {                                                                                              \
        bench(set, TYPE);                                                                          \
    }                                                                                              \
    const struct kernel_check check_matmul_##type = {"matmul_" #type, run_##type, bench_##type}

CHECK(int8, run_grouped, DTYPE_INT8);
CHECK(int6, run_grouped, DTYPE_INT6);
CHECK(int5, run_grouped, DTYPE_INT5);
CHECK(int4, run_grouped, DTYPE_INT4);
CHECK(f32, run_float, DTYPE_F32);
CHECK(bf16, run_float, DTYPE_BF16);
