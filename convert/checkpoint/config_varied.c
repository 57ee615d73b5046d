/* Layers that differ in shape, see config_model.h: keys of Gemma 4. Layers without a window are of
 * the second kind. */
#include <math.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "convert/checkpoint/rope.h"

static bool is_second(const struct config *result, uint32_t layer)
{
    return !(result->layers[layer] & LAYER_WINDOWED);
}

/* ---- heads ---- */

/* Reads a size of heads from an entry of per_layer_config. All layers of the second kind must have
 * the same. */
static smol_status read_override(const struct json_settings *entry, const char *key, uint32_t most,
                                 uint32_t fallback, uint32_t *value)
{
    uint32_t found = fallback;
    smol_status status = smol_setting_integer(entry, key, 1, most, &found);
    if (!status && *value && found != *value)
        return smol_setting_fail(entry, SMOL_ERROR_UNSUPPORTED, key,
                                 "layers of full_attention must be alike");
    *value = found;
    return status;
}

/* Checks that an entry of per_layer_config has only sizes of heads, and none if its layer is
 * windowed. */
static smol_status check_entry(const struct json_settings *entry, bool second)
{
    const char *key;
    json_t *value;
    json_object_foreach(entry->object, key, value)
    {
        if (!second || (strcmp(key, "head_dim") != 0 && strcmp(key, "num_key_value_heads") != 0))
            return smol_setting_fail(entry, SMOL_ERROR_UNSUPPORTED, key,
                                     "only head_dim and num_key_value_heads of layers of "
                                     "full_attention may differ");
    }
    return SMOL_OK;
}

/* Reads per_layer_config, which transformers writes in place of other keys. */
static smol_status read_overrides(const struct json_settings *config, json_t *object,
                                  struct config *result)
{
    const struct blob_model *model = &result->model;
    struct blob_varied *varied = &result->model.varied;
    char number[16], within[48];
    size_t n = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        snprintf(number, sizeof number, "%u", i);
        snprintf(within, sizeof within, "per_layer_config.%u.", i);
        struct json_settings entry = *config;
        entry.object = json_object_get(object, number);
        entry.within = within;
        n += entry.object != NULL;
        if (entry.object && !json_is_object(entry.object))
            return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "per_layer_config",
                                       "objects by layer");
        smol_status status = check_entry(&entry, is_second(result, i));
        if (!status && is_second(result, i))
            status =
                read_override(&entry, "head_dim", MAX_HEAD_DIM, model->head_dim, &varied->head_dim);
        if (!status && is_second(result, i))
            status = read_override(&entry, "num_key_value_heads", MODEL_MAX_HEADS,
                                   model->n_kv_heads, &varied->n_kv_heads);
        if (status)
            return status;
    }
    return n == json_object_size(object)
               ? SMOL_OK
               : smol_setting_expect(config, SMOL_ERROR_DAMAGED, "per_layer_config",
                                     "an object with an entry for each layer");
}

static smol_status read_heads(const struct json_settings *config, struct config *result)
{
    static const char key[] = "per_layer_config";
    const struct blob_model *model = &result->model;
    struct blob_varied *varied = &result->model.varied;
    json_t *object = smol_setting(config, key);
    uint32_t global = 512, n_global = model->n_kv_heads;
    smol_status status = smol_setting_flag(config, "attention_k_eq_v", &varied->keys_are_values);
    if (!status && smol_setting_is_null(config, key))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, "an object");
    if (!status && object)
        return json_is_object(object)
                   ? read_overrides(config, object, result)
                   : smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, "an object");
    if (!status)
        status = smol_setting_integer(config, "global_head_dim", 1, MAX_HEAD_DIM, &global);
    if (!status && varied->keys_are_values && smol_setting(config, "num_global_key_value_heads"))
        status = smol_setting_integer(config, "num_global_key_value_heads", 1, MODEL_MAX_HEADS,
                                      &n_global);
    varied->head_dim = global;
    varied->n_kv_heads = n_global;
    return status;
}

static smol_status check_heads(const struct json_settings *config, const struct blob_model *model)
{
    const struct blob_varied *varied = &model->varied;
    if (varied->head_dim % 2)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: global_head_dim %u is odd: must be even", config->path,
                         varied->head_dim);
    if (model->n_heads % varied->n_kv_heads)
        return smol_config_fail_multiple(config, "num_attention_heads", model->n_heads,
                                         "num_global_key_value_heads", varied->n_kv_heads);
    return SMOL_OK;
}

/* ---- sharing ---- */

/* Reads how many of the last layers attend to the keys and values of earlier ones, which must have
 * layers of their kind. */
static smol_status read_sharing(const struct json_settings *config, struct config *result)
{
    static const char key[] = "num_kv_shared_layers";
    const struct blob_model *model = &result->model;
    struct blob_varied *varied = &result->model.varied;
    uint32_t n = 0, wide = 0;
    bool has[2] = {false, false};
    smol_status status = smol_setting_integer(config, key, 0, MODEL_MAX_LAYERS, &n);
    if (!status)
        status = smol_setting_flag(config, "use_double_wide_mlp", &wide);
    if (status)
        return status;
    if (n >= model->n_layers)
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, "below num_hidden_layers");
    if (n > 0 && model->experts.n_experts > 0) /* transformers fails */
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key, "with experts it must be 0");
    varied->first_shared = model->n_layers - n;
    varied->shared_width = model->intermediate_size * (n > 0 && wide ? 2 : 1);
    if (varied->shared_width > MODEL_MAX_INTERMEDIATE)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, "intermediate_size",
                                 "too large with use_double_wide_mlp");
    for (uint32_t i = 0; i < model->n_layers; i++) {
        bool second = is_second(result, i);
        if (i < varied->first_shared)
            has[second] = true;
        else if (!has[second])
            return smol_setting_fail(config, SMOL_ERROR_DAMAGED, key,
                                     "the layers before these lack one of their kind");
    }
    return SMOL_OK;
}

/* ---- inputs of layers ---- */

static smol_status read_inputs(const struct json_settings *config, struct config *result)
{
    static const char key[] = "vocab_size_per_layer_input";
    struct blob_model *model = &result->model;
    struct blob_varied *varied = &model->varied;
    uint32_t vocab_size = 262144;
    if (!result->family->names[ROLE_INPUT_EMBED])
        return SMOL_OK;
    varied->input_width = 256;
    smol_status status = smol_setting_integer(config, "hidden_size_per_layer_input", 0,
                                              VARIED_MAX_INPUT, &varied->input_width);
    if (!status && varied->input_width > 0 && model->experts.n_experts > 0)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, "hidden_size_per_layer_input",
                                 "with experts it must be 0");
    if (!status)
        status = smol_setting_integer(config, key, 1, MODEL_MAX_VOCAB, &vocab_size);
    if (status || varied->input_width == 0)
        return status;
    if (vocab_size != model->vocab_size)
        return smol_setting_expect(config, SMOL_ERROR_UNSUPPORTED, key, "vocab_size");
    varied->input_scale = (float)sqrt(varied->input_width);
    varied->projection_scale = (float)pow(model->hidden_size, -0.5);
    varied->sum_scale = (float)sqrt(0.5);
    return SMOL_OK;
}

/* ---- rotary embeddings ---- */

/* Reads the object of one kind of layers, in whose heads `dim` elements rotate. */
static smol_status read_rope(const struct json_settings *parameters, const char *kind,
                             const char *within, uint32_t dim, struct rope *rope)
{
    struct json_settings object = *parameters;
    const char *type = NULL;
    double part = 1;
    object.object = smol_setting(parameters, kind);
    object.within = within;
    if (!json_is_object(object.object))
        return smol_setting_expect(parameters, SMOL_ERROR_DAMAGED, kind, "an object");
    *rope = (struct rope){.type = ROPE_DEFAULT};
    smol_status status = smol_setting_string(&object, "rope_type", &type);
    if (!status && (!type || (strcmp(type, "default") != 0 && strcmp(type, "proportional") != 0)))
        return smol_setting_expect(&object, SMOL_ERROR_UNSUPPORTED, "rope_type",
                                   "default or proportional");
    if (!status)
        status = smol_rope_require_real(&object, "rope_theta", &rope->theta);
    if (status || strcmp(type, "default") == 0)
        return status;
    rope->type = ROPE_PROPORTIONAL;
    status = smol_setting_real(&object, "partial_rotary_factor", 0, 1, &part);
    return status ? status : smol_rope_read_proportional(&object, part, dim, rope);
}

/* Fills both tables: that of windowed layers, then that of the others. */
static smol_status read_ropes(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    struct json_settings parameters = *config;
    uint32_t dim = model->head_dim, second_dim = model->varied.head_dim, n_second = 0;
    struct rope first = {.theta = 10000};
    struct rope second = {ROPE_PROPORTIONAL, .theta = 1e6, .factor = 1,
                          .n_rotated = second_dim / 8};
    smol_status status = SMOL_OK;
    parameters.object = smol_setting(config, "rope_parameters");
    parameters.within = "rope_parameters.";
    for (uint32_t i = 0; i < model->n_layers; i++)
        n_second += is_second(result, i);
    if (parameters.object && !json_is_object(parameters.object))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "rope_parameters", "an object");
    if (parameters.object)
        status = read_rope(&parameters, "full_attention", "rope_parameters.full_attention.",
                           second_dim, &second);
    if (!status && parameters.object && n_second < model->n_layers)
        status = read_rope(&parameters, "sliding_attention", "rope_parameters.sliding_attention.",
                           dim, &first);
    model->rotary_dim = dim;
    model->n_rope_tables = 0;
    model->rope_theta = second.theta;
    if (!status)
        status = smol_rope_add_table(config, &first, dim, result);
    return status ? status : smol_rope_add_table(config, &second, second_dim, result);
}

/* Checks the direction of attention, which may be that of pictures. */
static smol_status check_direction(const struct json_settings *config)
{
    static const char key[] = "use_bidirectional_attention";
    const char *text = NULL;
    smol_status status = smol_setting_string(config, key, &text);
    if (!status && text && strcmp(text, "vision") != 0)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key,
                                 "only causal attention is supported");
    return status;
}

smol_status smol_config_read_varied(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    result->layers[model->n_layers - 1] &= (uint8_t)~LAYER_WINDOWED;
    model->attention_scale = 1;
    smol_status status = check_direction(config);
    if (!status)
        status = read_heads(config, result);
    if (!status)
        status = check_heads(config, model);
    if (!status)
        status = read_sharing(config, result);
    if (!status)
        status = read_inputs(config, result);
    if (!status)
        status = read_ropes(config, result);
    for (uint32_t i = 0; i < model->n_layers && !status; i++)
        if (is_second(result, i)) {
            model->varied.second[i / 8] |= (uint8_t)(1u << i % 8);
            result->layers[i] |= LAYER_SECOND_TABLE;
        }
    return status;
}
