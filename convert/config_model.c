/* The model that config.json describes, see config_parts.h. Defaults and precedence are those of
 * the reference, transformers' LlamaConfig. Keys that it does not compute with (pretraining_tp,
 * sliding_window, ...) are ignored here too. */
#include <float.h>
#include <stddef.h>
#include <string.h>

#include "convert/config_parts.h"

enum { DEFAULT_BOS = 1 };

/* ---- what we do not run ---- */

static enum status check_architecture(const struct settings *config)
{
    static const char ours[] = "LlamaForCausalLM", remedy[] = "only LlamaForCausalLM is supported";
    json_t *list = smol_setting(config, "architectures");
    const char *type = "llama";
    if (list && !json_is_array(list))
        return smol_setting_fail(config, STATUS_DAMAGED, "architectures", list, "a list is due");
    bool found = json_array_size(list) == 0;
    for (size_t i = 0; i < json_array_size(list) && !found; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        found = name && strcmp(name, ours) == 0;
    }
    if (!found)
        return smol_setting_fail(config, STATUS_UNSUPPORTED, "architectures[0]",
                                 json_array_get(list, 0), remedy);
    if (json_array_size(list) == 0 && !smol_setting(config, "model_type"))
        return smol_fail(config->error, STATUS_UNSUPPORTED,
                         "%s: neither architectures nor model_type: %s", config->path, remedy);
    enum status status = smol_setting_string(config, "model_type", &type);
    if (!status && strcmp(type, "llama") != 0)
        return smol_setting_fail(config, STATUS_UNSUPPORTED, "model_type",
                                 smol_setting(config, "model_type"), remedy);
    return status;
}

/* `key` may be absent or one of the NULL-terminated `choices`. */
static enum status check_choice(const struct settings *settings, const char *key,
                                const char *const *choices, const char *remedy)
{
    const char *text = NULL;
    enum status status = smol_setting_string(settings, key, &text);
    if (status || !text)
        return status;
    for (; *choices; choices++)
        if (strcmp(text, *choices) == 0)
            return STATUS_OK;
    return smol_setting_fail(settings, STATUS_UNSUPPORTED, key, smol_setting(settings, key),
                             remedy);
}

static enum status check_absent(const struct settings *config, const char *key, const char *remedy)
{
    json_t *value = smol_setting(config, key);
    if (!value || (json_is_object(value) && json_object_size(value) == 0))
        return STATUS_OK;
    return smol_setting_fail(config, STATUS_UNSUPPORTED, key, value, remedy);
}

/* The tensors say what they are made of; dtype is only asked to be something that exists. */
static enum status check_choices(const struct settings *config)
{
    static const char *const activations[] = {"silu", "swish", NULL};
    static const char *const dtypes[] = {"float32",       "float16",     "bfloat16", "float64",
                                         "float8_e4m3fn", "float8_e5m2", NULL};
    static const char dtype_remedy[] =
        "float32, float16, bfloat16, float64, float8_e4m3fn or float8_e5m2 is due";
    enum status status = check_choice(config, "hidden_act", activations, "only silu is supported");
    if (!status)
        status = check_choice(config, "dtype", dtypes, dtype_remedy);
    if (!status)
        status = check_choice(config, "torch_dtype", dtypes, dtype_remedy);
    if (!status)
        status = check_absent(config, "quantization_config",
                              "quantized checkpoints are not supported; convert the original");
    if (!status)
        status = check_absent(config, "per_layer_config", "all layers must be alike");
    return status;
}

/* ---- sizes ---- */

static const struct size {
    const char *key;
    size_t offset; /* of the u32 in struct blob_model */
    uint32_t max;
    uint32_t fallback; /* 0: follows from others */
} sizes[] = {
    {"hidden_size", offsetof(struct blob_model, hidden_size), 1 << 20, 4096},
    {"intermediate_size", offsetof(struct blob_model, intermediate_size), 1 << 22, 11008},
    {"num_hidden_layers", offsetof(struct blob_model, n_layers), 1024, 32},
    {"num_attention_heads", offsetof(struct blob_model, n_heads), 4096, 32},
    {"num_key_value_heads", offsetof(struct blob_model, n_kv_heads), 4096, 0},
    {"head_dim", offsetof(struct blob_model, head_dim), 1024, 0},
    {"vocab_size", offsetof(struct blob_model, vocab_size), 1 << 24, 32000},
    {"max_position_embeddings", offsetof(struct blob_model, context_length), 1 << 24, 2048},
};

static enum status read_sizes(const struct settings *config, struct blob_model *model)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t value = sizes[i].fallback;
        enum status status = smol_setting_integer(config, sizes[i].key, 1, sizes[i].max, &value);
        if (status)
            return status;
        memcpy((char *)model + sizes[i].offset, &value, sizeof value);
    }
    return STATUS_OK;
}

static enum status fail_multiple(const struct settings *config, const char *key, uint32_t value,
                                 const char *divisor_key, uint32_t divisor)
{
    return smol_fail(config->error, STATUS_DAMAGED,
                     "%s: %s %u is not a multiple of %s %u: correct one of them", config->path, key,
                     value, divisor_key, divisor);
}

static enum status derive_sizes(const struct settings *config, struct blob_model *model)
{
    if (model->n_kv_heads == 0)
        model->n_kv_heads = model->n_heads;
    if (model->n_heads % model->n_kv_heads != 0)
        return fail_multiple(config, "num_attention_heads", model->n_heads, "num_key_value_heads",
                             model->n_kv_heads);
    if (model->head_dim == 0) {
        if (model->hidden_size % model->n_heads != 0)
            return fail_multiple(config, "hidden_size", model->hidden_size, "num_attention_heads",
                                 model->n_heads);
        model->head_dim = model->hidden_size / model->n_heads;
    }
    if (model->head_dim % 2 != 0)
        return smol_fail(config->error, STATUS_UNSUPPORTED,
                         "%s: head_dim %u is odd (hidden_size %u, num_attention_heads %u): "
                         "rotary embedding needs an even one",
                         config->path, model->head_dim, model->hidden_size, model->n_heads);
    if (model->head_dim > 1024)
        return smol_fail(config->error, STATUS_UNSUPPORTED,
                         "%s: head_dim %u (hidden_size %u, num_attention_heads %u): "
                         "at most 1024 is supported",
                         config->path, model->head_dim, model->hidden_size, model->n_heads);
    return STATUS_OK;
}

/* ---- rotary embedding ---- */

/* A theta that is read into a float there must stay a number there. */
static enum status read_theta(const struct settings *settings, double *theta, const char **place)
{
    double found = 0;
    enum status status = smol_setting_real(settings, "rope_theta", FLT_MIN, FLT_MAX, &found);
    if (status || found == 0)
        return status;
    if (*place && found != *theta)
        return smol_fail(settings->error, STATUS_DAMAGED,
                         "%s: %srope_theta is %.9g and %srope_theta is %.9g: correct one of them",
                         settings->path, *place, *theta, settings->within, found);
    *theta = found;
    *place = settings->within;
    return STATUS_OK;
}

static enum status check_rotary_factor(const struct settings *settings)
{
    double factor = 1;
    enum status status =
        smol_setting_real(settings, "partial_rotary_factor", -FLT_MAX, FLT_MAX, &factor);
    if (!status && factor != 1)
        return smol_setting_fail(settings, STATUS_UNSUPPORTED, "partial_rotary_factor",
                                 smol_setting(settings, "partial_rotary_factor"),
                                 "only 1 is supported");
    return status;
}

/* rope_parameters (since transformers 5) or rope_scaling (before). */
static enum status check_rope_object(const struct settings *rope)
{
    static const char *const types[] = {"default", NULL};
    static const char remedy[] = "only the default rotary embedding is supported";
    const char *key;
    json_t *value;
    enum status status = check_choice(rope, "rope_type", types, remedy);
    if (!status)
        status = check_choice(rope, "type", types, remedy);
    if (status)
        return status;
    json_object_foreach(rope->object, key, value)
    {
        if (json_is_object(value))
            return smol_setting_fail(rope, STATUS_UNSUPPORTED, key, value,
                                     "all layers must share one rotary embedding");
    }
    return STATUS_OK;
}

static enum status read_rope(const struct settings *config, struct blob_model *model)
{
    static const struct {
        const char *key, *within;
    } objects[] = {{"rope_parameters", "rope_parameters."}, {"rope_scaling", "rope_scaling."}};
    const char *place = NULL;
    model->rope_theta = 10000;
    enum status status = read_theta(config, &model->rope_theta, &place);
    if (!status)
        status = check_rotary_factor(config);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0] && !status; i++) {
        json_t *object = smol_setting(config, objects[i].key);
        struct settings rope = *config;
        rope.object = object;
        rope.within = objects[i].within;
        if (!object)
            continue;
        if (!json_is_object(object))
            return smol_setting_fail(config, STATUS_DAMAGED, objects[i].key, object,
                                     "an object is due");
        status = check_rope_object(&rope);
        if (!status)
            status = check_rotary_factor(&rope);
        if (!status)
            status = read_theta(&rope, &model->rope_theta, &place);
    }
    return status;
}

/* ---- the rest ---- */

static enum status read_flags(const struct settings *config, struct blob_model *model)
{
    double epsilon = 1e-6;
    enum status status = smol_setting_flag(config, "tie_word_embeddings", &model->tied_embeddings);
    if (!status)
        status = smol_setting_flag(config, "attention_bias", &model->attention_bias);
    if (!status)
        status = smol_setting_flag(config, "mlp_bias", &model->mlp_bias);
    if (!status)
        status = smol_setting_real(config, "rms_norm_eps", FLT_MIN, 1, &epsilon);
    model->rms_norm_eps = (float)epsilon;
    return status;
}

/* Absent, it is the reference's default; null says that there is none. */
static enum status read_bos(const struct settings *config, struct blob_model *model)
{
    json_t *value = json_object_get(config->object, "bos_token_id");
    model->bos_id =
        json_is_null(value) || DEFAULT_BOS >= model->vocab_size ? NO_TOKEN : DEFAULT_BOS;
    enum status status =
        smol_setting_integer(config, "bos_token_id", 0, NO_TOKEN - 1, &model->bos_id);
    if (!status && model->bos_id != NO_TOKEN && model->bos_id >= model->vocab_size)
        return smol_fail(config->error, STATUS_DAMAGED,
                         "%s: bos_token_id %u is not below vocab_size %u: correct one of them",
                         config->path, model->bos_id, model->vocab_size);
    return status;
}

enum status smol_config_read_model(const struct settings *config, struct blob_model *model)
{
    enum status status = check_architecture(config);
    if (!status)
        status = check_choices(config);
    if (!status)
        status = read_sizes(config, model);
    if (!status)
        status = derive_sizes(config, model);
    if (!status)
        status = read_rope(config, model);
    if (!status)
        status = read_flags(config, model);
    if (!status)
        status = read_bos(config, model);
    model->family = FAMILY_LLAMA;
    return status;
}
