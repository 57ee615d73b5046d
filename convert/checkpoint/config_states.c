/* Layers that have a state in place of attention, see config_model.h. */
#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "format/states.h"

static void set_state(struct config *result, uint32_t layer, bool has)
{
    uint8_t *byte = &result->model.states.layers[layer / 8], bit = (uint8_t)(1 << layer % 8);
    *byte = has ? *byte | bit : *byte & (uint8_t)~bit;
}

static smol_status fail_entry(const struct json_settings *config, smol_status status,
                              const char *key, size_t i, const json_t *value, const char *expected)
{
    char place[64];
    snprintf(place, sizeof place, "%s[%zu]", key, i);
    return smol_setting_expect(config, status, place, value, expected);
}

/* Reads layer_types, whose entries are full_attention or conv. */
static smol_status read_types(const struct json_settings *config, json_t *list,
                              struct config *result)
{
    static const char key[] = "layer_types";
    uint32_t n = result->model.n_layers;
    if (!json_is_array(list))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, list, "a list");
    if (json_array_size(list) != n)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s has %zu entries, but num_hidden_layers is %u: correct one of them",
                         config->path, key, json_array_size(list), n);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *type = json_string_value(entry);
        bool conv = type && strcmp(type, "conv") == 0;
        if (!type || (!conv && strcmp(type, "full_attention") != 0))
            return fail_entry(config, type ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED, key, i,
                              entry, "full_attention or conv");
        set_state(result, i, conv);
    }
    return SMOL_OK;
}

/* Reads full_attn_idxs, the layers that attend. Without it all do. */
static smol_status read_attending(const struct json_settings *config, struct config *result)
{
    static const char key[] = "full_attn_idxs";
    json_t *list = smol_setting(config, key);
    uint32_t n = result->model.n_layers;
    if (!list)
        return SMOL_OK;
    if (!json_is_array(list))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, list, "a list");
    for (uint32_t i = 0; i < n; i++)
        set_state(result, i, true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (!json_is_integer(entry))
            return fail_entry(config, SMOL_ERROR_DAMAGED, key, i, entry, "an integer");
        if (json_integer_value(entry) >= 0 && json_integer_value(entry) < n)
            set_state(result, (uint32_t)json_integer_value(entry), false);
    }
    return SMOL_OK;
}

/* Counts the layers. A model none of whose layers has a state needs nothing of this. */
static smol_status settle(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    uint32_t n = smol_states_count(model);
    if (n == model->n_layers)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: no layer has attention: at least one must", config->path);
    if (n == 0)
        model->states = (struct blob_states){0};
    return SMOL_OK;
}

smol_status smol_config_read_states(const struct json_settings *config, struct config *result)
{
    struct blob_states *states = &result->model.states;
    if (result->family->state == STATE_NONE)
        return SMOL_OK;
    states->kind = result->family->state;
    states->taps = 3;
    json_t *types = smol_setting(config, "layer_types");
    smol_status status =
        smol_setting_integer(config, "conv_L_cache", 2, STATES_MAX_TAPS, &states->taps);
    if (!status)
        status = smol_setting_flag(config, "conv_bias", &states->biases);
    if (!status)
        status = types ? read_types(config, types, result) : read_attending(config, result);
    return status ? status : settle(config, result);
}
