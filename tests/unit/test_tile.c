/* Tests of widening, quantizing and tiling, for each instruction set of this machine: the position
 * of each element, which bytes are zero, the distance of a quantized weight from its source, and
 * the index in each error. */
#include <math.h>
#include <string.h>

#include "common/cpu.h"
#include "common/number.h"
#include "convert/weights/tile.h"
#include "tests/unit/guarded.h"
#include "tests/unit/unit.h"

static float random_float(void)
{
    return ((float)(random_bits() >> 8) * 0x1p-24f - 0.5f) * 8;
}

/* --- a matrix and its tiles ----------------------------------------------------------------- */

enum { MAX_ROWS = 35, MAX_COLS = 131 };

/* A source at an odd address, and one block of its tiles between guard pages. */
struct matrix {
    enum safetensors_dtype source_dtype;
    enum blob_dtype dtype;
    uint64_t rows, cols;
    float values[MAX_ROWS * MAX_COLS]; /* contents of the source, widened */
    uint8_t bytes[1 + MAX_ROWS * MAX_COLS * sizeof(float)];
    struct guarded block, scratch;
};
static struct matrix m;

static tile_block *tile_under_test;
static struct level_search levels; /* of m.dtype, if it is int6, int5 or int4 */
static struct tile_rule rule = {.levels = &levels};

static void make(enum safetensors_dtype source_dtype, enum blob_dtype dtype, uint64_t rows,
                 uint64_t cols)
{
    m.source_dtype = source_dtype;
    m.dtype = dtype;
    m.rows = rows;
    m.cols = cols;
    for (uint64_t i = 0; i < rows * cols; i++)
        m.values[i] = random_float();
    if (dtype > DTYPE_INT8) {
        const struct blob_levels table = smol_levels_default(dtype);
        smol_levels_prepare(&levels, &table, dtype);
    }
    m.block = guarded_new(smol_block_bytes(dtype, cols), 64);
    m.scratch = guarded_new(cols * sizeof(float), 4);
}

static void release(void)
{
    guarded_free(&m.block);
    guarded_free(&m.scratch);
}

/* Writes m.values into the source, rounded to its type, and reads them back. */
static void store(void)
{
    for (uint64_t i = 0; i < m.rows * m.cols; i++) {
        uint16_t half = m.source_dtype == ST_F16 ? f16_from_f32(m.values[i])
                                                 : (uint16_t)(f32_bits(m.values[i]) >> 16);
        if (m.source_dtype == ST_F32) {
            memcpy(m.bytes + 1 + i * 4, &m.values[i], 4);
        } else {
            memcpy(m.bytes + 1 + i * 2, &half, 2);
            m.values[i] = m.source_dtype == ST_F16 ? f32_from_f16(half) : f32_from_bf16(half);
        }
    }
}

static struct tile_fault tile(uint64_t row)
{
    const struct safetensors_tensor source = {.dtype = m.source_dtype, .data = m.bytes + 1};
    const struct blob_tensor layout = {
        .dtype = m.dtype, .layout = LAYOUT_TILES, .rows = m.rows, .cols = m.cols};
    store();
    memset(m.block.data, 0xaa, smol_block_bytes(m.dtype, m.cols));
    return tile_under_test(&source, &layout, &rule, row, m.scratch.data, m.block.data);
}

static void tile_without_fault(uint64_t row)
{
    struct tile_fault fault = tile(row);
    if (fault.status)
        fail_msg("element %llu %s", (unsigned long long)fault.index, fault.reason);
}

/* The parts of an int8 block by FORMAT.md's formulas, not by the code's. */
static float scale_at(uint64_t row, uint64_t col)
{
    uint16_t half;
    uint64_t group = col / 32;
    memcpy(&half, (uint8_t *)m.block.data + group / 2 * 1088 + group % 2 * 32 + row * 2, 2);
    return f32_from_f16(half);
}

static int step_at(uint64_t row, uint64_t col)
{
    uint64_t group = col / 32;
    return ((int8_t *)m.block.data)[group / 2 * 1088 + 64 + group % 2 * 512 + col % 32 / 4 * 64 +
                                    row * 4 + col % 4];
}

static const uint64_t widths[] = {1, 2, 3, 31, 32, 33, 63, 64, 65, 96, 97, 131};
static const uint64_t heights[] = {1, 15, 16, 17, 35};
enum {
    N_WIDTHS = sizeof widths / sizeof widths[0],
    N_HEIGHTS = sizeof heights / sizeof heights[0]
};

/* Calls check(row) for every block of matrices of odd and even shapes. */
static void for_each_block(enum safetensors_dtype source_dtype, enum blob_dtype dtype,
                           void (*check)(uint64_t row))
{
    for (size_t w = 0; w < N_WIDTHS; w++)
        for (size_t h = 0; h < N_HEIGHTS; h++) {
            make(source_dtype, dtype, heights[h], widths[w]);
            for (uint64_t row = 0; row < m.rows; row += 16) {
                tile_without_fault(row);
                check(row);
            }
            release();
        }
}

/* --- f32 ------------------------------------------------------------------------------------ */

static void check_f32_block(uint64_t first)
{
    const float *block = m.block.data;
    for (uint64_t col = 0; col < m.cols; col++)
        for (uint64_t row = 0; row < 16; row++) {
            bool inside = first + row < m.rows;
            float want = inside ? m.values[(first + row) * m.cols + col] : 0;
            assert_int_equal(f32_bits(block[col * 16 + row]), f32_bits(want));
        }
}

TEST(f32_tiles_hold_the_source_exactly_and_zeros_elsewhere)
{
    for_each_block(ST_F32, DTYPE_F32, check_f32_block);
    for_each_block(ST_BF16, DTYPE_F32, check_f32_block);
    for_each_block(ST_F16, DTYPE_F32, check_f32_block);
}

TEST(f32_tiles_keep_subnormals_and_negative_zero)
{
    make(ST_F32, DTYPE_F32, 1, 3);
    m.values[0] = -0.0f, m.values[1] = 0x1p-149f, m.values[2] = -FLT_MAX;
    tile_without_fault(0);
    check_f32_block(0);
    release();
}

/* --- bf16 --- */

static uint16_t bf16_at(uint64_t row, uint64_t col)
{
    uint16_t half;
    memcpy(&half, (uint8_t *)m.block.data + col / 2 * 64 + row * 4 + col % 2 * 2, 2);
    return half;
}

static void check_bf16_block(uint64_t first)
{
    for (uint64_t col = 0; col < (m.cols + 1) / 2 * 2; col++)
        for (uint64_t row = 0; row < 16; row++) {
            bool inside = first + row < m.rows && col < m.cols;
            float source = inside ? m.values[(first + row) * m.cols + col] : 0;
            assert_int_equal(bf16_at(row, col), bf16_from_f32(source));
            if (m.source_dtype == ST_BF16)
                assert_true(f32_from_bf16(bf16_at(row, col)) == source);
        }
}

TEST(bf16_tiles_hold_the_nearest_bf16_and_zeros_elsewhere)
{
    for_each_block(ST_F32, DTYPE_BF16, check_bf16_block);
    for_each_block(ST_BF16, DTYPE_BF16, check_bf16_block);
    for_each_block(ST_F16, DTYPE_BF16, check_bf16_block);
}

/* --- int8 ----------------------------------------------------------------------------------- */

static float group_amax(uint64_t row, uint64_t col)
{
    float amax = 0;
    for (uint64_t i = col / 32 * 32; i < m.cols && i < col / 32 * 32 + 32; i++)
        amax = fmaxf(amax, fabsf(m.values[row * m.cols + i]));
    return amax;
}

/* A weight w stored as q steps of s: s is the smallest f16 with 127 steps for the largest weight
 * (up to f32's rounding of the quotient), q is within 127 and the nearest, ties to even. */
static void check_weight(uint64_t first, uint64_t row, uint64_t col)
{
    double w = m.values[(first + row) * m.cols + col];
    double s = scale_at(row, col), amax = group_amax(first + row, col);
    int q = step_at(row, col);
    double before = s > 0 ? f32_from_f16((uint16_t)(f16_from_f32((float)s) - 1)) : -1;
    if (s * 127 < amax * (1 - 0x1p-24) || before * 127 >= amax)
        fail_msg("scale %a of amax %a", s, amax);
    if (q < -127 || q > 127 || fabs(w - q * s) > s / 2 + fabs(w) * 0x1p-24)
        fail_msg("weight %a became %d steps of %a", w, q, s);
    if (s > 0 && q != (int)rint((double)(float)(w / s)))
        fail_msg("weight %a became %d steps of %a, not the nearest", w, q, s);
}

/* Expects that all bytes of the block without a weight or scale of the matrix are zero. */
static void check_int8_padding(uint64_t first)
{
    uint64_t groups = (m.cols + 31) / 32;
    uint64_t rows = m.rows - first < 16 ? m.rows - first : 16;
    for (uint64_t row = 0; row < 16; row++)
        for (uint64_t col = 0; col < groups * 32; col++)
            if (row >= rows || col >= m.cols)
                assert_int_equal(step_at(row, col), 0);
    for (uint64_t row = rows; row < 16; row++)
        for (uint64_t col = 0; col < groups * 32; col += 32)
            assert_true(scale_at(row, col) == 0);
    if (groups % 2) /* the second half of the last pair's scales */
        for (uint64_t row = 0; row < 16; row++)
            assert_true(scale_at(row, groups * 32) == 0);
}

static void check_int8_block(uint64_t first)
{
    for (uint64_t row = 0; row < 16 && first + row < m.rows; row++)
        for (uint64_t col = 0; col < m.cols; col++)
            check_weight(first, row, col);
    check_int8_padding(first);
}

TEST(int8_weights_are_at_most_half_a_step_off_and_never_clamped)
{
    for_each_block(ST_F32, DTYPE_INT8, check_int8_block);
    for_each_block(ST_BF16, DTYPE_INT8, check_int8_block);
    for_each_block(ST_F16, DTYPE_INT8, check_int8_block);
}

/* Rows whose amax covers the whole range of f32, including f16's subnormal scales. */
TEST(the_bound_holds_for_weights_of_every_size)
{
    for (int exponent = -149; exponent <= 22; exponent++) {
        make(ST_F32, DTYPE_INT8, 16, 64);
        for (uint64_t i = 0; i < m.rows * m.cols; i++)
            m.values[i] = ldexpf(m.values[i] / 4, exponent);
        tile_without_fault(0);
        check_int8_block(0);
        release();
    }
}

TEST(scales_that_f16_holds_only_as_subnormals_are_rounded_up_too)
{
    make(ST_F32, DTYPE_INT8, 1, 32);
    memset(m.values, 0, sizeof m.values);
    for (uint32_t scale = 1; scale < 0x400; scale++) {
        float exact = f32_from_f16((uint16_t)scale) * 127;
        m.values[0] = exact;
        tile_without_fault(0);
        assert_true(scale_at(0, 0) == f32_from_f16((uint16_t)scale));
        assert_int_equal(step_at(0, 0), 127);
        m.values[0] = -nextafterf(nextafterf(exact, 1), 1); /* slightly too large for this scale */
        tile_without_fault(0);
        assert_true(scale_at(0, 0) == f32_from_f16((uint16_t)(scale + 1)));
        check_int8_block(0);
    }
    release();
}

TEST(the_smallest_weights_get_the_smallest_scale_and_no_steps)
{
    make(ST_F32, DTYPE_INT8, 1, 2);
    for (uint32_t bits = 1; bits < 300; bits++) { /* amax / 127 is zero in f32 at first */
        m.values[0] = f32_from_bits(bits);
        m.values[1] = -m.values[0];
        tile_without_fault(0);
        assert_true(scale_at(0, 0) == 0x1p-24f);
        assert_int_equal(step_at(0, 0), 0);
        assert_int_equal(step_at(0, 1), 0);
    }
    release();
}

TEST(a_group_of_zeros_has_scale_zero)
{
    make(ST_F32, DTYPE_INT8, 2, 33);
    for (uint64_t i = 0; i < 2 * 33; i++)
        m.values[i] = i % 2 ? -0.0f : 0.0f;
    m.values[32] = 1; /* the other group of row 0 */
    tile_without_fault(0);
    assert_true(scale_at(0, 0) == 0);
    assert_true(scale_at(0, 32) > 0);
    assert_true(scale_at(1, 0) == 0);
    assert_true(scale_at(1, 32) == 0);
    check_int8_block(0);
    release();
}

TEST(ties_go_to_the_even_step)
{
    make(ST_F32, DTYPE_INT8, 1, 32);
    m.values[0] = 127; /* the scale is 1 */
    for (int i = 1; i < 32; i++)
        m.values[i] = (float)i - 16 + 0.5f;
    tile_without_fault(0);
    assert_true(scale_at(0, 0) == 1);
    for (int i = 1; i < 32; i++)
        assert_int_equal(step_at(0, (uint64_t)i), (int)rint(i - 15.5));
    release();
}

/* --- faults --------------------------------------------------------------------------------- */

static void has_fault(struct tile_fault fault, smol_status status, uint64_t index)
{
    assert_int_equal(fault.status, status);
    assert_int_equal(fault.index, index);
    assert_non_null(fault.reason);
}

TEST(a_group_too_large_for_f16_is_refused_with_its_first_element)
{
    make(ST_F32, DTYPE_INT8, 20, 70);
    m.values[18 * 70 + 40] = -65504.0f * 127;
    tile_without_fault(16);
    assert_true(scale_at(2, 40) == 65504);
    m.values[18 * 70 + 40] = -nextafterf(nextafterf(65504.0f * 127, INFINITY), INFINITY);
    has_fault(tile(16), SMOL_ERROR_UNSUPPORTED, 18 * 70 + 32);
    tile_without_fault(0); /* the other block is valid */
    m.values[18 * 70 + 40] = FLT_MAX;
    has_fault(tile(16), SMOL_ERROR_UNSUPPORTED, 18 * 70 + 32);
    release();
}

TEST(a_weight_that_bf16_rounds_to_infinity_is_refused_with_its_index)
{
    make(ST_F32, DTYPE_BF16, 20, 7);
    m.values[18 * 7 + 5] = f32_from_bits(0xff7f7fff); /* rounds to the largest, negative */
    tile_without_fault(16);
    assert_int_equal(bf16_at(2, 5), 0xff7f);
    m.values[18 * 7 + 5] = f32_from_bits(0xff7f8000);
    has_fault(tile(16), SMOL_ERROR_UNSUPPORTED, 18 * 7 + 5);
    release();
}

TEST(f32_tiles_take_what_int8_refuses)
{
    make(ST_F32, DTYPE_F32, 1, 5);
    m.values[3] = -FLT_MAX;
    tile_without_fault(0);
    check_f32_block(0);
    release();
}

TEST(what_is_not_finite_is_refused_with_its_index)
{
    static const enum safetensors_dtype sources[] = {ST_F32, ST_F16, ST_BF16};
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3 * 3 * 3; i++) {
        make(sources[i % 3], dtypes[i / 3 % 3], 17, 33);
        m.values[16 * 33 + 32] = bad[i / 9];
        struct tile_fault fault = tile(16);
        has_fault(fault, SMOL_ERROR_NUMERIC, 16 * 33 + 32);
        assert_false(f32_is_finite(fault.value));
        m.values[16 * 33 + 1] = bad[i / 9];
        has_fault(tile(16), SMOL_ERROR_NUMERIC, 16 * 33 + 1); /* the first one */
        tile_without_fault(0);
        release();
    }
}

/* --- instruction sets ----------------------------------------------------------------------- */

TEST(every_instruction_set_gives_the_same_bytes)
{
    static uint8_t expected[MAX_COLS * 16 * sizeof(float)];
    static const enum safetensors_dtype sources[] = {ST_F32, ST_F16, ST_BF16};
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    for (int i = 0; i < 3 * 3 * 100; i++) {
        uint64_t cols = 1 + random_bits() % MAX_COLS;
        make(sources[i % 3], dtypes[i / 3 % 3], 1 + random_bits() % 16, cols);
        for (uint64_t k = 0; k < m.rows * m.cols; k++) /* all exponents that int8 supports */
            m.values[k] = ldexpf(m.values[k] / 4, (int)(random_bits() % 34) - 20);
        tile_without_fault(0);
        memcpy(expected, m.block.data, smol_block_bytes(m.dtype, cols));
        tile_block *other = tile_under_test;
        tile_under_test = smol_tile_block_baseline;
        tile_without_fault(0);
        tile_under_test = other;
        assert_memory_equal(m.block.data, expected, smol_block_bytes(m.dtype, cols));
        release();
    }
}

/* --- int6, int5 and int4 -------------------------------------------------------------------- */

static double coded_scale(uint64_t row, uint64_t col)
{
    uint16_t half;
    const uint8_t *block = m.block.data;
    memcpy(&half, block + group_scales_offset(m.dtype, col / 32) + row * 2, 2);
    assert_true((half & 0x7fff) < 0x7c00 && half != 0x8000);
    return (double)f32_from_f16(half);
}

static unsigned coded_at(uint64_t row, uint64_t col)
{
    const uint8_t *block = m.block.data;
    return group_code(m.dtype, block + group_weights_offset(m.dtype, col / 32), col % 32, row);
}

/* Returns the smallest squared error of a group with a scale. */
static double error_with(const float *values, uint64_t n, double scale)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        double least = INFINITY;
        for (unsigned code = 0; code < levels.n; code++)
            least = fmin(least, fabs((double)values[i] - levels.levels.values[code] * scale));
        sum += least * least;
    }
    return sum;
}

/* Expects that the codes of a group are the best for its scale, and the scale better than none and
 * than those that spread the group over all levels. */
static void check_coded_group(uint64_t first, uint64_t row, uint64_t col)
{
    uint64_t n = m.cols - col < 32 ? m.cols - col : 32;
    const float *values = m.values + (first + row) * m.cols + col;
    double scale = coded_scale(row, col), found = 0, most = 0;
    for (uint64_t i = 0; i < n; i++) {
        double error = (double)values[i] - levels.levels.values[coded_at(row, col + i)] * scale;
        found += error * error;
        most = fmax(most, fabs((double)values[i]));
        if (scale == 0)
            assert_int_equal(coded_at(row, col + i), 0);
    }
    double slack = 1e-5 * found + 1e-9 * most * most;
    assert_true(found <= error_with(values, n, scale) + slack || scale == 0);
    assert_true(found <= error_with(values, n, 0) + slack);
    for (int sign = -1; sign <= 1; sign += 2) {
        uint16_t whole = f16_from_f32((float)(most / 127));
        assert_true(found <= 1.5 * error_with(values, n, sign * (double)f32_from_f16(whole)) +
                                 slack + 1e-12);
    }
}

static void check_coded_block(uint64_t first)
{
    uint64_t groups = (m.cols + 31) / 32, rows = m.rows - first < 16 ? m.rows - first : 16;
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t col = 0; col < m.cols; col += 32)
            check_coded_group(first, row, col);
    for (uint64_t row = 0; row < 16; row++)
        for (uint64_t col = 0; col < groups * 32; col++)
            if (row >= rows || col >= m.cols)
                assert_int_equal(coded_at(row, col), 0);
    for (uint64_t row = rows; row < 16; row++)
        for (uint64_t col = 0; col < (groups + 1) / 2 * 64; col += 32)
            assert_true(coded_scale(row, col) == 0);
    for (uint64_t row = 0; groups % 2 && row < 16; row++)
        assert_true(coded_scale(row, groups * 32) == 0);
}

TEST(codes_are_the_nearest_levels_and_scales_are_good)
{
    for (enum blob_dtype dtype = DTYPE_INT6; dtype <= DTYPE_INT4; dtype++) {
        for_each_block(ST_F32, dtype, check_coded_block);
        for_each_block(ST_BF16, dtype, check_coded_block);
    }
}

TEST(codes_are_good_for_weights_of_every_size)
{
    for (int exponent = -149; exponent <= 20; exponent++) {
        make(ST_F32, DTYPE_INT6 + (unsigned)(exponent + 149) % 3, 16, 64);
        for (uint64_t i = 0; i < m.rows * m.cols; i++)
            m.values[i] = ldexpf(m.values[i] / 4, exponent);
        tile_without_fault(0);
        for (uint64_t row = 0; row < 16; row++)
            for (uint64_t col = 0; col < 64; col += 32)
                if (exponent > -20)
                    check_coded_group(0, row, col);
        release();
    }
}

TEST(levels_times_a_scale_come_back_exactly)
{
    for (enum blob_dtype dtype = DTYPE_INT6; dtype <= DTYPE_INT4; dtype++) {
        make(ST_F32, dtype, 1, 32);
        for (int sign = -1; sign <= 1; sign += 2) {
            for (unsigned i = 0; i < 32; i++) /* both ends, for the scale to be found */
                m.values[i] = (float)(sign * levels.levels.values[i * (levels.n - 1) / 31]) * 0.25f;
            tile_without_fault(0);
            for (unsigned i = 0; i < 32; i++)
                assert_true(levels.levels.values[coded_at(0, i)] * coded_scale(0, 0) ==
                            (double)m.values[i]);
        }
        release();
    }
}

/* Returns the error of input 0 after input 0 has this importance, and all others a little. */
static double error_of_first(float importance)
{
    float all[32];
    for (unsigned i = 0; i < 32; i++)
        all[i] = i == 0 ? importance : 0.01f;
    rule.importance = all;
    tile_without_fault(0);
    rule.importance = NULL;
    return fabs(levels.levels.values[coded_at(0, 0)] * coded_scale(0, 0) - (double)m.values[0]);
}

TEST(important_inputs_have_smaller_errors)
{
    double with = 0, without = 0;
    make(ST_F32, DTYPE_INT4, 1, 32);
    for (int round = 0; round < 200; round++) {
        for (unsigned i = 0; i < 32; i++)
            m.values[i] = random_float();
        without += error_of_first(0.01f);
        with += error_of_first(1);
    }
    assert_true(with < without / 2);
    release();
}

TEST(every_instruction_set_gives_the_same_codes)
{
    float importance[MAX_COLS];
    for (unsigned i = 0; i < MAX_COLS; i++)
        importance[i] = (float)(random_bits() >> 8) * 0x1p-24f;
    for (int round = 0; round < 60; round++) {
        static uint8_t bytes[MAX_COLS * 16 * sizeof(float)];
        rule.importance = round % 2 ? importance : NULL;
        make(ST_F32, DTYPE_INT6 + (unsigned)round % 3, 16, 1 + random_bits() % MAX_COLS);
        tile_without_fault(0);
        size_t size = smol_block_bytes(m.dtype, m.cols);
        memcpy(bytes, m.block.data, size);
        tile_block *variant = tile_under_test;
        tile_under_test = smol_tile_block_baseline;
        tile_without_fault(0);
        tile_under_test = variant;
        assert_memory_equal(m.block.data, bytes, size);
        release();
    }
    rule.importance = NULL;
}

TEST(any_table_of_levels_can_be_used)
{
    static const struct blob_levels odd[] = {
        {{-127, -126, -125, -124, -123, -122, -121, -120, -119, -118, -117, -116, -115, -114, -113,
          -112}},
        {{-15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0}},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
        {{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 127}},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        make(ST_F32, DTYPE_INT4, 16, 64);
        smol_levels_prepare(&levels, &odd[i], DTYPE_INT4);
        tile_without_fault(0);
        for (uint64_t row = 0; row < 16; row++)
            for (uint64_t col = 0; col < 64; col++) {
                double scale = coded_scale(row, col), value = (double)m.values[row * 64 + col];
                double error = fabs(value - odd[i].values[coded_at(row, col)] * scale);
                for (unsigned code = 0; code < 16; code++)
                    assert_true(error <= fabs(value - odd[i].values[code] * scale) + 1e-5);
            }
        release();
    }
}

/* --- vectors -------------------------------------------------------------------------------- */

static struct tile_fault convert_vector(struct guarded *out, uint64_t size)
{
    const struct safetensors_tensor source = {.dtype = m.source_dtype, .data = m.bytes + 1};
    const struct blob_tensor layout = {
        .dtype = DTYPE_F32, .layout = LAYOUT_VECTOR, .rows = 1, .cols = m.cols, .size = size};
    store();
    memset(out->data, 0xaa, size);
    return smol_tile_vector(&source, &layout, out->data);
}

TEST(vectors_hold_the_source_exactly_and_zeros_after_it)
{
    static const enum safetensors_dtype sources[] = {ST_F32, ST_F16, ST_BF16};
    for (uint64_t cols = 1; cols <= 49; cols++) {
        uint64_t size = (cols + 15) / 16 * 64;
        make(sources[cols % 3], DTYPE_F32, 1, cols);
        struct guarded out = guarded_new(size, 64);
        const float *values = out.data;
        assert_int_equal(convert_vector(&out, size).status, SMOL_OK);
        for (uint64_t i = 0; i < size / 4; i++)
            assert_int_equal(f32_bits(values[i]), f32_bits(i < cols ? m.values[i] : 0));
        m.values[cols - 1] = NAN;
        has_fault(convert_vector(&out, size), SMOL_ERROR_NUMERIC, cols - 1);
        guarded_free(&out);
        release();
    }
}

static int run_with(const char *name, tile_block *variant)
{
    tile_under_test = variant;
    return run_all_tests(name, NULL, NULL);
}

int main(void)
{
    int failed = run_with("tile, baseline", smol_tile_block_baseline);
#if defined(__x86_64__)
    if (smol_cpu_has(CPU_AVX2))
        return failed + run_with("tile, AVX2", smol_tile_block_avx2);
#endif
    print_message("SKIPPED: this machine cannot run the AVX2 tiler\n");
    return failed;
}
