/* Tests of untiling, the inverse of tiling: for matrices of odd shapes and each dtype, every part
 * of every row is returned as FORMAT.md specifies, and nothing outside the tensor is read. */
#include <string.h>

#include "common/number.h"
#include "convert/weights/tile.h"
#include "convert/weights/untile.h"
#include "tests/unit/guarded.h"
#include "tests/unit/unit.h"

enum { MAX_ROWS = 35, MAX_COLS = 131 };

static float values[MAX_ROWS * MAX_COLS];

/* Returns the table that the tests use for a dtype, or NULL. */
static const int8_t *levels_of(enum blob_dtype dtype)
{
    static struct blob_levels levels;
    if (dtype <= DTYPE_INT8)
        return NULL;
    levels = smol_levels_default(dtype);
    return levels.values;
}

/* Makes a tensor of random values of many magnitudes in `values`, tiled, between guard pages. */
static struct guarded make(const struct blob_tensor *layout)
{
    static float scratch[MAX_COLS];
    const struct safetensors_tensor source = {.dtype = ST_F32, .data = (const uint8_t *)values};
    for (uint64_t i = 0; i < layout->rows * layout->cols; i++)
        values[i] = ((float)(random_bits() >> 8) - 0x1p23f) * (random_bits() % 2 ? 0x1p-20f : 0.5f);
    struct guarded tiles = guarded_new(layout->size, 64);
    if (layout->layout == LAYOUT_VECTOR) {
        assert_int_equal(smol_tile_vector(&source, layout, tiles.data).status, SMOL_OK);
        return tiles;
    }
    uint64_t bytes = smol_block_bytes(layout->dtype, layout->cols);
    static struct level_search search;
    const struct tile_rule rule = {.levels = &search};
    if (layout->dtype > DTYPE_INT8)
        smol_levels_prepare(&search, (const void *)levels_of(layout->dtype), layout->dtype);
    for (uint64_t row = 0; row < layout->rows; row += TILE_ROWS) {
        uint8_t *block = (uint8_t *)tiles.data + row / TILE_ROWS * bytes;
        struct tile_fault fault = smol_tile_block(&source, layout, &rule, row, scratch, block);
        assert_int_equal(fault.status, SMOL_OK);
    }
    return tiles;
}

/* Returns the code of an int6, int5 or int4 weight by FORMAT.md's table. `codes` is its group. */
static unsigned code_at(const uint8_t *codes, enum blob_dtype dtype, uint64_t row, uint64_t col)
{
    uint64_t q = col % 32 / 4, b = row % 16 * 4 + col % 4;
    unsigned code = q % 2 == 0 ? codes[q / 2 * 64 + b] & 15u : codes[q / 2 * 64 + b] / 16u;
    if (dtype == DTYPE_INT5)
        code += codes[4 * 64 + b] / (1u << q) % 2 * 16;
    if (dtype == DTYPE_INT6)
        code += codes[(4 + q / 4) * 64 + b] / (1u << q % 4 * 2) % 4 * 16;
    return code;
}

/* Returns the stored value of the element by FORMAT.md's formulas. */
static float stored(const struct blob_tensor *layout, const uint8_t *data, uint64_t row,
                    uint64_t col)
{
    uint64_t cols = layout->cols, groups = (cols + 31) / 32, g = col / 32;
    uint64_t block = groups * 512 + (groups + 1) / 2 * 64;
    float value;
    uint16_t half;
    switch (layout->dtype) {
    case DTYPE_F32:
        memcpy(&value, data + row / 16 * (cols * 64) + col * 64 + row % 16 * 4, 4);
        return value;
    case DTYPE_BF16:
        memcpy(&half,
               data + row / 16 * ((cols + 1) / 2 * 64) + col / 2 * 64 + row % 16 * 4 + col % 2 * 2,
               2);
        return f32_from_bf16(half);
    case DTYPE_INT6:
    case DTYPE_INT5:
    case DTYPE_INT4: {
        uint64_t size = layout->dtype == DTYPE_INT6 ? 384 : layout->dtype == DTYPE_INT5 ? 320 : 256;
        block = groups * size + (groups + 1) / 2 * 64;
        data += row / 16 * block + g / 2 * (64 + 2 * size);
        memcpy(&half, data + g % 2 * 32 + row % 16 * 2, 2);
        unsigned code = code_at(data + 64 + g % 2 * size, layout->dtype, row, col);
        return (float)((double)levels_of(layout->dtype)[code] * (double)f32_from_f16(half));
    }
    default:
        data += row / 16 * block + g / 2 * 1088;
        memcpy(&half, data + g % 2 * 32 + row % 16 * 2, 2);
        int8_t step = (int8_t)data[64 + g % 2 * 512 + col % 32 / 4 * 64 + row % 16 * 4 + col % 4];
        return (float)((double)step * (double)f32_from_f16(half));
    }
}

static void check_range(const struct blob_tensor *layout, const uint8_t *data, uint64_t row,
                        uint64_t col, uint64_t n)
{
    struct guarded out = guarded_new(n * sizeof(float), sizeof(float));
    const float *found = out.data;
    smol_untile(layout, levels_of(layout->dtype), data, row, col, n, out.data);
    for (uint64_t i = 0; i < n; i++) {
        float due =
            layout->layout == LAYOUT_VECTOR ? values[col + i] : stored(layout, data, row, col + i);
        assert_int_equal(f32_bits(found[i]), f32_bits(due));
    }
    guarded_free(&out);
}

/* Reads a whole row, its first element, its last, and a part of it. */
static void check_row(const struct blob_tensor *layout, const uint8_t *data, uint64_t row)
{
    uint64_t start = random_bits() % layout->cols;
    check_range(layout, data, row, 0, layout->cols);
    check_range(layout, data, row, 0, 1);
    check_range(layout, data, row, layout->cols - 1, 1);
    check_range(layout, data, row, start, 1 + random_bits() % (layout->cols - start));
    check_range(layout, data, row, start, 0);
}

TEST(tiles_of_every_shape_and_dtype_come_back)
{
    static const uint64_t widths[] = {1, 2, 31, 32, 33, 63, 64, 65, 97, 131};
    static const uint64_t heights[] = {1, 15, 16, 17, 35};
    for (int i = 0; i < 10 * 5 * 6; i++) {
        struct blob_tensor layout = {.dtype = DTYPE_F32 + (uint32_t)i % 6,
                                     .layout = LAYOUT_TILES,
                                     .rows = heights[i / 6 % 5],
                                     .cols = widths[i / 30]};
        layout.size = count_blocks(layout.rows) * smol_block_bytes(layout.dtype, layout.cols);
        struct guarded tiles = make(&layout);
        for (uint64_t row = 0; row < layout.rows; row++)
            check_row(&layout, tiles.data, row);
        guarded_free(&tiles);
    }
}

TEST(what_f32_and_bf16_hold_is_the_source)
{
    float row[MAX_COLS];
    for (uint32_t dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        struct blob_tensor layout = {
            .dtype = dtype, .layout = LAYOUT_TILES, .rows = 35, .cols = 131};
        layout.size = count_blocks(35) * smol_block_bytes(dtype, 131);
        struct guarded tiles = make(&layout);
        for (uint64_t r = 0; r < 35; r++) {
            smol_untile(&layout, NULL, tiles.data, r, 0, 131, row);
            for (uint64_t c = 0; c < 131; c++) {
                float due = values[r * 131 + c];
                if (dtype == DTYPE_BF16)
                    due = f32_from_bf16(bf16_from_f32(due));
                assert_int_equal(f32_bits(row[c]), f32_bits(due));
            }
        }
        guarded_free(&tiles);
    }
}

/* Steps of 8 bits times scales of 11 bits: rounding would be visible here. */
TEST(every_product_of_step_and_scale_is_exact)
{
    const struct blob_tensor layout = {
        .dtype = DTYPE_INT8, .layout = LAYOUT_TILES, .rows = 1, .cols = 1};
    _Alignas(64) uint8_t block[64 + 512] = {0};
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        uint16_t half = (uint16_t)bits;
        memcpy(block, &half, 2);
        for (int step = -127; step <= 127; step++) {
            float out;
            block[64] = (uint8_t)(int8_t)step;
            smol_untile(&layout, NULL, block, 0, 0, 1, &out);
            if ((double)out != (double)step * (double)f32_from_f16(half))
                fail_msg("%d x %04x", step, (unsigned)half);
        }
    }
}

TEST(vectors_come_back)
{
    for (uint64_t cols = 1; cols <= 49; cols++) {
        struct blob_tensor layout = {
            .dtype = DTYPE_F32, .layout = LAYOUT_VECTOR, .rows = 1, .cols = cols};
        layout.size = round_up(cols * 4, 64);
        struct guarded tiles = make(&layout);
        check_row(&layout, tiles.data, 0);
        guarded_free(&tiles);
    }
}

TEST(every_code_has_bits_of_its_own)
{
    for (enum blob_dtype dtype = DTYPE_INT6; dtype <= DTYPE_INT4; dtype++)
        for (size_t i = 0; i < TILE_ROWS * GROUP_INPUTS; i++) {
            unsigned n = level_count(dtype), code = 1 + random_bits() % (n - 1);
            uint8_t group[TILE_ROWS * GROUP_INPUTS] = {0};
            group_set_code(dtype, group, i / TILE_ROWS, i % TILE_ROWS, code);
            for (size_t k = 0; k < TILE_ROWS * GROUP_INPUTS; k++) {
                unsigned want = k == i ? code : 0;
                assert_int_equal(group_code(dtype, group, k / TILE_ROWS, k % TILE_ROWS), want);
                assert_int_equal(code_at(group, dtype, k % TILE_ROWS, k / TILE_ROWS), want);
            }
            for (size_t byte = group_bytes(dtype); byte < sizeof group; byte++)
                assert_int_equal(group[byte], 0);
        }
}

int main(void)
{
    return run_all_tests("untile", NULL, NULL);
}
