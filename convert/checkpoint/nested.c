/* Finds the language model in a checkpoint of more, see nested.h. */
#include "convert/checkpoint/nested.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

/* The models that contain one. Families name theirs, by its model_type. */
static const struct {
    const char *architecture, *model_type;
} nests[] = {
    {"Qwen3_5ForConditionalGeneration", "qwen3_5"},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"},
    {"Gemma3ForConditionalGeneration", "gemma3"},
    {"Gemma4ForConditionalGeneration", "gemma4"},
    {"Mistral3ForConditionalGeneration", "mistral3"},
    {"Lfm2VlForConditionalGeneration", "lfm2_vl"},
    {"Lfm3VlForConditionalGeneration", "lfm3_vl"},
};
enum { N_NESTS = sizeof nests / sizeof nests[0] };

/* Returns the index of the model that config.json names, or N_NESTS. */
static size_t find_nest(const struct json_settings *config)
{
    json_t *list = smol_setting(config, "architectures");
    const char *type = json_string_value(smol_setting(config, "model_type"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        for (size_t nest = 0; name && nest < N_NESTS; nest++)
            if (strcmp(name, nests[nest].architecture) == 0)
                return nest;
    }
    for (size_t nest = 0; !list && type && nest < N_NESTS; nest++)
        if (strcmp(type, nests[nest].model_type) == 0)
            return nest;
    return N_NESTS;
}

smol_status smol_nested_find(const struct json_settings *config, struct json_settings *text,
                             const char **nest)
{
    static const char key[] = "text_config";
    size_t found = find_nest(config);
    *text = *config;
    *nest = NULL;
    if (found == N_NESTS)
        return SMOL_OK;
    json_t *type = smol_setting(config, "model_type"), *object = smol_setting(config, key);
    *nest = nests[found].model_type;
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), *nest) != 0))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "model_type", *nest);
    if (!json_is_object(object))
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s must be an object, the language model's keys", config->path, key);
    text->object = object;
    text->within = "text_config.";
    return SMOL_OK;
}

/* --- tensors ------------------------------------------------------------------------------ */

/* Returns the length of the first of the prefixes, up to NULL, that the name has, or 0. */
static size_t prefix_of(const char *name, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (starts_with(name, *prefixes))
            return strlen(*prefixes);
    return 0;
}

/* Returns the name in the language model. Those of its layers then lack their prefix, which
 * families state. */
static const char *inner_name(const char *name)
{
    static const char *const before[] = {"model.language_model.", "language_model.model.", NULL};
    static const char *const before_output[] = {"language_model.lm_head.", NULL};
    if (prefix_of(name, before_output))
        return name + strlen("language_model.");
    return name + prefix_of(name, before);
}

/* Counts the tensor if it is none of the language model's. */
static bool skips(const struct family *family, const char *nest,
                  const struct safetensors_tensor *tensor, struct skipped_tensors *skipped)
{
    static const char *const vision[] = {"model.visual.",
                                         "model.vision_tower.",
                                         "model.audio_tower.",
                                         "model.embed_vision.",
                                         "model.embed_audio.",
                                         "model.multi_modal_projector.",
                                         "visual.",
                                         "vision_tower.",
                                         "multi_modal_projector.",
                                         NULL};
    static const char *const further[] = {"mtp.", NULL};
    bool sees = nest && prefix_of(tensor->name, vision);
    bool predicts = family->predicts_further && prefix_of(tensor->name, further);
    skipped->n_vision += sees;
    skipped->n_further += predicts;
    if (sees || predicts)
        skipped->bytes += tensor->size;
    return sees || predicts;
}

smol_status smol_nested_strip(const struct family *family, const char *nest,
                              struct safetensors *all, struct skipped_tensors *skipped,
                              smol_error *error)
{
    size_t n = 0;
    *skipped = (struct skipped_tensors){0};
    if (!nest && !family->predicts_further)
        return SMOL_OK;
    for (size_t i = 0; i < all->n_tensors; i++) {
        if (skips(family, nest, &all->tensors[i], skipped))
            continue;
        all->tensors[n] = all->tensors[i];
        if (nest)
            all->tensors[n].name = inner_name(all->tensors[n].name);
        n++;
    }
    all->n_tensors = n;
    return smol_safetensors_index(all, error);
}

bool smol_nested_tell(const struct skipped_tensors *skipped, char text[SKIPPED_TEXT])
{
    const struct {
        size_t n;
        const char *purpose;
    } kinds[] = {{skipped->n_vision, "vision"},
                 {skipped->n_further, "the prediction of further tokens"}};
    int length = 0;
    for (size_t i = 0; i < 2; i++)
        if (kinds[i].n > 0)
            length += snprintf(text + length, SKIPPED_TEXT - (size_t)length, "%s%zu %s of %s",
                               length ? " and " : "", kinds[i].n,
                               kinds[i].n == 1 ? "tensor" : "tensors", kinds[i].purpose);
    if (length)
        snprintf(text + length, SKIPPED_TEXT - (size_t)length, ", %.1f MB",
                 (double)skipped->bytes / 1e6);
    return length > 0;
}
