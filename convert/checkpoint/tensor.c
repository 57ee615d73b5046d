/* Elements of tensors with blocks or scales, whose rows are stored in another order, or that hold a
 * function of the weights, see tensor.h. */
#include "convert/checkpoint/tensor.h"

#include <math.h>
#include <string.h>

#include "convert/base/element.h"

/* Multiplies elements [start, start + n) of the matrix by their scales. */
static void apply_scales(const struct tensor_scales *scales, uint64_t start, uint64_t n, float *out)
{
    for (uint64_t at = start; n > 0;) {
        uint64_t row = at / scales->width, col = at % scales->width;
        uint64_t block = col / scales->cols, end = (block + 1) * scales->cols;
        uint64_t left = (end < scales->width ? end : scales->width) - col;
        uint64_t taken = left < n ? left : n;
        float scale;
        element_widen(scales->dtype, scales->data, row / scales->rows * scales->per_row + block, 1,
                      &scale);
        for (uint64_t i = 0; i < taken; i++)
            out[i] *= scale;
        at += taken;
        out += taken;
        n -= taken;
    }
}

/* Converts elements [start, start + n) as they lie in the file. */
static void widen_stored(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n,
                         float *out)
{
    const struct element_block size = smol_element_block(tensor->dtype);
    float values[BLOCK_MAX_ELEMENTS];
    if (size.elements == 1) {
        element_widen(tensor->dtype, tensor->data, start, n, out);
        if (tensor->scales)
            apply_scales(tensor->scales, (uint64_t)(tensor->data - tensor->scales->matrix) + start,
                         n, out);
        return;
    }
    while (n > 0) {
        uint64_t skip = start % size.elements;
        uint64_t taken = size.elements - skip < n ? size.elements - skip : n;
        const uint8_t *block = tensor->data + start / size.elements * size.bytes;
        smol_block_widen(tensor->dtype, block, taken < size.elements ? values : out);
        if (taken < size.elements)
            memcpy(out, values + skip, taken * sizeof *out);
        start += taken;
        out += taken;
        n -= taken;
    }
}

/* Returns the row (or column) of the file that holds row (or column) `i` of the matrix. */
static uint64_t untile(const struct head_order *heads, uint64_t i)
{
    if (i < heads->from)
        return i;
    uint64_t head = (i - heads->from) / heads->size, in_head = (i - heads->from) % heads->size;
    uint64_t stored = head % heads->per_group * heads->groups + head / heads->per_group;
    return heads->from + stored * heads->size + in_head;
}

/* Returns how many of the n columns from `col` on the file has side by side. */
static uint64_t side_by_side(const struct head_order *heads, uint64_t col, uint64_t n)
{
    uint64_t left =
        col < heads->from ? heads->from - col : heads->size - (col - heads->from) % heads->size;
    return left < n ? left : n;
}

/* Returns the row of the file that holds row `row` of the matrix. */
static uint64_t stored_row(const struct safetensors_tensor *tensor, uint64_t row)
{
    const struct head_order *heads = &tensor->heads;
    if (heads->size == 0 || tensor->by_columns)
        return row;
    if (heads->groups > 0)
        return untile(heads, row);
    uint64_t in_head = row % heads->size, half = heads->size / 2;
    uint64_t pair = in_head % half, second = in_head / half;
    return row - in_head + 2 * pair + second;
}

/* Converts columns [col, col + n) of a row of a matrix with `cols` columns, counted as the file has
 * them; or element `row` of a vector, whose `cols` is 1. */
static void widen_row(const struct safetensors_tensor *tensor, uint64_t cols, uint64_t row,
                      uint64_t col, uint64_t n, float *out)
{
    uint64_t start = stored_row(tensor, row) * cols + col;
    if (tensor->run > 0)
        start = tensor_output(tensor, row) * tensor->row_step + col * tensor->col_step;
    if (tensor->run == 0 || tensor->col_step == 1)
        widen_stored(tensor, start, n, out);
    else
        for (uint64_t i = 0; i < n; i++)
            widen_stored(tensor, start + i * tensor->col_step, 1, out + i);
}

/* Undoes -exp(x) for n values: rounds once, from f64. A value that is not negative becomes one that
 * is not finite, which the conversion refuses. */
static void take_log(float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        values[i] = (float)log(-(double)values[i]);
}

/* Returns the number of columns of the matrix; 1 for a vector. */
static uint64_t count_columns(const struct safetensors_tensor *tensor)
{
    return tensor->rank == 2 ? tensor->shape[1] : 1;
}

/* Changes the signs of elements [start, start + n). */
static void turn(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n, float *values)
{
    uint64_t cols = count_columns(tensor);
    for (uint64_t i = 0; i < n; i++)
        values[i] = tensor_negates(tensor, (start + i) / cols) ? -values[i] : values[i];
}

/* Returns what the elements of a row are multiplied by. */
static float row_factor(const struct safetensors_tensor *tensor, uint64_t row)
{
    enum { STRIP = 256 };
    float x[STRIP];
    double sum = 0;
    uint64_t cols = count_columns(tensor);
    for (uint64_t col = 0, n; col < cols; col += n) {
        n = cols - col < STRIP ? cols - col : STRIP;
        widen_stored(tensor, row * cols + col, n, x);
        for (uint64_t i = 0; i < n; i++)
            sum += (double)x[i] * (double)x[i];
    }
    return (float)(1 / sqrt(sum / (double)cols + (double)tensor->epsilon));
}

/* Normalizes elements [start, start + n), which are in the order of the file. */
static void normalize(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n,
                      float *values)
{
    uint64_t cols = count_columns(tensor);
    for (uint64_t end = start + n, next; start < end; start = next) {
        float factor = row_factor(tensor, start / cols);
        next = (start / cols + 1) * cols < end ? (start / cols + 1) * cols : end;
        for (uint64_t i = start; i < next; i++)
            *values++ *= factor;
    }
}

/* Converts elements [start, start + n) of a tensor that is not stored row by row in its order. */
static void widen_rows(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n,
                       float *out)
{
    uint64_t cols = count_columns(tensor);
    const struct head_order *heads = &tensor->heads;
    bool tiled = heads->size > 0 && heads->groups > 0 && tensor->by_columns;
    while (n > 0) {
        uint64_t row = start / cols, col = start % cols;
        uint64_t taken = cols - col < n ? cols - col : n;
        taken = tiled ? side_by_side(heads, col, taken) : taken;
        col = tiled ? untile(heads, col) : col;
        widen_row(tensor, cols, row, col, taken, out);
        start += taken;
        out += taken;
        n -= taken;
    }
}

void smol_tensor_decode(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n,
                        float *out)
{
    if (tensor->heads.size == 0 && tensor->run == 0)
        widen_stored(tensor, start, n, out);
    else
        widen_rows(tensor, start, n, out);
    if (tensor->function == FUNCTION_LOG)
        take_log(out, n);
    else if (tensor->function == FUNCTION_TURNED)
        turn(tensor, start, n, out);
    else if (tensor->function == FUNCTION_NORMALIZED)
        normalize(tensor, start, n, out);
}
