/* Untiling, see untile.h and format/FORMAT.md, 7.2 to 7.5. */
#include "convert/weights/untile.h"

#include <string.h>

#include "common/number.h"
#include "format/layout.h"

/* The functions below take a row block and the row within it. */

static void untile_f32(const uint8_t *block, uint64_t row, uint64_t col, uint64_t n, float *out)
{
    for (uint64_t i = 0; i < n; i++)
        memcpy(&out[i], block + ((col + i) * TILE_ROWS + row) * sizeof *out, sizeof *out);
}

static void untile_bf16(const uint8_t *block, uint64_t row, uint64_t col, uint64_t n, float *out)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        uint64_t pair = (col + i) / 2 * TILE_ROWS + row;
        memcpy(&half, block + (pair * 2 + (col + i) % 2) * sizeof half, sizeof half);
        out[i] = f32_from_bf16(half);
    }
}

static float scale_at(enum blob_dtype dtype, const uint8_t *block, uint64_t row, uint64_t group)
{
    uint16_t half;
    memcpy(&half, block + group_scales_offset(dtype, group) + row * sizeof half, sizeof half);
    return f32_from_f16(half);
}

static void untile_grouped(enum blob_dtype dtype, const int8_t *levels, const uint8_t *block,
                           uint64_t row, uint64_t col, uint64_t n, float *out)
{
    float scale = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t group = (col + i) / GROUP_INPUTS, input = (col + i) % GROUP_INPUTS;
        if (i == 0 || input == 0)
            scale = scale_at(dtype, block, row, group);
        const uint8_t *weights = block + group_weights_offset(dtype, group);
        out[i] = (float)group_weight(dtype, levels, weights, input, row) * scale;
    }
}

void smol_untile(const struct blob_tensor *layout, const int8_t *levels, const uint8_t *data,
                 uint64_t row, uint64_t col, uint64_t n, float *out)
{
    if (layout->layout != LAYOUT_TILES) {
        memcpy(out, data + (row * layout->cols + col) * sizeof *out, n * sizeof *out);
        return;
    }
    const uint8_t *block = data + row / TILE_ROWS * smol_block_bytes(layout->dtype, layout->cols);
    switch ((enum blob_dtype)layout->dtype) {
    case DTYPE_F32:
        untile_f32(block, row % TILE_ROWS, col, n, out);
        break;
    case DTYPE_BF16:
        untile_bf16(block, row % TILE_ROWS, col, n, out);
        break;
    case DTYPE_INT8:
    case DTYPE_INT6:
    case DTYPE_INT5:
    case DTYPE_INT4:
        untile_grouped(layout->dtype, levels, block, row % TILE_ROWS, col, n, out);
    }
}

float smol_untile_scale(const struct blob_tensor *layout, const uint8_t *data, uint64_t row,
                        uint64_t group)
{
    const uint8_t *block = data + row / TILE_ROWS * smol_block_bytes(layout->dtype, layout->cols);
    return scale_at(layout->dtype, block, row % TILE_ROWS, group);
}
