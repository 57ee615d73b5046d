/* Attaches scales of quantized weights, see scales.h. */
#include "convert/checkpoint/scales.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

enum { SCALED_NAME_SIZE = 256 }; /* no tensor of a family has a longer name */

/* Finds the weight that the scales `name` are for. *index is that of the weight, or of no tensor.
 * Returns false if these are no scales of weights. */
static bool find_weight(const struct safetensors *all, const char *name, size_t *index)
{
    static const char *const ends[] = {".weight_scale", ".weight_scale_inv"};
    char weight[SCALED_NAME_SIZE];
    for (size_t i = 0; i < 2; i++) {
        if (!ends_with(name, ends[i]))
            continue;
        size_t length = strlen(name) - strlen(ends[i]) + strlen(".weight");
        const struct safetensors_tensor *found = NULL;
        if (length < sizeof weight) {
            memcpy(weight, name, length);
            weight[length] = '\0';
            found = smol_safetensors_find(all, weight);
        }
        *index = found ? (size_t)(found - all->tensors) : all->n_tensors;
        return true;
    }
    return false;
}

/* Returns whether these are scales, or zero points, of what a layer takes or makes, which smol does
 * not quantize with them. */
static bool is_of_activations(const char *name)
{
    static const char *const ends[] = {
        ".input_scale", ".activation_scale", ".output_scale",     ".q_scale",           ".k_scale",
        ".v_scale",     ".input_scale_ub",   ".input_zero_point", ".output_zero_point",
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Sets the rows and columns that share a scale. Returns false if the shapes do not fit. */
static bool fit_blocks(const struct scale_rules *rules, const struct safetensors_tensor *weight,
                       const struct safetensors_tensor *scale, struct tensor_scales *scales)
{
    uint64_t rows = weight->shape[0], cols = weight->shape[1], grid[2] = {1, 1};
    if (scale->rank > 2)
        return false;
    for (unsigned i = 0; i < scale->rank; i++)
        grid[i] = scale->shape[i];
    *scales = (struct tensor_scales){.data = scale->data,
                                     .dtype = scale->dtype,
                                     .matrix = weight->data,
                                     .rows = rows,
                                     .cols = cols,
                                     .width = cols,
                                     .per_row = grid[1]};
    if (grid[0] == 1 && grid[1] == 1)
        return true;
    if (grid[0] == rows && grid[1] == 1) {
        scales->rows = 1;
        return true;
    }
    if (rules->block[0]) {
        scales->rows = rules->block[0];
        scales->cols = rules->block[1];
        return grid[0] == (rows - 1) / scales->rows + 1 && grid[1] == (cols - 1) / scales->cols + 1;
    }
    if (grid[0] == 0 || grid[1] == 0 || rows % grid[0] != 0 || cols % grid[1] != 0)
        return false;
    scales->rows = rows / grid[0];
    scales->cols = cols / grid[1];
    return true;
}

static bool is_float8(const struct safetensors_tensor *weight)
{
    return weight->dtype == ST_F8_E4M3 || weight->dtype == ST_F8_E5M2;
}

/* Gives a weight its scales, which are written to *scales. */
static smol_status attach(const struct scale_rules *rules, const struct safetensors_tensor *scale,
                          struct safetensors_tensor *weight, struct tensor_scales *scales,
                          smol_error *error)
{
    bool is_scale = scale->dtype == ST_F32 || scale->dtype == ST_BF16 || scale->dtype == ST_F16;
    bool is_integer = weight->dtype == ST_I8 && rules->has_integers;
    if (weight->scales)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: tensor %.200s: a second one with scales",
                         scale->path, scale->name);
    if (!is_scale || (!is_float8(weight) && !is_integer))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tensor %.200s: scales of type %s of weights of type %s are not "
                         "supported: convert the original checkpoint",
                         scale->path, scale->name, smol_element_name(scale->dtype),
                         smol_element_name(weight->dtype));
    if (weight->rank != 2 || weight->size == 0 || scale->size == 0 ||
        !fit_blocks(rules, weight, scale, scales))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: tensor %.200s: its shape does not fit the weights and the blocks of "
                         "quantization_config",
                         scale->path, scale->name);
    weight->scales = scales;
    return SMOL_OK;
}

static smol_status attach_all(const struct scale_rules *rules, struct safetensors *all,
                              smol_error *error)
{
    smol_status status = SMOL_OK;
    size_t index = 0, n = 0;
    all->scales = calloc(all->n_tensors + 1, sizeof *all->scales);
    if (!all->scales)
        return smol_fail_memory(error, "the table of scales");
    for (size_t i = 0; i < all->n_tensors && !status; i++)
        if (find_weight(all, all->tensors[i].name, &index) && index < all->n_tensors)
            status =
                attach(rules, &all->tensors[i], &all->tensors[index], &all->scales[n++], error);
    for (size_t i = 0; i < all->n_tensors && !status; i++) {
        const struct safetensors_tensor *tensor = &all->tensors[i];
        if (is_float8(tensor) && !tensor->scales) /* one of integers is refused later */
            status = smol_fail(error, SMOL_ERROR_DAMAGED,
                               "%s: tensor %.200s of type %s has no scales: download the "
                               "checkpoint again",
                               tensor->path, tensor->name, smol_element_name(tensor->dtype));
    }
    return status;
}

smol_status smol_scales_attach(const struct scale_rules *rules, struct safetensors *all,
                               smol_error *error)
{
    size_t n = 0, index = 0;
    if (!rules->scaled)
        return SMOL_OK;
    smol_status status = attach_all(rules, all, error);
    if (status)
        return status;
    bool *is_kept = calloc(all->n_tensors + 1, sizeof *is_kept);
    if (!is_kept)
        return smol_fail_memory(error, "the table of tensors");
    for (size_t i = 0; i < all->n_tensors; i++) /* a scale without a weight is refused later */
        is_kept[i] = !is_of_activations(all->tensors[i].name) &&
                     !(find_weight(all, all->tensors[i].name, &index) && index < all->n_tensors);
    for (size_t i = 0; i < all->n_tensors; i++)
        if (is_kept[i])
            all->tensors[n++] = all->tensors[i];
    free(is_kept);
    all->n_tensors = n;
    return smol_safetensors_index(all, error);
}

void smol_scales_describe(const struct safetensors *all, char text[QUANTIZED_TEXT])
{
    size_t counts[N_ELEMENT_DTYPES] = {0}, n = 0, length;
    for (size_t i = 0; i < all->n_tensors; i++) {
        const struct safetensors_tensor *tensor = &all->tensors[i];
        bool is_quantized = smol_element_block(tensor->dtype).elements > 1 || tensor->scales;
        counts[tensor->dtype] += is_quantized;
        n += is_quantized;
    }
    if (n == 0)
        return;
    length = (size_t)snprintf(text, QUANTIZED_TEXT, "%zu of %zu tensors", n, all->n_tensors);
    const char *before = ": ";
    for (unsigned i = 0; i < N_ELEMENT_DTYPES; i++) {
        if (counts[i] == 0)
            continue;
        length += (size_t)snprintf(text + length, QUANTIZED_TEXT - length, "%s%zu %s", before,
                                   counts[i], smol_element_name((enum safetensors_dtype)i));
        before = ", ";
    }
}
