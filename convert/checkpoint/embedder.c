/* Writes the embedder section, see embedder.h. */
#include "convert/checkpoint/embedder.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "common/text.h"
#include "convert/checkpoint/tensor.h"
#include "format/embedder.h"
#include "format/layout.h"

/* --- prompts ------------------------------------------------------------------------------ */

/* Checks the texts, of which null stands for an empty one. *n_bytes is the room for the strings,
 * 0 if all texts are empty. */
static smol_status check_prompts(const struct json_settings *settings, json_t *prompts,
                                 size_t *n_bytes)
{
    const char *name;
    json_t *text;
    size_t bytes = 0;
    bool empty = true;
    json_object_foreach(prompts, name, text)
    {
        if (!json_is_string(text) && !json_is_null(text))
            return smol_setting_expect_item(settings, SMOL_ERROR_DAMAGED, "prompts", text,
                                            "an object of texts");
        const char *content = json_is_string(text) ? json_string_value(text) : "";
        if (!*name)
            return smol_setting_fail_item(settings, SMOL_ERROR_UNSUPPORTED, "prompts", text,
                                          "an empty name is not supported");
        empty = empty && !*content;
        bytes += strlen(name) + strlen(content) + 2;
    }
    *n_bytes = empty ? 0 : bytes;
    return SMOL_OK;
}

smol_status smol_embedder_prompts(const struct json_settings *settings,
                                  struct embedder_parts *parts)
{
    json_t *prompts = smol_setting(settings, "prompts");
    const char *name = NULL;
    size_t n_bytes = 0;
    if (prompts && !json_is_object(prompts))
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, "prompts", "an object of texts");
    smol_status status = check_prompts(settings, prompts, &n_bytes);
    if (!status)
        status = smol_setting_string(settings, "default_prompt_name", &name);
    if (status)
        return status;
    if (name && !json_object_get(prompts, name))
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, "default_prompt_name",
                                   "one of the prompts");
    if (json_object_size(prompts) > EMBEDDER_MAX_PROMPTS || n_bytes > EMBEDDER_MAX_STRINGS)
        return smol_fail(settings->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: prompts: %zu prompts of %zu bytes, at most %d of %d are supported",
                         settings->path, json_object_size(prompts), n_bytes, EMBEDDER_MAX_PROMPTS,
                         EMBEDDER_MAX_STRINGS);
    if (n_bytes == 0)
        return SMOL_OK;
    parts->prompts = json_incref(prompts);
    parts->default_prompt = name ? strdup(name) : NULL;
    return name && !parts->default_prompt ? smol_fail_memory(settings->error, "a prompt") : SMOL_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the names of the prompts in order. */
static size_t list_names(const struct embedder_parts *parts, const char *names[])
{
    const char *name;
    json_t *text;
    size_t n = 0;
    json_object_foreach(parts->prompts, name, text) names[n++] = name;
    if (n > 0)
        qsort(names, n, sizeof *names, compare_names);
    return n;
}

/* Appends a string with its zero to *out, unless it is NULL, and adds its size. */
static void put_string(const char *string, uint8_t **out, uint32_t *size)
{
    size_t n = strlen(string) + 1;
    if (*out) {
        memcpy(*out, string, n);
        *out += n;
    }
    *size += (uint32_t)n;
}

/* Writes all strings, or only measures them if out is NULL. Returns their size. */
static uint32_t put_strings(const struct embedder_parts *parts, uint8_t *out)
{
    const char *names[EMBEDDER_MAX_PROMPTS];
    size_t n = list_names(parts, names);
    uint32_t size = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_object_get(parts->prompts, names[i]));
        put_string(names[i], &out, &size);
        put_string(text ? text : "", &out, &size);
    }
    for (size_t i = 0; i < 3 && parts->pair == PAIR_TEXTS; i++)
        put_string(parts->texts[i], &out, &size);
    return size;
}

/* --- scores ------------------------------------------------------------------------------- */

smol_status smol_embedder_activation(const struct json_settings *settings, const char *key,
                                     enum embedder_score *score)
{
    const char *name = NULL;
    const json_t *value = smol_setting(settings, key);
    smol_status status = value ? smol_setting_string(settings, key, &name) : SMOL_OK;
    if (status || !name)
        return status;
    bool is_torch = starts_with(name, "torch."); /* others are not loaded */
    const char *class = strrchr(name, '.');
    if (is_torch && strcmp(class, ".Sigmoid") == 0)
        *score = SCORE_LOGISTIC;
    else if (is_torch && strcmp(class, ".Identity") == 0)
        *score = SCORE_PLAIN;
    else
        return smol_setting_fail(settings, SMOL_ERROR_UNSUPPORTED, key,
                                 "PyTorch's Sigmoid and Identity are supported");
    return SMOL_OK;
}

/* --- dense layers ------------------------------------------------------------------------- */

/* Copies a tensor's elements, which must be finite. */
static smol_status take_numbers(const struct safetensors_tensor *tensor, size_t n, float **numbers,
                                smol_error *error)
{
    *numbers = calloc(n, sizeof **numbers);
    if (!*numbers)
        return smol_fail_memory(error, "a dense layer");
    tensor_widen(tensor, 0, n, *numbers);
    for (size_t i = 0; i < n; i++)
        if (!f32_is_finite((*numbers)[i]))
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%s: tensor %s: element %zu is not finite: the checkpoint is broken",
                             tensor->path, tensor->name, i);
    return SMOL_OK;
}

smol_status smol_embedder_add_dense(struct embedder_parts *parts, uint32_t inputs,
                                    enum dense_activation activation,
                                    const struct safetensors_tensor *weight,
                                    const struct safetensors_tensor *bias, smol_error *error)
{
    bool fits = weight->rank == 2 && weight->shape[1] == inputs && weight->shape[0] > 0 &&
                weight->shape[0] <= EMBEDDER_MAX_OUTPUTS && smol_element_is_weight(weight->dtype) &&
                (!bias || (bias->rank == 1 && bias->shape[0] == weight->shape[0] &&
                           smol_element_is_weight(bias->dtype)));
    if (!fits || parts->n_dense == EMBEDDER_MAX_DENSE)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tensor %s: not a layer of %u inputs and at most %d outputs, or one "
                         "more than the %d layers that are supported",
                         weight->path, weight->name, inputs, EMBEDDER_MAX_OUTPUTS,
                         EMBEDDER_MAX_DENSE);
    struct dense_layer *dense = &parts->dense[parts->n_dense++];
    *dense = (struct dense_layer){inputs, (uint32_t)weight->shape[0], activation, NULL, NULL};
    smol_status status =
        take_numbers(weight, (size_t)dense->outputs * inputs, &dense->matrix, error);
    if (!status && bias)
        status = take_numbers(bias, dense->outputs, &dense->bias, error);
    return status;
}

/* Writes a matrix in tiles. Returns false if a number is too large for bf16. */
static bool put_matrix(const struct dense_layer *dense, enum blob_dtype dtype, uint8_t *out)
{
    size_t block = smol_block_bytes(dtype, dense->inputs);
    bool fits = true;
    for (size_t row = 0; row < dense->outputs; row++)
        for (size_t col = 0; col < dense->inputs; col++) {
            uint8_t *tile = out + row / TILE_ROWS * block;
            size_t at = tile_index(dtype, row % TILE_ROWS, col);
            float value = dense->matrix[row * dense->inputs + col];
            uint16_t rounded = bf16_from_f32(value);
            if (dtype == DTYPE_F32)
                memcpy(tile + at * sizeof value, &value, sizeof value);
            else
                memcpy(tile + at * sizeof rounded, &rounded, sizeof rounded);
            fits = fits && f32_is_finite(f32_from_bf16(rounded));
        }
    return fits || dtype == DTYPE_F32;
}

/* --- the section -------------------------------------------------------------------------- */

bool smol_embedder_is_needed(const struct embedder_parts *parts, const struct blob_encoder *encoder,
                             bool sees_ahead)
{
    return parts->prompts || parts->n_dense > 0 || parts->score != SCORE_NONE || !sees_ahead ||
           encoder->pooling == ENCODER_LAST;
}

static struct blob_embedder header_of(const struct embedder_parts *parts)
{
    const char *names[EMBEDDER_MAX_PROMPTS];
    struct blob_embedder header = {
        .n_prompts = (uint32_t)list_names(parts, names),
        .default_prompt = NO_TOKEN,
        .n_strings = put_strings(parts, NULL),
        .n_dense = (uint32_t)parts->n_dense,
        .score = parts->score,
        .pair = parts->pair,
        .separator = parts->separator,
        .has_types = parts->types != NULL,
    };
    for (uint32_t i = 0; i < header.n_prompts; i++)
        if (parts->default_prompt && strcmp(names[i], parts->default_prompt) == 0)
            header.default_prompt = i;
    for (size_t i = 0; i < parts->n_dense; i++) {
        const struct dense_layer *dense = &parts->dense[i];
        header.dense[i] =
            (struct blob_dense){dense->outputs, dense->activation, dense->bias != NULL, 0};
    }
    return header;
}

smol_status smol_embedder_build(const struct embedder_parts *parts, const struct blob_model *model,
                                uint8_t **data, size_t *size, smol_error *error)
{
    const struct blob_embedder header = header_of(parts);
    const struct embedder_layout layout = smol_embedder_layout(&header, model);
    uint8_t *bytes = calloc(1, layout.end);
    if (!bytes)
        return smol_fail_memory(error, "the embedder section");
    memcpy(bytes, &header, sizeof header);
    put_strings(parts, bytes + layout.strings);
    bool fits = true;
    for (size_t i = 0; i < parts->n_dense; i++) {
        const struct dense_layer *dense = &parts->dense[i];
        fits = fits && put_matrix(dense, dense_dtype(model->dtype), bytes + layout.matrix[i]);
        if (dense->bias)
            memcpy(bytes + layout.bias[i], dense->bias, dense->outputs * sizeof *dense->bias);
    }
    if (parts->types)
        memcpy(bytes + layout.types, parts->types, model->hidden_size * sizeof *parts->types);
    *data = bytes;
    *size = layout.end;
    return fits ? SMOL_OK
                : smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                            "a dense layer has numbers too large for bf16: use --dtype f32");
}

void smol_embedder_close(struct embedder_parts *parts)
{
    json_decref(parts->prompts);
    free(parts->default_prompt);
    free(parts->types);
    for (size_t i = 0; i < parts->n_dense; i++) {
        free(parts->dense[i].matrix);
        free(parts->dense[i].bias);
    }
    *parts = (struct embedder_parts){0};
}
