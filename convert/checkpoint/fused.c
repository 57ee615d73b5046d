/* Splits fused tensors, see fused.h. Later steps see only the parts. */
#include "convert/checkpoint/fused.h"

#include <inttypes.h>
#include <stdlib.h>

#include "convert/checkpoint/checkpoint.h"
#include "format/layout.h"

/* The new table while it is built. */
struct split {
    const struct family *family;
    const struct blob_model *model;
    const struct safetensors *all;
    struct safetensors_tensor *tensors; /* the parts, then the other tensors */
    size_t n_tensors;
    bool *is_fused; /* (all->n_tensors) */
    char *names;    /* of the parts, MAX_CHECKPOINT_NAME bytes each */
    size_t n_parts;
    smol_error *error;
};

static uint64_t rows_of(const struct split *split, enum tensor_role role, uint32_t layer)
{
    return smol_tensor_layout(split->model, (struct tensor_key){role, layer}, NULL).rows;
}

/* Adds one part: `rows` rows of the fused tensor, starting at `row`. */
static void add_fused_part(struct split *split, const struct safetensors_tensor *fused,
                           struct tensor_key key, uint64_t row, uint64_t rows)
{
    uint64_t row_bytes = fused->size / fused->shape[0];
    char *name = split->names + MAX_CHECKPOINT_NAME * split->n_parts++;
    struct safetensors_tensor *part = &split->tensors[split->n_tensors++];
    *part = *fused;
    part->name = smol_checkpoint_name(split->family, key, name);
    part->whole = fused->name;
    part->whole_rows = fused->shape[0];
    part->first_row = row;
    part->shape[0] = rows;
    part->data += row * row_bytes;
    part->begin += row * row_bytes;
    part->size = rows * row_bytes;
    part->end = part->begin + part->size;
}

static smol_status check_shape(const struct split *split, const struct safetensors_tensor *fused,
                               uint64_t rows)
{
    if (fused->rank == 2 && fused->shape[0] == rows && fused->shape[1] == split->model->hidden_size)
        return SMOL_OK;
    return smol_fail(split->error, SMOL_ERROR_DAMAGED,
                     "%s: tensor %s has a shape other than the [%" PRIu64 ", %u] that config.json "
                     "calls for",
                     fused->path, fused->name, rows, split->model->hidden_size);
}

static smol_status split_one(struct split *split, const struct family_fused *parts, uint32_t layer)
{
    char name[MAX_CHECKPOINT_NAME];
    uint64_t rows = 0, row = 0;
    smol_checkpoint_format(parts->name, layer, name);
    const struct safetensors_tensor *fused = smol_safetensors_find(split->all, name);
    if (!fused)
        return smol_fail(split->error, SMOL_ERROR_DAMAGED,
                         "%s: tensor %s is missing: config.json calls for it", split->all->path,
                         name);
    for (size_t i = 0; i < parts->n; i++)
        rows += rows_of(split, parts->roles[i], layer);
    smol_status status = check_shape(split, fused, rows);
    split->is_fused[fused - split->all->tensors] = true;
    for (size_t i = 0; i < parts->n && !status; i++) {
        uint64_t n = rows_of(split, parts->roles[i], layer);
        add_fused_part(split, fused, (struct tensor_key){parts->roles[i], layer}, row, n);
        row += n;
    }
    return status;
}

/* Adds the tensors that are not fused after the parts. */
static void keep_others(struct split *split)
{
    for (size_t i = 0; i < split->all->n_tensors; i++)
        if (!split->is_fused[i])
            split->tensors[split->n_tensors++] = split->all->tensors[i];
}

static smol_status split_all(struct split *split)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < FAMILY_MAX_FUSED && split->family->fused[i].name; i++)
        for (uint32_t layer = 0; layer < split->model->n_layers && !status; layer++)
            status = split_one(split, &split->family->fused[i], layer);
    if (!status)
        keep_others(split);
    return status;
}

static smol_status allocate_table(struct split *split)
{
    size_t n_parts = 0;
    for (size_t i = 0; i < FAMILY_MAX_FUSED; i++)
        n_parts += split->family->fused[i].n * split->model->n_layers;
    split->tensors = calloc(split->all->n_tensors + n_parts, sizeof *split->tensors);
    split->is_fused = calloc(split->all->n_tensors + 1, sizeof *split->is_fused);
    split->names = calloc(n_parts, MAX_CHECKPOINT_NAME);
    return split->tensors && split->is_fused && split->names
               ? SMOL_OK
               : smol_fail_memory(split->error, "the table of tensors");
}

/* Replaces the old table by the new one, and frees the old one. Files stay open. */
static smol_status replace_table(struct split *split, struct safetensors *all)
{
    const struct safetensors table = {.tensors = split->tensors, .n_tensors = split->n_tensors};
    struct safetensors joined;
    smol_status status = smol_safetensors_join(&table, 1, all->path, &joined, split->error);
    if (status)
        return status;
    smol_safetensors_close(all);
    *all = joined;
    all->names = split->names;
    split->names = NULL;
    return SMOL_OK;
}

smol_status smol_fused_split(const struct family *family, const struct blob_model *model,
                             struct safetensors *all, smol_error *error)
{
    struct split split = {.family = family, .model = model, .all = all, .error = error};
    if (!family->fused[0].name)
        return SMOL_OK;
    smol_status status = allocate_table(&split);
    if (!status)
        status = split_all(&split);
    if (!status)
        status = replace_table(&split, all);
    free(split.tensors);
    free(split.is_fused);
    free(split.names);
    return status;
}
