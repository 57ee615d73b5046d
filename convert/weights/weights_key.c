/* The key of a model, see format/stats.h: computed from a checkpoint as smolrun calibrate computes
 * it from a blob. */
#include <stdlib.h>

#include "common/checked.h"
#include "convert/weights/weights.h"

/* Memory for the rows of one tensor. */
struct rows {
    float *values;     /* (TILE_ROWS, cols), or a vector */
    uint16_t *rounded; /* (cols) */
};

static uint64_t add_tensor(const struct weight *weight, const struct rows *rows, uint64_t key)
{
    uint64_t cols = weight->layout.cols, n = 1;
    if (weight->layout.layout == LAYOUT_VECTOR)
        smol_weight_vector(weight, (uint8_t *)rows->values);
    else
        smol_weight_merged(weight, 0, n = rows_in_block(0, weight->layout.rows), rows->values);
    for (uint64_t i = 0; i < n; i++)
        key = smol_stats_key_add(key, rows->values + i * cols, (size_t)cols, rows->rounded);
    return key;
}

smol_status smol_weights_key(const struct weights *weights, uint64_t *key, smol_error *error)
{
    const struct blob_model *model = weights->model;
    struct tensor_key name = {.role = ROLE_EMBED};
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
    name = (struct tensor_key){.role = ROLE_EMBED};
    const struct fold none = {0};
    for (size_t i = 0, more = 1; !status && more; more = smol_tensor_next(model, &name), i++) {
        const struct weight weight = smol_weight_get(weights, i, name, &none);
        if (weight.source)
            *key = add_tensor(&weight, &rows, *key);
    }
    free(rows.values);
    free(rows.rounded);
    return status;
}
