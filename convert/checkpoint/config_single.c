/* Layers of one block each, see config_model.h: keys of Nemotron-H. */
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "format/layout.h"

/* The kinds of layers: the letters of hybrid_override_pattern, and the names in lists. The last
 * name is old. */
static const struct layer_kind {
    char letter;
    const char *names[2];
} layer_kinds[] = {
    {'M', {"linear_attention", "mamba"}},
    {'*', {"full_attention", "attention"}},
    {'-', {"mlp", "mlp"}},
    {'E', {"moe", "moe"}},
};
static const char expected[] = "linear_attention, full_attention, mlp or moe";

/* Returns the letter of a name, or 0. */
static char letter_of(const char *name)
{
    for (size_t i = 0; name && i < sizeof layer_kinds / sizeof layer_kinds[0]; i++)
        if (strcmp(name, layer_kinds[i].names[0]) == 0 ||
            strcmp(name, layer_kinds[i].names[1]) == 0)
            return layer_kinds[i].letter;
    return 0;
}

/* Appends the letters of the list `key`, if it is there. Without it, `letters` stays empty. */
static smol_status read_list(const struct json_settings *config, const char *key,
                             char letters[MODEL_MAX_LAYERS + 1])
{
    json_t *list = smol_setting(config, key);
    if (!list)
        return SMOL_OK;
    smol_status status = smol_config_check_list(config, key, list, 1, MODEL_MAX_LAYERS);
    for (size_t i = 0; !status && i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        letters[i] = letter_of(json_string_value(entry));
        if (!letters[i])
            status = smol_config_fail_entry(
                config, json_is_string(entry) ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED, key, i,
                entry, expected);
    }
    return status;
}

static smol_status read_pattern(const struct json_settings *config, const char *key,
                                char letters[MODEL_MAX_LAYERS + 1])
{
    const char *pattern = NULL;
    smol_status status = smol_setting_string(config, key, &pattern);
    size_t n = pattern ? strlen(pattern) : 0;
    if (status || !pattern)
        return status;
    if (n == 0 || n > MODEL_MAX_LAYERS || strspn(pattern, "M*-E") != n)
        return smol_setting_expect(config, SMOL_ERROR_UNSUPPORTED, key,
                                   "letters M, *, - and E, one for each layer");
    memcpy(letters, pattern, n + 1);
    return SMOL_OK;
}

/* Reads the letters of all layers. Releases differ in which key wins, so they must agree. */
static smol_status read_letters(const struct json_settings *config,
                                char letters[MODEL_MAX_LAYERS + 1])
{
    static const struct {
        const char *key;
        smol_status (*read)(const struct json_settings *config, const char *key,
                            char letters[MODEL_MAX_LAYERS + 1]);
    } keys[] = {{"layers_block_type", read_list},
                {"layer_types", read_list},
                {"hybrid_override_pattern", read_pattern}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char found[MODEL_MAX_LAYERS + 1] = {0};
        smol_status status = keys[i].read(config, keys[i].key, found);
        if (status)
            return status;
        if (*found && *letters && strcmp(found, letters) != 0)
            return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                             "%s: %s and another list of layers differ: correct one of them",
                             config->path, keys[i].key);
        if (*found)
            memcpy(letters, found, sizeof found);
    }
    if (!*letters)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: layers_block_type or hybrid_override_pattern is missing: this family "
                         "needs one of them",
                         config->path);
    return SMOL_OK;
}

/* Checks the number of layers, which the reference ignores, against the list. */
static smol_status check_number(const struct json_settings *config, uint32_t n)
{
    static const char key[] = "num_hidden_layers";
    uint32_t stated = n;
    smol_status status = smol_setting_integer(config, key, 1, MODEL_MAX_LAYERS, &stated);
    if (!status && stated != n)
        return smol_setting_fail(config, SMOL_ERROR_DAMAGED, key,
                                 "the list of layers has another length");
    return status;
}

/* Checks what experts need: they are not chosen by groups, and read and write the layer's width. */
static smol_status check_experts(const struct json_settings *config)
{
    static const char *const groups[] = {"n_group", "topk_group"};
    static const char *const numbers[] = {"n_routed_experts", "num_local_experts"};
    uint32_t ignored; /* the reference needs two */
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < sizeof numbers / sizeof numbers[0]; i++)
        status = smol_setting_integer(config, numbers[i], 2, MODEL_MAX_EXPERTS, &ignored);
    for (size_t i = 0; !status && i < sizeof groups / sizeof groups[0]; i++) {
        uint32_t n = 1;
        status = smol_setting_integer(config, groups[i], 1, MODEL_MAX_EXPERTS, &n);
        if (!status && n != 1)
            status = smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, groups[i],
                                       "groups of experts are not supported");
    }
    if (!status && smol_setting(config, "moe_latent_size"))
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, "moe_latent_size",
                                 "experts with a width of their own are not supported");
    return status
               ? status
               : smol_setting_demand(config, "mlp_bias", 0, "biases of experts are not supported");
}

smol_status smol_config_read_single(const struct json_settings *config, struct config *result)
{
    struct blob_model *model = &result->model;
    char letters[MODEL_MAX_LAYERS + 1] = {0};
    bool has_mlp = false;
    if (!result->family->has_single_blocks)
        return SMOL_OK;
    smol_status status = read_letters(config, letters);
    if (status)
        return status;
    model->n_layers = (uint32_t)strlen(letters);
    for (uint32_t i = 0; i < model->n_layers; i++) {
        bool is_mlp = letters[i] == '-' || letters[i] == 'E';
        layers_add(is_mlp ? model->partial.no_mixer : model->partial.no_mlp, i);
        if (letters[i] == 'M')
            layers_add(model->states.layers, i);
        if (letters[i] != 'E')
            layers_add(model->experts.dense, i);
        has_mlp |= is_mlp;
    }
    if (!has_mlp)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: no layer has an MLP: at least one must", config->path);
    status = check_number(config, model->n_layers);
    return status || !strchr(letters, 'E') ? status : check_experts(config);
}
