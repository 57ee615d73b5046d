/* Tensors to convert, see weights.h. */
#include "convert/weights/weights.h"

#include "common/number.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/tensor.h"

struct weight smol_weight_get(const struct weights *weights, size_t index, struct tensor_key key,
                              const struct fold *fold)
{
    const struct lora_pair *pair = weights->lora ? &weights->lora[index] : NULL;
    return (struct weight){
        .source = weights->sources[index],
        .layout = smol_tensor_layout(weights->model, key, mix_storage(weights->mix, index)),
        .offset = smol_checkpoint_offset(weights->family, key.role),
        .lora = pair && pair->a ? pair : NULL,
        .fold = smol_fold_factors(fold, key),
        .added = key.role == smol_checkpoint_typed(weights->model) ? weights->types : NULL,
    };
}

/* Adds the first row of weight->added to n rows. */
static void add_row(const struct weight *weight, uint64_t n, float *rows)
{
    uint64_t cols = weight->layout.cols;
    for (uint64_t col = 0; weight->added && col < cols; col++) {
        float added;
        tensor_widen(weight->added, col, 1, &added);
        for (uint64_t row = 0; row < n; row++)
            rows[row * cols + col] += added;
    }
}

void smol_weight_merged(const struct weight *weight, uint64_t row, uint64_t n, float *rows)
{
    uint64_t cols = weight->layout.cols;
    const struct safetensors_tensor *source = weight->source;
    if (weight->lora)
        smol_lora_merge(weight->lora, source, row, n, rows);
    else
        tensor_widen(source, row * cols, n * cols, rows);
    add_row(weight, n, rows);
}

void smol_weight_rows(const struct weight *weight, uint64_t row, uint64_t n, float *rows)
{
    const struct fold_factors *fold = &weight->fold;
    uint64_t cols = weight->layout.cols;
    smol_weight_merged(weight, row, n, rows);
    for (uint64_t r = 0; r < n; r++, rows += cols) {
        for (uint64_t i = 0; fold->cols && i < cols; i++)
            rows[i] *= fold->cols[i];
        for (uint64_t i = 0; fold->rows && i < cols; i++)
            rows[i] *= fold->rows[row + r];
    }
}

struct tile_fault smol_weight_vector(const struct weight *weight, uint8_t *out)
{
    uint64_t cols = weight->layout.cols;
    struct tile_fault fault = smol_tile_vector(weight->source, &weight->layout, out);
    float *values = (float *)(void *)out;
    for (uint64_t i = 0; weight->offset != 0 && i < cols; i++)
        values[i] += weight->offset;
    for (uint64_t i = 0; weight->fold.cols && i < cols; i++)
        values[i] *= weight->fold.cols[i];
    add_row(weight, weight->layout.rows, values);
    /* the factors and the added row may make an element infinite or NaN */
    for (uint64_t i = 0; !fault.status && i < weight->layout.rows * cols; i++)
        if (!f32_is_finite(values[i]))
            fault = (struct tile_fault){SMOL_ERROR_NUMERIC, i, values[i], "is not finite"};
    return fault;
}
