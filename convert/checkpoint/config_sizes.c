/* The model's sizes, see config_model.h: read by the family's keys, or derived from others. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"

/* ---- sizes ---- */

static const struct size {
    const char *key;
    size_t offset;   /* of the u32 in struct blob_model */
    size_t fallback; /* of the u32 in struct family_sizes; a 0 there: derived from other sizes */
    uint32_t max;
} sizes[] = {
#define SIZE(key, name, max)                                                                       \
    {                                                                                              \
        key, offsetof(struct blob_model, name), offsetof(struct family_sizes, name), max           \
    }
    SIZE("hidden_size", hidden_size, MODEL_MAX_HIDDEN),
    SIZE("intermediate_size", intermediate_size, MODEL_MAX_INTERMEDIATE),
    SIZE("num_hidden_layers", n_layers, MODEL_MAX_LAYERS),
    SIZE("num_attention_heads", n_heads, MODEL_MAX_HEADS),
    SIZE("num_key_value_heads", n_kv_heads, MODEL_MAX_HEADS),
    SIZE("head_dim", head_dim, MAX_HEAD_DIM),
    SIZE("vocab_size", vocab_size, MODEL_MAX_VOCAB),
    SIZE("max_position_embeddings", context_length, MODEL_MAX_CONTEXT),
#undef SIZE
};

/* Handles null, which is not the same as an absent key: the size is then derived from others. */
static smol_status read_null(const struct json_settings *config, const char *key, bool is_refused,
                             uint32_t *size)
{
    if (!smol_setting_is_null(config, key))
        return SMOL_OK;
    if (is_refused)
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, key, "this family needs a number");
    *size = 0;
    return SMOL_OK;
}

_Static_assert(sizeof sizes / sizeof sizes[0] == N_FAMILY_SIZES, "all of them");

/* Reads a size whose key is `own` in the family, if not NULL. */
static smol_status read_size(const struct json_settings *config, const struct family *family,
                             const struct size *size, const char *own, uint32_t *value)
{
    const char *key = own ? own : size->key;
    bool unused = family->unused_size && strcmp(family->unused_size, size->key) == 0;
    uint32_t ignored;
    smol_status status = SMOL_OK;
    if (unused)
        status = smol_setting_integer(config, size->key, 0, UINT32_MAX, &ignored);
    else if (own)
        status = smol_setting_forbid(config, size->key, "this family has no such key: remove it");
    if (status || *key == '\0')
        return status;
    return smol_setting_integer(config, key, 1, size->max, value);
}

static smol_status read_all(const struct json_settings *config, const struct family *family,
                            struct blob_model *model)
{
    for (size_t i = 0; i < N_FAMILY_SIZES; i++) {
        uint32_t value;
        memcpy(&value, (const char *)&family->sizes + sizes[i].fallback, sizeof value);
        smol_status status = read_size(config, family, &sizes[i], family->size_keys[i], &value);
        if (status)
            return status;
        memcpy((char *)model + sizes[i].offset, &value, sizeof value);
    }
    smol_status status =
        read_null(config, "num_key_value_heads", family->needs_kv_heads, &model->n_kv_heads);
    bool has_own = family->size_keys[FAMILY_HEAD_DIM]; /* another key for head_dim */
    bool needs_head_dim = family->needs_head_dim || (family->sizes.head_dim > 0 && !has_own);
    if (has_own)
        return status;
    if (!status)
        status = read_null(config, "head_dim", needs_head_dim, &model->head_dim);
    if (!status && needs_head_dim && model->head_dim == 0)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: head_dim is missing: this family needs a number", config->path);
    return status;
}

smol_status smol_config_fail_multiple(const struct json_settings *config, const char *key,
                                      uint32_t value, const char *divisor_key, uint32_t divisor)
{
    return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                     "%s: %s %u is not a multiple of %s %u: correct one of them", config->path, key,
                     value, divisor_key, divisor);
}

/* Reads the width of an MLP that is adjusted, as Lfm2MLP does: with doubles. */
static smol_status adjust_mlp(const struct json_settings *config, struct blob_model *model)
{
    uint32_t adjusts = 1, multiple = 256, *size = &model->intermediate_size;
    double factor = 1;
    smol_status status =
        smol_setting_integer(config, "block_ff_dim", 1, MODEL_MAX_INTERMEDIATE, size);
    if (!status)
        status = smol_setting_flag(config, "block_auto_adjust_ff_dim", &adjusts);
    if (!status)
        status =
            smol_setting_integer(config, "block_multiple_of", 1, MODEL_MAX_INTERMEDIATE, &multiple);
    if (!status)
        status = smol_setting_real(config, "block_ffn_dim_multiplier", FLT_MIN,
                                   MODEL_MAX_INTERMEDIATE, &factor);
    if (status || !adjusts)
        return status;
    uint64_t two_thirds = 2 * (uint64_t)*size / 3;
    double scaled = floor(factor * (double)two_thirds);
    double rounded = ceil(scaled / multiple) * multiple;
    if (rounded < 1 || rounded > MODEL_MAX_INTERMEDIATE)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: intermediate_size %u, adjusted by block_ffn_dim_multiplier and "
                         "block_multiple_of, is %.0f: must be from 1 to %d",
                         config->path, *size, rounded, MODEL_MAX_INTERMEDIATE);
    *size = (uint32_t)rounded;
    return SMOL_OK;
}

static smol_status derive_sizes(const struct json_settings *config, struct blob_model *model)
{
    if (model->intermediate_size == 0)
        model->intermediate_size = 4 * model->hidden_size;
    if (model->n_kv_heads == 0)
        model->n_kv_heads = model->n_heads;
    if (model->n_heads % model->n_kv_heads != 0)
        return smol_config_fail_multiple(config, "num_attention_heads", model->n_heads,
                                         "num_key_value_heads", model->n_kv_heads);
    if (model->head_dim == 0) {
        if (model->hidden_size % model->n_heads != 0)
            return smol_config_fail_multiple(config, "hidden_size", model->hidden_size,
                                             "num_attention_heads", model->n_heads);
        model->head_dim = model->hidden_size / model->n_heads;
    }
    if (model->head_dim % 2 != 0)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: head_dim %u is odd (hidden_size %u, num_attention_heads %u): must be "
                         "even",
                         config->path, model->head_dim, model->hidden_size, model->n_heads);
    if (model->head_dim > MAX_HEAD_DIM)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: head_dim %u (hidden_size %u, num_attention_heads %u): "
                         "at most %d is supported",
                         config->path, model->head_dim, model->hidden_size, model->n_heads,
                         MAX_HEAD_DIM);
    return SMOL_OK;
}

/* Reads how many rows of positions are before that of the first token. */
static smol_status skip_positions(const struct json_settings *config, struct config *result)
{
    const struct family_count *pad = &result->family->pad_id;
    struct blob_model *model = &result->model;
    uint32_t id = pad->fallback;
    if (!pad->key)
        return SMOL_OK;
    smol_status status =
        *pad->key ? smol_setting_integer(config, pad->key, 0, model->vocab_size - 1, &id) : SMOL_OK;
    if (status)
        return status;
    if (id + 1 >= model->context_length)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: max_position_embeddings %u: positions begin after row %u, that of "
                         "padding, so there are none: correct the configuration",
                         config->path, model->context_length, id);
    result->skipped_positions = id + 1;
    model->context_length -= id + 1;
    return SMOL_OK;
}

smol_status smol_config_read_sizes(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    smol_status status = read_all(config, result->family, model);
    if (!status)
        status = smol_config_read_single(config, result);
    if (!status && result->family->adjusts_mlp)
        status = adjust_mlp(config, model);
    if (!status)
        status = derive_sizes(config, model);
    return status ? status : skip_positions(config, result);
}
