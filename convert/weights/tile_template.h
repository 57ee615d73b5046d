/* Converts a row block of a checkpoint into tiles. The file that includes this one compiles it for
 * one instruction set, and first defines:
 *
 *   TILE_BLOCK   the names of the functions to define: smol_tile_block for this instruction set,
 *   ROUND_TRIP   smol_tile_round_trip,
 *   GROUP_SCALE  smol_group_scale
 *   GROUP_CODES  and that of its codes
 *
 * The code is plain C. Each operation is on integers or is one of IEEE 754's, so all instruction
 * sets produce the same bytes. Loops run over GROUP_INPUTS elements while that many are left,
 * because compilers vectorize loops of a constant count. */

#include <string.h>

#include "common/number.h"
#include "convert/weights/level_template.h"
#include "convert/weights/tile.h"

/* --- finding infinities and NaNs ---------------------------------------------------------- */

/* Returns the bits of the largest |value|. The bits of infinities and NaNs are larger than all
 * others. */
static inline uint32_t largest_magnitude(const float *values, uint64_t n)
{
    uint32_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t magnitude = f32_bits(values[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* Finds the first value that is not finite. The pass over the values has no branch on a value; the
 * index is searched for only after a fault. */
static struct tile_fault find_not_finite(const float *values, uint64_t n, uint64_t start)
{
    uint32_t worst = 0;
    uint64_t i = 0;
    for (; n - i >= GROUP_INPUTS; i += GROUP_INPUTS) {
        uint32_t largest = largest_magnitude(values + i, GROUP_INPUTS);
        worst = largest > worst ? largest : worst;
    }
    uint32_t largest = largest_magnitude(values + i, n - i);
    if (worst < 0x7f800000u && largest < 0x7f800000u)
        return (struct tile_fault){SMOL_OK, 0, 0, NULL};
    for (i = 0; f32_is_finite(values[i]);)
        i++;
    return (struct tile_fault){SMOL_ERROR_NUMERIC, start + i, values[i], "is not finite"};
}

/* --- tiling a row ------------------------------------------------------------------------- */

/* Returns group number `group` of a row of `cols` values: a pointer into the row, or to a copy in
 * `padded` with zeros appended if the row ends within the group. */
static inline const float *whole_group(const float *values, uint64_t cols, uint64_t group,
                                       float padded[GROUP_INPUTS])
{
    uint64_t first = group * GROUP_INPUTS;
    if (cols - first >= GROUP_INPUTS)
        return values + first;
    memset(padded, 0, GROUP_INPUTS * sizeof *padded);
    memcpy(padded, values + first, (cols - first) * sizeof *padded);
    return padded;
}

/* The largest magnitude of a weight in a group with an f16 scale: 127 times the largest f16. */
#define MAX_SCALED (127 * 65504.0f)

/* Quantizes one row of a group. The scale is amax / 127 rounded up to f16, so that no weight
 * exceeds 127 steps and nothing is clamped, however small the scale. The weights are then counted
 * in steps of the rounded scale. Returns the bits of the scale, which is infinity if it exceeds the
 * range of f16. */
static inline uint16_t quantize_group(const float *restrict values, int8_t *restrict steps)
{
    float amax = f32_from_bits(largest_magnitude(values, GROUP_INPUTS));
    uint16_t bits = f16_from_f32_up(amax / 127.0f);
    if (amax > 0 && bits == 0) /* the quotient was too small for f32 */
        bits = 1;
    float scale = amax > 0 ? f32_from_f16(bits) : 1; /* avoids 0 / 0 */
    for (uint64_t i = 0; i < GROUP_INPUTS; i++)
        steps[i] = (int8_t)f32_round_even(values[i] / scale);
    return bits;
}

static struct tile_fault tile_row_int8(const float *values, uint64_t cols, uint64_t row,
                                       uint64_t start, uint8_t *block)
{
    uint64_t n_groups = count_groups(cols);
    for (uint64_t group = 0; group < n_groups; group++) {
        float padded[GROUP_INPUTS];
        int8_t steps[GROUP_INPUTS];
        uint16_t scale = quantize_group(whole_group(values, cols, group, padded), steps);
        uint64_t first = group * GROUP_INPUTS;
        if (scale >= 0x7c00)
            return (struct tile_fault){SMOL_ERROR_UNSUPPORTED, start + first, values[first],
                                       "is in a group too large for int8's f16 scales"};
        memcpy(block + group_scales_offset(DTYPE_INT8, group) + row * sizeof scale, &scale,
               sizeof scale);
        uint8_t *weights = block + group_weights_offset(DTYPE_INT8, group) + row * 4;
        for (uint64_t quad = 0; quad < GROUP_QUADS; quad++)
            memcpy(weights + quad * QUAD_BYTES, steps + quad * 4, 4);
    }
    return (struct tile_fault){SMOL_OK, 0, 0, NULL};
}

static struct tile_fault tile_row_coded(const float *values, const struct blob_tensor *layout,
                                        const struct tile_rule *rule, uint64_t row, uint64_t start,
                                        uint8_t *block)
{
    enum blob_dtype dtype = (enum blob_dtype)layout->dtype;
    uint64_t cols = layout->cols, n_groups = count_groups(cols);
    for (uint64_t group = 0; group < n_groups; group++) {
        float padded[GROUP_INPUTS], padded_importance[GROUP_INPUTS];
        uint8_t codes[GROUP_INPUTS];
        uint64_t first = group * GROUP_INPUTS;
        const float *whole = whole_group(values, cols, group, padded), *importance = NULL;
        if (f32_from_bits(largest_magnitude(whole, GROUP_INPUTS)) > MAX_SCALED)
            return (struct tile_fault){SMOL_ERROR_UNSUPPORTED, start + first, values[first],
                                       "is in a group too large for f16 scales"};
        if (rule->importance)
            importance = whole_group(rule->importance, cols, group, padded_importance);
        uint16_t scale = GROUP_SCALE(rule->levels, whole, importance);
        memcpy(block + group_scales_offset(dtype, group) + row * sizeof scale, &scale,
               sizeof scale);
        GROUP_CODES(rule->levels, whole, f32_from_f16(scale), codes);
        uint8_t *weights = block + group_weights_offset(dtype, group);
        for (uint64_t i = 0; i < GROUP_INPUTS && first + i < cols; i++)
            group_set_code(dtype, weights, i, row, codes[i]);
    }
    return (struct tile_fault){SMOL_OK, 0, 0, NULL};
}

/* Rounds a group to bf16. Returns whether all results are finite. */
static inline bool round_group(const float *restrict values, uint16_t *restrict halves)
{
    uint16_t largest = 0;
    for (uint64_t i = 0; i < GROUP_INPUTS; i++) {
        halves[i] = bf16_from_f32(values[i]);
        uint16_t magnitude = halves[i] & 0x7fff;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7f80;
}

static struct tile_fault find_infinite(const float *values, const uint16_t *halves, uint64_t start)
{
    uint64_t i = 0;
    while ((halves[i] & 0x7fff) < 0x7f80)
        i++;
    return (struct tile_fault){SMOL_ERROR_UNSUPPORTED, start + i, values[i],
                               "rounds to infinity in bf16"};
}

static struct tile_fault tile_row_bf16(const float *values, uint64_t cols, uint64_t row,
                                       uint64_t start, uint8_t *block)
{
    uint64_t n_groups = count_groups(cols);
    for (uint64_t group = 0; group < n_groups; group++) {
        float padded[GROUP_INPUTS];
        uint16_t halves[GROUP_INPUTS];
        uint64_t first = group * GROUP_INPUTS;
        if (!round_group(whole_group(values, cols, group, padded), halves))
            return find_infinite(values + first, halves, start + first);
        uint64_t n = cols - first < GROUP_INPUTS ? cols - first : GROUP_INPUTS;
        uint8_t *pairs = block + (first / 2 * TILE_ROWS + row) * 4;
        for (uint64_t i = 0; i < n; i += 2)
            memcpy(pairs + i / 2 * TILE_ROWS * 4, halves + i, 4);
    }
    return (struct tile_fault){SMOL_OK, 0, 0, NULL};
}

static struct tile_fault tile_row_f32(const float *values, uint64_t cols, uint64_t row,
                                      uint8_t *block)
{
    for (uint64_t col = 0; col < cols; col++)
        memcpy(block + (col * TILE_ROWS + row) * sizeof(float), &values[col], sizeof(float));
    return (struct tile_fault){SMOL_OK, 0, 0, NULL};
}

static struct tile_fault tile_row(const float *values, const struct blob_tensor *layout,
                                  const struct tile_rule *rule, uint64_t row, uint64_t start,
                                  uint8_t *block)
{
    switch ((enum blob_dtype)layout->dtype) {
    case DTYPE_BF16:
        return tile_row_bf16(values, layout->cols, row, start, block);
    case DTYPE_INT8:
        return tile_row_int8(values, layout->cols, row, start, block);
    case DTYPE_INT6:
    case DTYPE_INT5:
    case DTYPE_INT4:
        return tile_row_coded(values, layout, rule, row, start, block);
    case DTYPE_F32:
        break;
    }
    return tile_row_f32(values, layout->cols, row, block);
}

/* --- a block ------------------------------------------------------------------------------ */

struct tile_fault TILE_BLOCK(const struct safetensors_tensor *source,
                             const struct blob_tensor *layout, const struct tile_rule *rule,
                             uint64_t row, float *scratch, uint8_t *out) {
    uint64_t cols = layout->cols;
    uint64_t rows = rows_in_block(row, layout->rows);
    memset(out, 0, smol_block_bytes(layout->dtype, cols));
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t start = (row + r) * cols;
        tensor_widen(source, start, cols, scratch);
        struct tile_fault fault = find_not_finite(scratch, cols, start);
        if (!fault.status)
            fault = tile_row(scratch, layout, rule, r, start, out);
        if (fault.status)
            return fault;
    }
    return (struct tile_fault){SMOL_OK, 0, 0, NULL};
}

/* --- the values of int8 ------------------------------------------------------------------- */

bool ROUND_TRIP(const float *values, uint64_t n, float *out)
{
    for (uint64_t group = 0; group < count_groups(n); group++) {
        float padded[GROUP_INPUTS];
        int8_t steps[GROUP_INPUTS];
        uint16_t bits = quantize_group(whole_group(values, n, group, padded), steps);
        if (bits >= 0x7c00)
            return false;
        float scale = f32_from_f16(bits);
        uint64_t first = group * GROUP_INPUTS;
        for (uint64_t i = 0; i < GROUP_INPUTS; i++)
            padded[i] = (float)steps[i] * scale;
        memcpy(out + first, padded,
               (n - first < GROUP_INPUTS ? n - first : GROUP_INPUTS) * sizeof *out);
    }
    return true;
}
