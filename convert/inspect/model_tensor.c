/* Reads a tensor of either kind of file, see model_tensor.h. */
#include "convert/inspect/model_tensor.h"

#include <string.h>

#include "common/number.h"
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
    case ST_F8_E5M2:
    case ST_F8_E4M3:
    case ST_F16:
    case ST_BF16:
    case ST_F32:
    case ST_F64:
        return true;
    default:
        return false;
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
    case ST_F8_E5M2:
        WIDEN(uint8_t, f32_from_f8_e5m2(x));
    case ST_F8_E4M3:
        WIDEN(uint8_t, f32_from_f8_e4m3(x));
    case ST_F16:
        WIDEN(uint16_t, f32_from_f16(x));
    case ST_BF16:
        WIDEN(uint16_t, f32_from_bf16(x));
    case ST_F32:
        WIDEN(float, x);
    case ST_F64:
        WIDEN(double, x);
    default: /* bytes and booleans */
        WIDEN(uint8_t, x);
    }
}

/* Reads elements of a part that is not stored row by row. */
static void read_part(const struct safetensors_tensor *raw, uint64_t cols, uint64_t row,
                      uint64_t col, uint64_t n, double *out)
{
    float value;
    for (uint64_t i = 0; i < n; i++) {
        bool is_vector = raw->rank == 1; /* whose elements are rows here */
        safetensors_widen(raw, is_vector ? 1 : cols, is_vector ? col + i : row,
                          is_vector ? 0 : col + i, 1, &value);
        out[i] = (double)value;
    }
}

void smol_tensor_read(const struct model_tensor *tensor, uint64_t cols, uint64_t row, uint64_t col,
                      uint64_t n, double *out)
{
    float values[TENSOR_PIECE];
    if (tensor->raw) {
        const struct safetensors_tensor *raw = tensor->raw;
        uint64_t each = raw->size / (tensor->n_elements ? tensor->n_elements : 1);
        if (raw->run == 0)
            widen(raw->dtype, tensor->data + (row * cols + col) * each, n, out);
        else
            read_part(raw, cols, row, col, n, out);
        for (uint64_t i = 0; tensor->offset != 0 && i < n; i++)
            out[i] = (double)((float)out[i] + tensor->offset);
        return;
    }
    smol_untile(tensor->tiled, tensor->levels, tensor->data, row, col, n, values);
    for (uint64_t i = 0; i < n; i++)
        out[i] = values[i];
}
