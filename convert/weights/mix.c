/* The storage of the matrices of a blob, see mix.h. */
#include "convert/weights/mix.h"

#include <stdlib.h>
#include <string.h>

static smol_status allocate(struct mix *mix, size_t n_tensors, size_t n_levels, smol_error *error)
{
    mix->storage = calloc(n_tensors, sizeof *mix->storage);
    mix->levels = calloc(n_levels, sizeof *mix->levels);
    mix->n_levels = n_levels;
    if (mix->storage && mix->levels)
        return SMOL_OK;
    smol_mix_free(mix);
    return smol_fail_memory(error, "the dtypes of matrices");
}

/* Returns the storage in `dtype`, whose table is number `levels`. */
static struct storage storage_in(enum blob_dtype dtype, uint32_t levels)
{
    return (struct storage){.dtype = dtype, .levels = dtype == DTYPE_INT8 ? 0 : levels};
}

smol_status smol_mix_make(const struct blob_model *model, enum blob_dtype dtype, struct mix *mix,
                          smol_error *error)
{
    enum blob_dtype outer = dtype == DTYPE_INT4 ? DTYPE_INT6 : DTYPE_INT8;
    uint32_t inner_levels = outer == DTYPE_INT8 ? 0 : 1; /* the embedding comes first */
    *mix = (struct mix){0};
    if (dtype <= DTYPE_INT8)
        return SMOL_OK;
    smol_status status = allocate(mix, smol_tensor_count(model), inner_levels + 1, error);
    if (status)
        return status;
    if (inner_levels > 0)
        mix->levels[0] = smol_levels_default(outer);
    mix->levels[inner_levels] = smol_levels_default(dtype);
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t i = 0;
    do {
        bool is_outer = key.role == ROLE_EMBED || key.role == ROLE_OUTPUT;
        mix->storage[i++] = is_outer ? storage_in(outer, 0) : storage_in(dtype, inner_levels);
    } while (smol_tensor_next(model, &key));
    return SMOL_OK;
}

smol_status smol_mix_copy(const struct blob *blob, struct mix *mix, smol_error *error)
{
    *mix = (struct mix){0};
    if (!blob->levels)
        return SMOL_OK;
    smol_status status = allocate(mix, blob->n_tensors, blob->n_levels, error);
    if (status)
        return status;
    memcpy(mix->levels, blob->levels, blob->n_levels * sizeof *mix->levels);
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        mix->storage[i] = (struct storage){tensor->dtype, tensor->levels};
    }
    return SMOL_OK;
}

void smol_mix_free(struct mix *mix)
{
    free(mix->storage);
    free(mix->levels);
    *mix = (struct mix){0};
}
