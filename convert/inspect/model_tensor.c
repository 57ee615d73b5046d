/* Reads a tensor of either kind of file, see model_tensor.h. */
#include "convert/inspect/model_tensor.h"

#include <string.h>

#include "common/number.h"
#include "convert/checkpoint/tensor.h"
#include "convert/weights/untile.h"

/* --- description --------------------------------------------------------------------------- */

void smol_tensor_set_raw(struct model_tensor *tensor, const struct safetensors_tensor *raw)
{
    tensor->raw = raw;
    tensor->data = raw->data;
    tensor->rank = raw->rank;
    tensor->n_elements = 1;
    for (unsigned i = 0; i < raw->rank; i++) {
        tensor->shape[i] = raw->shape[i];
        tensor->n_elements *= raw->shape[i]; /* the reader checked that this fits */
    }
}

void smol_tensor_set_tiled(struct model_tensor *tensor, const struct blob *blob,
                           const struct blob_tensor *tiled)
{
    bool vector = tiled->layout == LAYOUT_VECTOR;
    tensor->tiled = tiled;
    tensor->levels = blob_levels(blob, tiled);
    tensor->data = blob->file.data + tiled->offset;
    tensor->rank = vector ? 1 : 2;
    tensor->shape[0] = vector ? tiled->cols : tiled->rows;
    tensor->shape[1] = vector ? 0 : tiled->cols;
    tensor->n_elements = tiled->rows * tiled->cols;
}

const char *smol_tensor_dtype(const struct model_tensor *tensor)
{
    return tensor->tiled ? smol_dtype_name(tensor->tiled->dtype)
                         : smol_element_name(tensor->raw->dtype);
}

uint64_t smol_tensor_size(const struct model_tensor *tensor)
{
    return tensor->tiled ? tensor->tiled->size : tensor->raw->size;
}

/* --- reading ------------------------------------------------------------------------------ */

bool smol_tensor_is_number(const struct model_tensor *tensor)
{
    if (tensor->tiled)
        return true;
    switch (tensor->raw->dtype) {
    case ST_BOOL:
    case ST_U8:
    case ST_I8:
    case ST_U16:
    case ST_I16:
    case ST_U32:
    case ST_I32:
    case ST_F64:
        return true;
    default:
        return tensor_is_weight(tensor->raw);
    }
}

/* Sets out[0..n) from elements of `type`, each called x, at any alignment. */
#define WIDEN(type, value)                                                                         \
    for (uint64_t i = 0; i < n; i++) {                                                             \
        type x;                                                                                    \
        memcpy(&x, data + i * sizeof x, sizeof x);                                                 \
        out[i] = (double)(value);                                                                  \
    }                                                                                              \
    break

static void widen(enum safetensors_dtype dtype, const uint8_t *data, uint64_t n, double *out)
{
    switch (dtype) {
    case ST_I8:
        WIDEN(int8_t, x);
    case ST_U16:
        WIDEN(uint16_t, x);
    case ST_I16:
        WIDEN(int16_t, x);
    case ST_U32:
        WIDEN(uint32_t, x);
    case ST_I32:
        WIDEN(int32_t, x);
    case ST_F64:
        WIDEN(double, x);
    default: /* bytes and booleans */
        WIDEN(uint8_t, x);
    }
}

/* Adds the first row of tensor->added to elements [start, start + n) of rows like it. */
static void add_row(const struct model_tensor *tensor, uint64_t start, uint64_t n, float *values)
{
    uint64_t cols = tensor->added->shape[1], length;
    float row[TENSOR_PIECE];
    for (uint64_t i = 0; i < n; i += length) {
        uint64_t col = (start + i) % cols;
        length = cols - col < n - i ? cols - col : n - i;
        tensor_widen(tensor->added, col, length, row);
        for (uint64_t k = 0; k < length; k++)
            values[i + k] += row[k];
    }
}

void smol_tensor_read(const struct model_tensor *tensor, uint64_t cols, uint64_t row, uint64_t col,
                      uint64_t n, double *out)
{
    float values[TENSOR_PIECE];
    if (tensor->raw && tensor_is_weight(tensor->raw)) {
        tensor_widen(tensor->raw, row * cols + col, n, values);
        if (tensor->added)
            add_row(tensor, row * cols + col, n, values);
        for (uint64_t i = 0; i < n; i++)
            out[i] = (double)(tensor->offset != 0 ? values[i] + tensor->offset : values[i]);
        return;
    }
    if (tensor->raw) {
        uint64_t each = tensor->raw->size / (tensor->n_elements ? tensor->n_elements : 1);
        widen(tensor->raw->dtype, tensor->data + (row * cols + col) * each, n, out);
        return;
    }
    smol_untile(tensor->tiled, tensor->levels, tensor->data, row, col, n, values);
    for (uint64_t i = 0; i < n; i++)
        out[i] = values[i];
}
