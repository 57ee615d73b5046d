/* The key of a model, see format/stats.h: computed from a checkpoint as smolrun calibrate computes
 * it from a blob. */
#include <stdlib.h>

#include "common/checked.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/weights/tile.h"
#include "convert/weights/weights.h"

/* Memory for the rows of one tensor. */
struct rows {
    float *values;     /* (TILE_ROWS, cols), or a vector */
    uint16_t *rounded; /* (cols) */
};

static uint64_t add_vector(const struct safetensors_tensor *source,
                           const struct blob_tensor *layout, float offset, const struct rows *rows,
                           uint64_t key)
{
    smol_tile_vector(source, layout, (uint8_t *)rows->values);
    for (uint64_t i = 0; offset != 0 && i < layout->cols; i++)
        rows->values[i] += offset;
    return smol_stats_key_add(key, rows->values, (size_t)layout->cols, rows->rounded);
}

static uint64_t add_matrix(const struct safetensors_tensor *source,
                           const struct blob_tensor *layout, const struct lora_pair *lora,
                           const struct rows *rows, uint64_t key)
{
    uint64_t n = rows_in_block(0, layout->rows), cols = layout->cols;
    if (lora && lora->a)
        smol_lora_merge(lora, source, 0, n, rows->values);
    else
        element_widen(source->dtype, source->data, 0, n * cols, rows->values);
    for (uint64_t i = 0; i < n; i++)
        key = smol_stats_key_add(key, rows->values + i * cols, (size_t)cols, rows->rounded);
    return key;
}

static uint64_t add_tensor(const struct weights *weights, size_t i, struct tensor_key name,
                           const struct rows *rows, uint64_t key)
{
    const struct safetensors_tensor *source = weights->sources[i];
    const struct blob_tensor layout = smol_tensor_layout(weights->model, name, NULL);
    float offset = smol_checkpoint_offset(weights->family, name.role);
    if (layout.layout == LAYOUT_VECTOR)
        return add_vector(source, &layout, offset, rows, key);
    return add_matrix(source, &layout, weights->lora ? &weights->lora[i] : NULL, rows, key);
}

smol_status smol_weights_key(const struct weights *weights, uint64_t *key, smol_error *error)
{
    const struct blob_model *model = weights->model;
    struct tensor_key name = {ROLE_EMBED, 0};
    uint64_t most = BLOB_ALIGN;
    do {
        const struct blob_tensor layout = smol_tensor_layout(model, name, NULL);
        most = layout.cols > most ? layout.cols : most;
    } while (smol_tensor_next(model, &name));
    most = round_up(most, BLOB_ALIGN);
    struct rows rows = {calloc(most, TILE_ROWS * sizeof(float)), calloc(most, sizeof(uint16_t))};
    smol_status status = SMOL_OK;
    if (!rows.values || !rows.rounded)
        status = smol_fail_memory(error, "rows of weights");
    *key = smol_stats_key_start(model);
    name = (struct tensor_key){ROLE_EMBED, 0};
    for (size_t i = 0, more = 1; !status && more; more = smol_tensor_next(model, &name), i++)
        if (weights->sources[i])
            *key = add_tensor(weights, i, name, &rows, *key);
    free(rows.values);
    free(rows.rounded);
    return status;
}
