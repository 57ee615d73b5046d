/* Differences between layers, see config_model.h: sliding windows, and layers without rotary
 * embedding. */
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "format/layout.h"

/* ---- lists with an entry for each layer ---- */

smol_status smol_config_check_list(const struct json_settings *config, const char *key,
                                   json_t *list, uint32_t n_layers, size_t most)
{
    if (!json_is_array(list))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, "a list");
    if (json_array_size(list) < n_layers || json_array_size(list) > most)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s has %zu entries, but num_hidden_layers is %u: correct one of them",
                         config->path, key, json_array_size(list), n_layers);
    return SMOL_OK;
}

smol_status smol_config_fail_entry(const struct json_settings *config, smol_status status,
                                   const char *key, size_t i, const json_t *value,
                                   const char *expected)
{
    char place[64];
    snprintf(place, sizeof place, "%s[%zu]", key, i);
    return smol_setting_expect_item(config, status, place, value, expected);
}

/* Reads no_rope_layers, which has 0 for a layer without rotation. The list may be longer than the
 * model. */
static smol_status read_no_rope_layers(const struct json_settings *config, json_t *list,
                                       struct config *result)
{
    static const char key[] = "no_rope_layers";
    smol_status status =
        smol_config_check_list(config, key, list, result->model.n_layers, SIZE_MAX);
    for (uint32_t i = 0; i < result->model.n_layers && !status; i++) {
        const json_t *entry = json_array_get(list, i);
        if (!json_is_integer(entry) || (uint64_t)json_integer_value(entry) > 1)
            status = smol_config_fail_entry(config, SMOL_ERROR_DAMAGED, key, i, entry,
                                            "0 (no rotation) or 1");
        else if (json_integer_value(entry) == 0)
            result->layers[i] |= LAYER_NO_ROTATION;
    }
    return status;
}

static smol_status read_no_rope(const struct json_settings *config, struct config *result)
{
    json_t *list = smol_setting(config, "no_rope_layers");
    uint32_t interval = 4;
    smol_status status =
        smol_setting_integer(config, "no_rope_layer_interval", 1, UINT32_MAX, &interval);
    if (!status && list)
        return read_no_rope_layers(config, list, result);
    for (uint32_t i = 0; i < result->model.n_layers && !status; i++)
        result->layers[i] |= (i + 1) % interval == 0 ? LAYER_NO_ROTATION : 0;
    return status;
}

/* Reads layer_types, but for layers with states. "attention" is an old name of full_attention. */
static smol_status read_layer_types(const struct json_settings *config, json_t *list,
                                    struct config *result)
{
    static const char key[] = "layer_types";
    smol_status status =
        smol_config_check_list(config, key, list, result->model.n_layers, result->model.n_layers);
    for (uint32_t i = 0; i < result->model.n_layers && !status; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *type = json_string_value(entry);
        if (layer_has_state(&result->model, i))
            continue;
        if (!type)
            status = smol_config_fail_entry(config, SMOL_ERROR_DAMAGED, key, i, entry, "a string");
        else if (strcmp(type, "sliding_attention") == 0)
            result->layers[i] |= LAYER_WINDOWED;
        else if (strcmp(type, "full_attention") != 0 && strcmp(type, "attention") != 0)
            status = smol_config_fail_entry(config, SMOL_ERROR_UNSUPPORTED, key, i, entry,
                                            "full_attention or sliding_attention");
    }
    return status;
}

/* ---- windows ---- */

static bool has_windows(const struct config *result)
{
    for (uint32_t i = 0; i < result->model.n_layers; i++)
        if (result->layers[i] & LAYER_WINDOWED)
            return true;
    return false;
}

/* Returns whether a layer is windowed if config.json has no layer_types. */
static bool is_windowed(const struct config *result, uint32_t layer, uint32_t n)
{
    switch (result->family->windows) {
    case WINDOWS_FROM_N:
        return result->model.sliding_window > 0 && layer >= n;
    case WINDOWS_NO_ROPE:
        return result->model.sliding_window > 0 && result->layers[layer] & LAYER_NO_ROTATION;
    case WINDOWS_BUT_EACH_N:
        return (layer + 1) % n != 0;
    case WINDOWS_AFTER_EACH_N:
        return layer % n != 0;
    case WINDOWS_ALL:
    case WINDOWS_ALL_IF_USED:
        return result->model.sliding_window > 0;
    case WINDOWS_NEVER:
        break;
    }
    return false;
}

/* Reads the n of enum family_windows. Where layer_types counts instead, it may be null or, as in
 * EXAONE 4, a text such as "LLLG". */
static smol_status read_n(const struct json_settings *config, const struct family *family,
                          uint32_t *n)
{
    const char *key = family->windows_n.key;
    bool has_types = smol_setting(config, "layer_types");
    bool divides = family->windows == WINDOWS_BUT_EACH_N || family->windows == WINDOWS_AFTER_EACH_N;
    *n = family->windows_n.fallback;
    if (!key || (divides && has_types && json_is_string(smol_setting(config, key))))
        return SMOL_OK;
    if (smol_setting_is_null(config, key) && !has_types)
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, key,
                                 "expected a number, or layer_types");
    return smol_setting_integer(config, family->windows_n.key, divides && !has_types, UINT32_MAX,
                                n);
}

static bool asks_for_use(const struct family *family)
{
    return family->windows == WINDOWS_FROM_N || family->windows == WINDOWS_NO_ROPE ||
           family->windows == WINDOWS_ALL_IF_USED;
}

/* Reads the window. *window is 0 if there is none. */
static smol_status read_sliding_window(const struct json_settings *config, struct config *result)
{
    const struct family *family = result->family;
    const char *usual = "sliding_window", *key = family->window_key ? family->window_key : usual;
    uint32_t *window = &result->model.sliding_window, used = 1;
    if (family->needs_window && smol_setting_is_null(config, key))
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, key, "this family needs a number");
    *window = smol_setting_is_null(config, key) ? 0 : family->sliding_window;
    smol_status status = smol_setting_integer(config, key, 1, UINT32_MAX, window);
    if (!status && key != usual && smol_setting(config, usual))
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, usual,
                                 "this family has another key for it: remove it");
    if (asks_for_use(family)) {
        used = 0;
        if (!status)
            status = smol_setting_flag(config, "use_sliding_window", &used);
    }
    *window = used ? *window : 0;
    if (result->encodes && *window > 0)
        *window = *window / 2 + 1; /* on either side, with the token itself */
    return status;
}

/* Checks that layer_types agrees with a single kind of layer. transformers ignores it for these
 * families, so a model whose layers differ is not supported. */
static smol_status check_uniform(const struct json_settings *config, struct config *result)
{
    bool windowed = result->model.sliding_window > 0;
    for (uint32_t i = 0; i < result->model.n_layers; i++)
        if (!(result->layers[i] & LAYER_WINDOWED) == windowed)
            return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: layer_types: layer %u differs: in %s all layers are windowed, or "
                             "none if sliding_window is null",
                             config->path, i, result->family->model_type);
    return SMOL_OK;
}

static smol_status check_window(const struct json_settings *config, const struct config *result)
{
    const char *key = "sliding_window";
    json_t *use = smol_setting(config, "use_sliding_window");
    if (!has_windows(result) || result->model.sliding_window > 0)
        return SMOL_OK;
    if (asks_for_use(result->family) && !json_is_true(use))
        key = "use_sliding_window";
    return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                     "%s: layers have sliding_attention, but %s is %s: correct one of them",
                     config->path, key, smol_setting(config, key) ? "false" : "not set");
}

static smol_status read_windows(const struct json_settings *config, struct config *result)
{
    json_t *list = smol_setting(config, "layer_types");
    uint32_t n;
    smol_status status = read_sliding_window(config, result);
    if (!status)
        status = read_n(config, result->family, &n);
    if (!status && list)
        status = read_layer_types(config, list, result);
    for (uint32_t i = 0; i < result->model.n_layers && !status && !list; i++)
        result->layers[i] |= is_windowed(result, i, n) ? LAYER_WINDOWED : 0;
    bool uniform =
        result->family->windows == WINDOWS_ALL || result->family->windows == WINDOWS_ALL_IF_USED;
    if (!status && uniform)
        return check_uniform(config, result);
    return status ? status : check_window(config, result);
}

/* Sets that layers without a window do not rotate. */
static void stop_rotation(struct config *result)
{
    for (uint32_t i = 0; i < result->model.n_layers; i++)
        if (!(result->layers[i] & LAYER_WINDOWED))
            result->layers[i] |= LAYER_NO_ROTATION;
}

/* Reads whether layers that attend rotate at all. */
static smol_status read_rotates(const struct json_settings *config, struct config *result)
{
    const char *key = result->family->rotates_key, *kind = NULL;
    smol_status status = *key ? smol_setting_string(config, key, &kind) : SMOL_OK;
    if (status || (kind && strcmp(kind, "rope") == 0))
        return status;
    if (kind && strcmp(kind, "nope") != 0)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key,
                                 "rope, nope or null are supported");
    for (uint32_t i = 0; i < result->model.n_layers; i++)
        if (layer_attends(&result->model, i))
            result->layers[i] |= LAYER_NO_ROTATION;
    return SMOL_OK;
}

smol_status smol_config_read_layers(const struct json_settings *config, struct config *result)
{
    smol_status status = SMOL_OK;
    if (result->family->rotates_key)
        status = read_rotates(config, result);
    if (!status && result->family->has_no_rope)
        status = read_no_rope(config, result);
    if (!status && result->family->windows != WINDOWS_NEVER)
        status = read_windows(config, result);
    if (!status && result->family->rotates_windowed && result->model.sliding_window > 0)
        stop_rotation(result);
    return status;
}

/* Removes windows that no text can fill, so that the blob needs no feature for them. */
void smol_config_drop_idle_windows(struct config *result)
{
    struct blob_model *model = &result->model;
    if (has_windows(result) && model->sliding_window < model->context_length)
        return;
    model->sliding_window = 0;
    for (uint32_t i = 0; i < model->n_layers; i++)
        result->layers[i] &= (uint8_t)~LAYER_WINDOWED;
}
