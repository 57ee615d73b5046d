/* Widening, quantizing and tiling, see tile.h. */
#include "convert/tile.h"

#include <math.h>
#include <string.h>

#include "common/number.h"

/* Elements [start, start + n) of the tensor as f32: exact for each source type. */
static void widen(const struct safetensors_tensor *source, uint64_t start, uint64_t n, float *out)
{
    if (source->dtype == ST_F32) {
        memcpy(out, source->data + start * sizeof(float), n * sizeof(float));
        return;
    }
    const uint8_t *data = source->data + start * 2; /* any alignment: read by bytes */
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)(data[2 * i] | data[2 * i + 1] << 8);
        out[i] = source->dtype == ST_BF16 ? f32_from_bf16(half) : f32_from_f16(half);
    }
}

static struct tile_fault find_not_finite(const float *values, uint64_t n, uint64_t start)
{
    uint32_t worst = 0; /* one pass without a branch; the place is looked for only on a fault */
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = f32_bits(values[i]) & 0x7fffffffu;
        worst = magnitude > worst ? magnitude : worst;
    }
    if (worst < 0x7f800000u)
        return (struct tile_fault){STATUS_OK, 0, 0, NULL};
    uint64_t i = 0;
    while (f32_is_finite(values[i]))
        i++;
    return (struct tile_fault){STATUS_NUMERIC, start + i, values[i], "is not finite"};
}

/* One row's share of a group: the scale is amax / 127 rounded up to f16, so that no weight
 * exceeds 127 steps and nothing is clamped, however small the scale; weights are then counted
 * in steps of the rounded scale. Returns the scale's bits; infinity where f16 is too narrow. */
static uint16_t quantize_group(const float *values, uint64_t n, int8_t steps[GROUP_INPUTS])
{
    float amax = 0;
    for (uint64_t i = 0; i < n; i++)
        amax = fmaxf(amax, fabsf(values[i]));
    uint16_t bits = f16_from_f32_up(amax / 127.0f);
    if (amax > 0 && bits == 0) /* the quotient was too small for f32 */
        bits = 1;
    float scale = f32_from_f16(bits);
    memset(steps, 0, GROUP_INPUTS);
    if (amax > 0)
        for (uint64_t i = 0; i < n; i++)
            steps[i] = (int8_t)f32_round_even(values[i] / scale);
    return bits;
}

static struct tile_fault tile_row_int8(const float *values, uint64_t cols, uint64_t row,
                                       uint64_t start, uint8_t *block)
{
    uint64_t n_groups = count_groups(cols);
    for (uint64_t group = 0; group < n_groups; group++) {
        uint64_t first = group * GROUP_INPUTS;
        uint64_t n = cols - first < GROUP_INPUTS ? cols - first : GROUP_INPUTS;
        int8_t steps[GROUP_INPUTS];
        uint16_t scale = quantize_group(values + first, n, steps);
        if (scale >= 0x7c00)
            return (struct tile_fault){STATUS_UNSUPPORTED, start + first, values[first],
                                       "is in a group too large for int8's f16 scales"};
        memcpy(block + group_scales_offset(group) + row * sizeof scale, &scale, sizeof scale);
        uint8_t *weights = block + group_weights_offset(group) + row * 4;
        for (uint64_t quad = 0; quad < GROUP_INPUTS / 4; quad++)
            memcpy(weights + quad * QUAD_BYTES, steps + quad * 4, 4);
    }
    return (struct tile_fault){STATUS_OK, 0, 0, NULL};
}

static struct tile_fault tile_row_bf16(const float *values, uint64_t cols, uint64_t row,
                                       uint64_t start, uint8_t *block)
{
    for (uint64_t col = 0; col < cols; col++) {
        uint16_t half = bf16_from_f32(values[col]);
        if ((half & 0x7f80) == 0x7f80)
            return (struct tile_fault){STATUS_UNSUPPORTED, start + col, values[col],
                                       "rounds to infinity in bf16"};
        memcpy(block + ((col / 2 * TILE_ROWS + row) * 2 + col % 2) * sizeof half, &half,
               sizeof half);
    }
    return (struct tile_fault){STATUS_OK, 0, 0, NULL};
}

static struct tile_fault tile_row_f32(const float *values, uint64_t cols, uint64_t row,
                                      uint8_t *block)
{
    for (uint64_t col = 0; col < cols; col++)
        memcpy(block + (col * TILE_ROWS + row) * sizeof(float), &values[col], sizeof(float));
    return (struct tile_fault){STATUS_OK, 0, 0, NULL};
}

static struct tile_fault tile_row(const float *values, const struct blob_tensor *layout,
                                  uint64_t row, uint64_t start, uint8_t *block)
{
    switch ((enum blob_dtype)layout->dtype) {
    case DTYPE_BF16:
        return tile_row_bf16(values, layout->cols, row, start, block);
    case DTYPE_INT8:
        return tile_row_int8(values, layout->cols, row, start, block);
    case DTYPE_F32:
        break;
    }
    return tile_row_f32(values, layout->cols, row, block);
}

struct tile_fault smol_tile_block(const struct safetensors_tensor *source,
                                  const struct blob_tensor *layout, uint64_t row, float *scratch,
                                  uint8_t *out)
{
    uint64_t cols = layout->cols;
    uint64_t rows = rows_in_block(row, layout->rows);
    memset(out, 0, smol_block_bytes(layout->dtype, cols));
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t start = (row + r) * cols;
        widen(source, start, cols, scratch);
        struct tile_fault fault = find_not_finite(scratch, cols, start);
        if (!fault.status)
            fault = tile_row(scratch, layout, r, start, out);
        if (fault.status)
            return fault;
    }
    return (struct tile_fault){STATUS_OK, 0, 0, NULL};
}

struct tile_fault smol_tile_vector(const struct safetensors_tensor *source,
                                   const struct blob_tensor *layout, uint8_t *out)
{
    memset(out, 0, layout->size);
    widen(source, 0, layout->cols, (float *)out);
    return find_not_finite((float *)out, layout->cols, 0);
}
