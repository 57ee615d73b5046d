/* Finds the family that config.json names, and refuses features that smolconv lacks, see
 * config_model.h. */
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "format/model.h"

/* ---- the family ---- */

/* Returns the family of the first supported architecture in the list, or NULL if none is
 * supported. */
static const struct family *find_architecture(json_t *list)
{
    const struct family *family = NULL;
    for (size_t i = 0; i < json_array_size(list) && !family; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        family = name ? smol_family_by_architecture(name) : NULL;
    }
    return family;
}

/* Returns what the first supported architecture in the list has after the layers. */
static enum config_head head_of(json_t *list, const struct family *family)
{
    for (size_t i = 0; family && i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || smol_family_by_architecture(name) != family)
            continue;
        return family->body && strcmp(name, family->body) == 0       ? HEAD_NONE
               : family->scorer && strcmp(name, family->scorer) == 0 ? HEAD_SCORE
                                                                     : HEAD_OUTPUT;
    }
    return HEAD_OUTPUT;
}

smol_status smol_config_find_family(const struct json_settings *config,
                                    const struct family **family, enum config_head *head)
{
    char remedy[FAMILY_REMEDY];
    json_t *list = smol_setting(config, "architectures");
    const char *type = NULL;
    smol_family_remedy(json_string_value(json_array_get(list, 0)), remedy);
    if (list && !json_is_array(list))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "architectures", "a list");
    *family = find_architecture(list);
    *head = head_of(list, *family);
    if (json_array_size(list) > 0 && !*family)
        return smol_setting_fail_item(config, SMOL_ERROR_UNSUPPORTED, "architectures[0]",
                                      json_array_get(list, 0), remedy);
    smol_status status = smol_setting_string(config, "model_type", &type);
    if (status)
        return status;
    if (!type && !*family)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: architectures and model_type are missing: %s", config->path, remedy);
    if (!*family)
        *family = smol_family_by_model_type(type);
    if (!*family)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, "model_type", remedy);
    if (type && strcmp(type, (*family)->model_type) != 0)
        return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: model_type is \"%.48s\", but architectures name %s: correct one of "
                         "them",
                         config->path, type, (*family)->architecture);
    return SMOL_OK;
}

/* ---- unsupported features ---- */

smol_status smol_config_check_dtypes(const struct json_settings *config)
{
    static const char *const dtypes[] = {"float32",       "float16",     "bfloat16", "float64",
                                         "float8_e4m3fn", "float8_e5m2", NULL};
    static const char expected[] =
        "float32, float16, bfloat16, float64, float8_e4m3fn or float8_e5m2";
    uint32_t ignored;
    smol_status status = smol_setting_choice(config, "dtype", dtypes, expected, &ignored);
    return status ? status : smol_setting_choice(config, "torch_dtype", dtypes, expected, &ignored);
}

/* Checks that an encoder's learned positions are added to the tokens, and nothing else is. */
static smol_status check_positions(const struct json_settings *config, const struct family *family)
{
    static const char key[] = "position_embedding_type";
    static const char *const types[] = {"absolute", NULL};
    uint32_t ignored;
    if (!family->encodes || !(family->blocks & BLOCK_POSITIONS))
        return SMOL_OK;
    if (smol_setting_is_null(config, key))
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key, "must be absolute");
    return smol_setting_choice(config, key, types, "absolute", &ignored);
}

/* Checks that relative positions have as many buckets as the reference computes, whatever the size
 * of its table. */
static smol_status check_buckets(const struct json_settings *config, const struct family *family)
{
    static const char key[] = "relative_attention_num_buckets";
    uint32_t n = RELATIVE_BUCKETS;
    if (!(family->blocks & BLOCK_RELATIVE))
        return SMOL_OK;
    smol_status status = smol_setting_integer(config, key, 1, UINT32_MAX, &n);
    if (!status && n != RELATIVE_BUCKETS)
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key, "must be 32");
    return status;
}

smol_status smol_config_check_supported(const struct json_settings *config,
                                        const struct family *family)
{
    smol_status status = smol_config_check_dtypes(config);
    if (!status && !family->varies)
        status = smol_setting_forbid(config, "per_layer_config", "all layers must be alike");
    if (!status)
        status = smol_setting_demand(config, "is_causal", !family->encodes,
                                     family->encodes ? "an encoder's tokens see the whole text"
                                                     : "only causal attention is supported");
    for (size_t i = 0; i < FAMILY_MAX_TEXTS && family->texts[i].key && !status; i++) {
        const char *const choices[] = {family->texts[i].text, NULL};
        uint32_t ignored;
        status = smol_setting_choice(config, family->texts[i].key, choices, choices[0], &ignored);
    }
    for (size_t i = 0; i < FAMILY_MAX_DEMANDS && family->demands[i].key && !status; i++)
        status = smol_setting_demand(config, family->demands[i].key, family->demands[i].value,
                                     family->demands[i].remedy);
    if (!status && family->refused_key)
        status = smol_setting_forbid(config, family->refused_key, "this feature is not supported");
    if (!status)
        status = check_buckets(config, family);
    return status ? status : check_positions(config, family);
}
