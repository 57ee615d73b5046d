/* Checks of the table of tensors, and of the levels that codes of fewer than 8 bits stand for, see
 * front.h. */
#include "format/front.h"

#include <string.h>

static smol_status take_levels(struct blob *blob, smol_error *error)
{
    if (!(blob->header->required_features & FEATURE_MIXED))
        return SMOL_OK;
    if (blob->model->dtype != DTYPE_INT8)
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "its dtype does not match the mixed feature");
    return smol_take_section(blob, SECTION_LEVELS, sizeof *blob->levels,
                             (const void **)&blob->levels, &blob->n_levels, error);
}

/* Returns whether exactly the first n levels are set and strictly ascending. */
static bool levels_are_valid(const struct blob_levels *levels, size_t n)
{
    bool valid = levels->values[0] != -128;
    for (size_t i = 1; i < n; i++)
        valid &= levels->values[i] > levels->values[i - 1];
    return valid && all_zero(levels->values + n, MAX_LEVELS - n);
}

/* Checks the storage of a matrix of a blob with FEATURE_MIXED. *n_used is the number of tables of
 * levels that it and the matrices before it use. Returns what is wrong, or NULL. */
static const char *check_storage(const struct blob *blob, const struct storage *storage,
                                 size_t *n_used)
{
    if (storage->dtype < DTYPE_INT8 || storage->dtype > DTYPE_INT4)
        return "has a dtype that is not allowed";
    if (storage->dtype == DTYPE_INT8)
        return storage->levels ? "has levels, but int8 uses none" : NULL;
    if (storage->levels > *n_used || storage->levels >= blob->n_levels)
        return "has levels that are missing or not next in order";
    *n_used += storage->levels == *n_used;
    return levels_are_valid(&blob->levels[storage->levels], level_count(storage->dtype))
               ? NULL
               : "has levels that are malformed";
}

/* Checks that every table is used, and the feature needed. */
static smol_status finish_mix(const struct blob *blob, size_t n_used, smol_error *error)
{
    if (!(blob->header->required_features & FEATURE_MIXED))
        return SMOL_OK;
    if (n_used != blob->n_levels)
        return smol_damaged_section(blob, error, SECTION_LEVELS, "not every table is used");
    if (n_used == 0)
        return smol_damaged_section(blob, error, SECTION_LEVELS,
                                    "no matrix needs the mixed feature");
    return SMOL_OK;
}

/* Compares each field, because the table must be exactly the one that the model and the storage of
 * its matrices require. */
smol_status smol_front_check_tensors(struct blob *blob, smol_error *error)
{
    smol_status status = take_levels(blob, error);
    if (!status)
        status = smol_take_section(blob, SECTION_TENSORS, sizeof *blob->tensors,
                                   (const void **)&blob->tensors, &blob->n_tensors, error);
    if (status)
        return status;
    const struct blob_section *weights = smol_find_section(blob, SECTION_WEIGHTS);
    uint64_t place = smol_find_section(blob, SECTION_TENSORS)->offset;
    if (blob->n_tensors != smol_tensor_count(blob->model))
        return smol_damaged_section(blob, error, SECTION_TENSORS, "wrong number of tensors");
    bool mixed = blob->header->required_features & FEATURE_MIXED;
    size_t n_used = 0; /* tables of levels */
    uint64_t end = weights->offset;
    struct tensor_key key = {.role = ROLE_EMBED};
    for (size_t i = 0; i < blob->n_tensors; i++) {
        bool alias = key.role == ROLE_OUTPUT && blob->model->tied_embeddings;
        const struct blob_tensor *entry = &blob->tensors[alias ? 0 : i];
        const struct storage storage = {entry->dtype, entry->levels};
        struct blob_tensor expected = smol_tensor_layout(blob->model, key, mixed ? &storage : NULL);
        const char *wrong = NULL;
        if (mixed && has_storage(&expected))
            wrong = check_storage(blob, &storage, &n_used);
        if (wrong)
            return smol_damaged_tensor(blob, error, SECTION_TENSORS, key, wrong,
                                       place + i * sizeof expected);
        expected.offset = alias ? blob->tensors[0].offset : end;
        if (memcmp(&expected, &blob->tensors[i], sizeof expected))
            return smol_damaged_tensor(blob, error, SECTION_TENSORS, key,
                                       "does not match the model", place + i * sizeof expected);
        if (!alias && !checked_add(end, expected.size, &end))
            return smol_damaged_section(blob, error, SECTION_TENSORS, "tensor sizes overflow");
        smol_tensor_next(blob->model, &key);
    }
    if (end != weights->offset + weights->size)
        return smol_damaged_section(blob, error, SECTION_TENSORS,
                                    "the tensors do not fill the weights section");
    return finish_mix(blob, n_used, error);
}
