/* Elements as numbers, see diff_parts.h. They are widened to double piece by piece, which is exact
 * for every type that counts as a number here. */
#include <math.h>
#include <string.h>

#include "common/number.h"
#include "convert/inspect/diff_parts.h"
#include "convert/weights/untile.h"

enum { PIECE = 1024 }; /* elements */

/* --- reading ------------------------------------------------------------------------------ */

bool smol_diff_is_number(const struct diff_tensor *tensor)
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

/* out[0..n) from elements of `type`, each called x, at any alignment. */
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
    default: /* bytes and truth values */
        WIDEN(uint8_t, x);
    }
}

/* Elements [col, col + n) of a row, n <= PIECE; `cols` are in each row. */
static void read_piece(const struct diff_tensor *tensor, uint64_t cols, uint64_t row, uint64_t col,
                       uint64_t n, double *out)
{
    float values[PIECE];
    if (tensor->raw) {
        uint64_t each = tensor->raw->size / (tensor->n_elements ? tensor->n_elements : 1);
        widen(tensor->raw->dtype, tensor->data + (row * cols + col) * each, n, out);
        for (uint64_t i = 0; tensor->offset != 0 && i < n; i++)
            out[i] = (double)((float)out[i] + tensor->offset);
        return;
    }
    smol_untile(tensor->tiled, tensor->data, row, col, n, values);
    for (uint64_t i = 0; i < n; i++)
        out[i] = values[i];
}

/* --- comparing ---------------------------------------------------------------------------- */

/* Adds a piece that starts at element `start`; returns the sum of its differences. */
static double compare(const double *a, const double *b, uint64_t n, uint64_t start,
                      struct diff_values *values)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue;
        values->n_different++;
        if (!isfinite(a[i]) || !isfinite(b[i])) {
            if (values->n_not_finite++ == 0)
                values->first_not_finite = start + i;
            continue;
        }
        double difference = fabs(a[i] - b[i]);
        sum += difference;
        if (difference > values->largest) {
            values->largest = difference;
            values->largest_at = start + i;
        }
    }
    return sum;
}

struct diff_values smol_diff_values(const struct diff_tensor *a, const struct diff_tensor *b)
{
    /* tiles need rows; otherwise all elements are one row */
    const struct blob_tensor *tiled = a->tiled ? a->tiled : b->tiled;
    uint64_t rows = tiled ? tiled->rows : 1, cols = tiled ? tiled->cols : a->n_elements;
    struct diff_values values = {.n = a->n_elements};
    double left[PIECE], right[PIECE], sum = 0;
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t col = 0; col < cols; col += PIECE) {
            uint64_t n = cols - col < PIECE ? cols - col : PIECE;
            read_piece(a, cols, row, col, n, left);
            read_piece(b, cols, row, col, n, right);
            sum += compare(left, right, n, row * cols + col, &values);
        }
    }
    if (values.n > values.n_not_finite)
        values.mean = sum / (double)(values.n - values.n_not_finite);
    return values;
}
