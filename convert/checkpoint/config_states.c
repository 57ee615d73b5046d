/* Layers that have a state in place of attention, see config_model.h. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "format/model.h"

static void set_state(struct config *result, uint32_t layer, bool has)
{
    uint8_t *byte = &result->model.states.layers[layer / 8], bit = (uint8_t)(1 << layer % 8);
    *byte = has ? *byte | bit : *byte & (uint8_t)~bit;
}

/* The names of a layer with a state in layer_types, and of one that attends: the second ones are
 * old. */
static const struct layer_names {
    const char *state[2], *attention[2], *expected;
} layer_names[] = {
    [STATE_SHORT_CONV] = {{"conv", "conv"},
                          {"full_attention", "full_attention"},
                          "full_attention or conv"},
    [STATE_MAMBA2] = {{"linear_attention", "mamba"},
                      {"full_attention", "attention"},
                      "full_attention or linear_attention"},
    [STATE_DELTA] = {{"linear_attention", "linear_attention"},
                     {"full_attention", "full_attention"},
                     "full_attention or linear_attention"},
};

static bool is_one_of(const char *type, const char *const names[2])
{
    return strcmp(type, names[0]) == 0 || strcmp(type, names[1]) == 0;
}

/* Reads layer_types, which overrides other keys. */
static smol_status read_types(const struct json_settings *config, json_t *list,
                              struct config *result)
{
    static const char key[] = "layer_types";
    const struct layer_names *names = &layer_names[result->model.states.kind];
    uint32_t n = result->model.n_layers;
    bool has_windows = result->family->windows != WINDOWS_NEVER;
    smol_status status = smol_config_check_list(config, key, list, n, n);
    if (status)
        return status;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *type = json_string_value(entry);
        bool windowed = type && has_windows && strcmp(type, "sliding_attention") == 0;
        if (!type ||
            (!is_one_of(type, names->state) && !is_one_of(type, names->attention) && !windowed))
            return smol_config_fail_entry(
                config, type ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED, key, i, entry,
                has_windows ? "full_attention, sliding_attention or conv" : names->expected);
        set_state(result, i, is_one_of(type, names->state));
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
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, "a list");
    for (uint32_t i = 0; i < n; i++)
        set_state(result, i, true);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (!json_is_integer(entry))
            return smol_config_fail_entry(config, SMOL_ERROR_DAMAGED, key, i, entry, "an integer");
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
    if (!smol_model_attends(model))
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: no layer has attention: at least one must", config->path);
    if (n == 0 && result->family->needs_states)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: all layers attend: at least one must not, in this family",
                         config->path);
    if (n == 0)
        model->states = (struct blob_states){0};
    return SMOL_OK;
}

/* Reads LFM2's keys. */
static smol_status read_short_conv(const struct json_settings *config, struct config *result)
{
    struct blob_states *states = &result->model.states;
    json_t *types = smol_setting(config, "layer_types");
    if (!types && result->family->needs_layer_types)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: layer_types is missing: this family needs it", config->path);
    states->taps = result->family->taps;
    smol_status status =
        smol_setting_integer(config, "conv_L_cache", 2, STATES_MAX_TAPS, &states->taps);
    if (!status)
        status = smol_setting_flag(config, "conv_bias", &states->biases);
    if (!status)
        status = read_attending(config, result);
    return status || !types ? status : read_types(config, types, result);
}

/* Integers of config.json with their defaults. */
struct state_size {
    const char *key;
    uint32_t least, most;
    uint32_t *value;
};

static smol_status read_sizes(const struct json_settings *config, const struct state_size *sizes,
                              size_t n)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = smol_setting_integer(config, sizes[i].key, sizes[i].least, sizes[i].most,
                                      sizes[i].value);
    return status;
}

/* Checks that the heads can share vectors in groups. */
static smol_status check_groups(const struct json_settings *config,
                                const struct blob_states *states, const char *heads,
                                const char *groups)
{
    if (states->n_heads % states->n_groups)
        return smol_config_fail_multiple(config, heads, states->n_heads, groups, states->n_groups);
    return SMOL_OK;
}

/* Checks that the steps have no limits: the reference has them in prompts, but not afterwards.
 * Infinity is a string (see json.h) or, as transformers 5 writes it, an object with one. */
static smol_status check_step_limit(const struct json_settings *config)
{
    static const char key[] = "time_step_limit";
    json_t *list = json_object_get(config->object, key);
    const json_t *low = json_array_get(list, 0), *high = json_array_get(list, 1);
    const json_t *word = json_is_string(high) ? high : json_object_get(high, "__float__");
    const char *limit = json_string_value(word);
    if (list && (json_array_size(list) != 2 || !json_is_real(low) || json_real_value(low) != 0 ||
                 !limit || strcmp(limit, "Infinity") != 0))
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key,
                                 "limits of time steps are not supported");
    return SMOL_OK;
}

/* Reads the width of a layer's output. Falcon-H1 has a key for it, whose null is no default. */
static smol_status read_width(const struct json_settings *config, const struct config *result,
                              uint32_t expand, uint64_t *width)
{
    static const char key[] = "mamba_d_ssm";
    uint32_t own = 1024;
    *width = (uint64_t)expand * result->model.hidden_size;
    if (!result->model.hybrid.parallel || smol_setting_is_null(config, key))
        return SMOL_OK;
    smol_status status =
        smol_setting_integer(config, key, 1, STATES_MAX_HEADS * STATES_MAX_SIZE, &own);
    *width = own;
    return status;
}

/* Reads mamba_d_head, which the other sizes determine. */
static smol_status read_head_dim(const struct json_settings *config, struct blob_states *states,
                                 uint64_t width)
{
    static const char key[] = "mamba_d_head";
    const json_t *value = json_object_get(config->object, key);
    if (states->n_heads == 0 || width % states->n_heads || width / states->n_heads == 0 ||
        width / states->n_heads > STATES_MAX_SIZE)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: mamba_n_heads %u must divide the width of states, %llu, into "
                         "heads of 1 to %d",
                         config->path, states->n_heads, (unsigned long long)width, STATES_MAX_SIZE);
    states->head_dim = (uint32_t)(width / states->n_heads);
    bool is_auto = json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
    if (value && !is_auto &&
        !(json_is_integer(value) && json_integer_value(value) == (json_int_t)states->head_dim))
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, key,
                                 "the width of states / mamba_n_heads is another number");
    return SMOL_OK;
}

/* Reads the keys of Mamba2 layers, with the defaults of Granite 4.0 H and Falcon-H1. */
static smol_status read_mamba2(const struct json_settings *config, struct config *result)
{
    struct blob_states *states = &result->model.states;
    uint32_t expand = 2, ignored;
    uint64_t width;
    states->taps = 4;
    states->biases = 1;
    states->n_heads = 128;
    states->n_groups = 1;
    states->size = 256;
    const struct state_size sizes[] = {
        {"mamba_d_conv", 2, STATES_MAX_TAPS, &states->taps},
        {"mamba_n_heads", 1, STATES_MAX_HEADS, &states->n_heads},
        {"mamba_n_groups", 1, STATES_MAX_HEADS, &states->n_groups},
        {"mamba_d_state", 1, STATES_MAX_SIZE, &states->size},
        {"mamba_expand", 1, 1024, &expand},
        {"mamba_chunk_size", 1, UINT32_MAX, &ignored},
    };
    json_t *types = result->model.hybrid.parallel ? NULL : smol_setting(config, "layer_types");
    smol_status status = read_sizes(config, sizes, sizeof sizes / sizeof sizes[0]);
    if (!status)
        status = smol_setting_flag(config, "mamba_conv_bias", &states->biases);
    if (!status && !result->model.hybrid.parallel)
        status = smol_setting_demand(config, "mamba_proj_bias", 0,
                                     "biases of a state's matrices are not supported");
    if (!status)
        status = check_step_limit(config);
    if (!status)
        status = read_width(config, result, expand, &width);
    if (!status)
        status = read_head_dim(config, states, width);
    if (!status)
        status = check_groups(config, states, "mamba_n_heads", "mamba_n_groups");
    for (uint32_t i = 0; i < result->model.n_layers && !types; i++)
        set_state(result, i, true);
    return status || !types ? status : read_types(config, types, result);
}

/* Checks the shortest step of Nemotron-H. transformers lengthens shorter ones in prompts, but not
 * afterwards; here each step is taken as it is. Published checkpoints have 0.001. */
static smol_status check_least_step(const struct json_settings *config, const char *key)
{
    double least = 0, published = 0.001;
    smol_status status = smol_setting_fraction(config, key, 0, FLT_MAX, &least);
    if (!status && least > published)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key,
                                 "above 0.001, limits of time steps are not supported");
    return status;
}

/* Reads the keys of Mamba2 layers, with the defaults of Nemotron-H. Which layers have a state is
 * known. Keys of other names override them, if they are there. */
static smol_status read_single_mamba2(const struct json_settings *config, struct config *result)
{
    struct blob_states *states = &result->model.states;
    uint32_t ignored;
    states->taps = 4;
    states->biases = 1;
    states->n_heads = states->size = 128;
    states->head_dim = 64;
    states->n_groups = 8;
    const struct state_size sizes[] = {
        {"conv_kernel", 2, STATES_MAX_TAPS, &states->taps},
        {"mamba_d_conv", 2, STATES_MAX_TAPS, &states->taps},
        {"mamba_num_heads", 1, STATES_MAX_HEADS, &states->n_heads},
        {"mamba_head_dim", 1, STATES_MAX_SIZE, &states->head_dim},
        {"ssm_state_size", 1, STATES_MAX_SIZE, &states->size},
        {"n_groups", 1, STATES_MAX_HEADS, &states->n_groups},
        {"mamba_n_groups", 1, STATES_MAX_HEADS, &states->n_groups},
        {"chunk_size", 1, UINT32_MAX, &ignored},
        {"mamba_chunk_size", 1, UINT32_MAX, &ignored},
    };
    smol_status status = read_sizes(config, sizes, sizeof sizes / sizeof sizes[0]);
    if (!status)
        status = smol_setting_flag(config, "use_conv_bias", &states->biases);
    if (!status)
        status = smol_setting_flag(config, "mamba_conv_bias", &states->biases);
    if (!status)
        status = check_step_limit(config);
    if (!status)
        status = check_least_step(config, "time_step_min");
    if (!status)
        status = check_least_step(config, "mamba_dt_min");
    return status ? status : check_groups(config, states, "mamba_num_heads", "n_groups");
}

/* Reads the keys of gated DeltaNet layers. */
static smol_status read_delta(const struct json_settings *config, struct config *result)
{
    struct blob_states *states = &result->model.states;
    uint32_t interval = 4;
    states->taps = 4;
    states->n_heads = 32;
    states->n_groups = 16;
    states->size = states->head_dim = 128;
    const struct state_size sizes[] = {
        {"linear_conv_kernel_dim", 2, STATES_MAX_TAPS, &states->taps},
        {"linear_num_value_heads", 1, STATES_MAX_HEADS, &states->n_heads},
        {"linear_num_key_heads", 1, STATES_MAX_HEADS, &states->n_groups},
        {"linear_key_head_dim", 1, STATES_MAX_SIZE, &states->size},
        {"linear_value_head_dim", 1, STATES_MAX_SIZE, &states->head_dim},
        {"full_attention_interval", 1, UINT32_MAX, &interval},
    };
    json_t *types = smol_setting(config, "layer_types");
    smol_status status = read_sizes(config, sizes, sizeof sizes / sizeof sizes[0]);
    if (!status)
        status = check_groups(config, states, "linear_num_value_heads", "linear_num_key_heads");
    for (uint32_t i = 0; i < result->model.n_layers && !types; i++)
        set_state(result, i, (i + 1) % interval != 0);
    return status || !types ? status : read_types(config, types, result);
}

smol_status smol_config_read_states(const struct json_settings *config, struct config *result)
{
    smol_status status = SMOL_OK;
    result->model.states.kind = result->family->state;
    switch (result->family->state) {
    case STATE_NONE:
        return SMOL_OK;
    case STATE_SHORT_CONV:
        status = read_short_conv(config, result);
        break;
    case STATE_MAMBA2:
        status = result->family->has_single_blocks ? read_single_mamba2(config, result)
                                                   : read_mamba2(config, result);
        break;
    case STATE_DELTA:
        status = read_delta(config, result);
        break;
    }
    return status ? status : settle(config, result);
}
