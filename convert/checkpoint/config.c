/* A checkpoint's settings, see config.h. This file opens the files and says who reads what. */
#include "convert/checkpoint/config.h"

#include "convert/checkpoint/config_parts.h"

static const struct {
    const char *name;
    bool required;
} files[N_CONFIG_FILES] = {
    [CONFIG_JSON] = {NULL, true},
    [GENERATION_JSON] = {"generation_config.json", false},
    [TOKENIZER_CONFIG_JSON] = {"tokenizer_config.json", false},
};

static smol_status read_all(const char *folder, const struct json_settings *from,
                            struct json_settings *tokenizer, struct config *config)
{
    smol_status status = smol_config_read_model(&from[CONFIG_JSON], config);
    if (!status)
        status = smol_config_read_generation(&from[GENERATION_JSON], &config->generation);
    if (!status)
        status = smol_config_read_stop(folder, &from[CONFIG_JSON], &from[GENERATION_JSON],
                                       &from[TOKENIZER_CONFIG_JSON], tokenizer, config);
    return status;
}

smol_status smol_config_open(const char *folder, const char *name, uint32_t context,
                             struct config *config, struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, smol_error *error)
{
    struct json_settings from[N_CONFIG_FILES] = {{0}};
    smol_status status = SMOL_OK;
    *config = (struct config){.wanted_context = context};
    *tokenizer = (struct json_settings){0};
    for (int i = 0; i < N_CONFIG_FILES && !status; i++) {
        const char *file = files[i].name ? files[i].name : name;
        status = smol_settings_open(folder, file, files[i].required, &from[i], error);
        config->marks[i] = from[i].mark;
    }
    if (!status)
        status = read_all(folder, from, tokenizer, config);
    smol_settings_close(&from[CONFIG_JSON]);
    smol_settings_close(&from[GENERATION_JSON]);
    *tokenizer_config = from[TOKENIZER_CONFIG_JSON];
    return status;
}
