/* Verification of everything in a blob, see reader.h: digests, finite numbers, zero padding. */
#include "format/front.h"

#include "common/number.h"

/* Returns whether all of values[0..n) are finite. */
static bool all_finite(const float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!f32_is_finite(values[i]))
            return false;
    return true;
}

/* Parts of a block without padding, which are most of it, are checked without a branch per element
 * so that compilers can vectorize the loop. */

static bool f32_column_is_finite(const float column[TILE_ROWS])
{
    bool finite = true;
    for (size_t row = 0; row < TILE_ROWS; row++)
        finite &= f32_is_finite(column[row]);
    return finite;
}

static bool f32_block_is_well_formed(const float *block, uint64_t cols, uint64_t rows)
{
    for (uint64_t col = 0; col < cols; col++, block += TILE_ROWS)
        if (rows == TILE_ROWS ? !f32_column_is_finite(block)
                              : !all_finite(block, rows) ||
                                    !all_zero(block + rows, (TILE_ROWS - rows) * sizeof *block))
            return false;
    return true;
}

enum { PAIR_COLUMN = 2 * TILE_ROWS }; /* elements of two neighbouring columns */

static bool bf16_columns_are_finite(const uint16_t columns[PAIR_COLUMN])
{
    bool finite = true;
    for (size_t i = 0; i < PAIR_COLUMN; i++)
        finite &= f32_is_finite(f32_from_bf16(columns[i]));
    return finite;
}

static bool bf16_block_is_well_formed(const uint16_t *block, uint64_t cols, uint64_t rows)
{
    for (uint64_t col = 0; col < cols; col += 2, block += PAIR_COLUMN) {
        if (rows == TILE_ROWS && col + 1 < cols) {
            if (!bf16_columns_are_finite(block))
                return false;
            continue;
        }
        for (uint64_t i = 0; i < PAIR_COLUMN; i++)
            if (i / 2 < rows && col + i % 2 < cols ? !f32_is_finite(f32_from_bf16(block[i]))
                                                   : block[i] != 0)
                return false;
    }
    return true;
}

static bool group_has_none(const int8_t weights[QUAD_BYTES * GROUP_QUADS], int8_t value)
{
    bool none = true;
    for (size_t i = 0; i < QUAD_BYTES * GROUP_QUADS; i++)
        none &= weights[i] != value;
    return none;
}

/* Returns whether scales are finite and not negative, no weight is -128, and padding is zero. */
static bool int8_block_is_well_formed(const uint8_t *block, uint64_t cols, uint64_t rows)
{
    uint64_t groups = count_groups(cols);
    if (groups % 2 && !all_zero(block + group_scales_offset(DTYPE_INT8, groups), SCALES_BYTES / 2))
        return false;
    for (uint64_t group = 0; group < groups; group++) {
        const uint16_t *scales = (const void *)(block + group_scales_offset(DTYPE_INT8, group));
        const int8_t *weights = (const void *)(block + group_weights_offset(DTYPE_INT8, group));
        for (uint64_t row = 0; row < TILE_ROWS; row++)
            if (row < rows ? scales[row] >= 0x7c00 : scales[row] != 0)
                return false;
        if (rows == TILE_ROWS && (group + 1) * GROUP_INPUTS <= cols) {
            if (!group_has_none(weights, -128))
                return false;
            continue;
        }
        for (uint64_t i = 0; i < QUAD_BYTES * GROUP_QUADS; i++) {
            uint64_t row = i % QUAD_BYTES / 4;
            uint64_t col = group * GROUP_INPUTS + i / QUAD_BYTES * 4 + i % 4;
            if (row < rows && col < cols ? weights[i] == -128 : weights[i] != 0)
                return false;
        }
    }
    return true;
}

/* Returns whether a scale of int6, int5 or int4 is finite and not -0. */
static bool scale_is_valid(uint16_t scale)
{
    return (scale & 0x7fff) < 0x7c00 && scale != 0x8000;
}

/* Returns whether the scales of int6, int5 or int4 are valid, and padding is zero. */
static bool coded_block_is_well_formed(const uint8_t *block, enum blob_dtype dtype, uint64_t cols,
                                       uint64_t rows)
{
    uint64_t groups = count_groups(cols);
    if (groups % 2 && !all_zero(block + group_scales_offset(dtype, groups), SCALES_BYTES / 2))
        return false;
    for (uint64_t group = 0; group < groups; group++) {
        const uint16_t *scales = (const void *)(block + group_scales_offset(dtype, group));
        const uint8_t *weights = block + group_weights_offset(dtype, group);
        uint64_t inputs = cols - group * GROUP_INPUTS;
        for (uint64_t row = 0; row < TILE_ROWS; row++)
            if (row < rows ? !scale_is_valid(scales[row]) : scales[row] != 0)
                return false;
        for (uint64_t i = 0; (rows < TILE_ROWS || inputs < GROUP_INPUTS) && i < GROUP_INPUTS; i++)
            for (uint64_t row = i < inputs ? rows : 0; row < TILE_ROWS; row++)
                if (group_code(dtype, weights, i, row) != 0)
                    return false;
    }
    return true;
}

/* Checks one row block of a matrix, of which `rows` rows are not padding. */
static bool block_is_well_formed(const uint8_t *block, enum blob_dtype dtype, uint64_t cols,
                                 uint64_t rows)
{
    switch (dtype) {
    case DTYPE_F32:
        return f32_block_is_well_formed((const void *)block, cols, rows);
    case DTYPE_BF16:
        return bf16_block_is_well_formed((const void *)block, cols, rows);
    case DTYPE_INT8:
        return int8_block_is_well_formed(block, cols, rows);
    case DTYPE_INT6:
    case DTYPE_INT5:
    case DTYPE_INT4:
        return coded_block_is_well_formed(block, dtype, cols, rows);
    }
    return false;
}

bool smol_tensor_is_well_formed(const void *start, const struct blob_tensor *tensor)
{
    const uint8_t *data = start;
    if (tensor->layout != LAYOUT_TILES) {
        uint64_t n = tensor->rows * tensor->cols, used = n * sizeof(float);
        return all_finite(start, n) && all_zero(data + used, tensor->size - used);
    }
    uint64_t bytes = smol_block_bytes(tensor->dtype, tensor->cols);
    for (uint64_t row = 0; row < tensor->rows; row += TILE_ROWS, data += bytes) {
        uint64_t rows = rows_in_block(row, tensor->rows);
        if (!block_is_well_formed(data, tensor->dtype, tensor->cols, rows))
            return false;
    }
    return true;
}

/* Progress of a verification, in bytes. */
struct verification {
    const struct listener *listener;
    uint64_t done, told, total;
};

/* Returns the number of tensors with weights of their own: a tied output, the last one, has none.
 */
static size_t own_tensors(const struct blob *blob)
{
    return blob->n_tensors - blob->model->tied_embeddings;
}

static struct verification start_verification(const struct blob *blob,
                                              const struct listener *listener)
{
    uint64_t total = blob->header->file_size - blob->header->data_offset;
    for (size_t i = 0; i < own_tensors(blob); i++)
        total += blob->tensors[i].size;
    return (struct verification){.listener = listener, .total = total};
}

static smol_status advance(struct verification *v, uint64_t size, const struct blob *blob,
                           smol_error *error)
{
    enum { TELL_AFTER = 1 << 20 };
    v->done += size;
    if (v->done - v->told < TELL_AFTER || v->done >= v->total)
        return SMOL_OK;
    v->told = v->done;
    return listener_cancels(v->listener, v->done, v->total)
               ? smol_fail(error, SMOL_ERROR_CANCELLED, "%s: verification cancelled", blob->path)
               : SMOL_OK;
}

smol_status smol_blob_verify(const struct blob *blob, const struct listener *listener,
                             smol_error *error)
{
    struct verification v = start_verification(blob, listener);
    smol_status status = SMOL_OK;
    for (size_t chunk = 0; !status && chunk < blob->n_chunks; chunk++) {
        status = smol_verify_chunk(blob, chunk, error);
        if (!status)
            status = advance(&v, smol_chunk_size(blob, chunk), blob, error);
    }
    for (size_t i = 0; !status && i < own_tensors(blob); i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        if (!smol_tensor_is_well_formed(blob->file.data + tensor->offset, tensor))
            status = smol_damaged_tensor(blob, error, SECTION_WEIGHTS, tensor_key(tensor),
                                         "breaks the format", tensor->offset);
        else
            status = advance(&v, tensor->size, blob, error);
    }
    return status;
}
