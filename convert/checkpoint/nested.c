/* Finds the language model in a checkpoint of more, see nested.h. */
#include "convert/checkpoint/nested.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

#define NEST(name, type, ...)                                                                      \
    .architecture = (name "ForConditionalGeneration"), .model_type = (type), .texts = {__VA_ARGS__}
static const struct nest nests[] = {
    {NEST("Qwen3_5", "qwen3_5", "qwen3_5_text")},
    {NEST("Qwen3_5Moe", "qwen3_5_moe", "qwen3_5_moe_text")},
    {NEST("Gemma3", "gemma3", "gemma3_text"), .ties = true},
    {NEST("Gemma4", "gemma4", "gemma4_text"), .ties = true},
    {NEST("Gemma4Unified", "gemma4_unified", "gemma4_unified_text"), .ties = true},
    {NEST("Lfm2Vl", "lfm2_vl", "lfm2"), .ties = true},
    {NEST("Lfm3Vl", "lfm3_vl", "lfm3"), .ties = true},
    {NEST("Mistral3", "mistral3", "mistral", "ministral3"), .ties = true},
    {NEST("Qwen3VL", "qwen3_vl", "qwen3_vl_text")},
    {NEST("Qwen2_5_VL", "qwen2_5_vl", "qwen2_5_vl_text"), .is_flat = true, .inner_ties = true},
    {NEST("Qwen2VL", "qwen2_vl", "qwen2_vl_text"), .is_flat = true, .inner_ties = true},
    {NEST("SmolVLM", "smolvlm", "llama")},
    {NEST("Idefics3", "idefics3", "llama")},
    {NEST("InternVL", "internvl", "qwen2", "qwen3"), .ties = true},
    {NEST("Llava", "llava", "llama", "qwen2", "mistral"), .inner_ties = true},
    {NEST("LlavaNext", "llava_next", "llama", "mistral")},
    {NEST("LlavaOnevision", "llava_onevision", "qwen2"), .inner_ties = true},
    {NEST("GraniteDocling", "granite_docling", "granite_docling_text"), .ties = true},
    {NEST("Granite4Vision", "granite4_vision", "granite4_vision_text")},
    {NEST("MiniCPMV4_6", "minicpmv4_6", "qwen3_5_text")},
    {NEST("MiniCPMV4_7", "minicpmv4_7", "qwen3_5_text")},
    {NEST("Exaone4_5_", "exaone4_5", "exaone4"), .old_text = "exaone4_5_text"},
};
enum { N_NESTS = sizeof nests / sizeof nests[0] };

/* Returns the model that config.json names, or NULL if that contains no other. */
static const struct nest *find_nest(const struct json_settings *config)
{
    json_t *list = smol_setting(config, "architectures");
    const char *type = json_string_value(smol_setting(config, "model_type"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        for (size_t nest = 0; name && nest < N_NESTS; nest++)
            if (strcmp(name, nests[nest].architecture) == 0)
                return &nests[nest];
    }
    for (size_t nest = 0; !list && type && nest < N_NESTS; nest++)
        if (strcmp(type, nests[nest].model_type) == 0)
            return &nests[nest];
    return NULL;
}

smol_status smol_nested_find(const struct json_settings *config, struct json_settings *text,
                             const struct nest **found)
{
    static const char key[] = "text_config";
    const struct nest *nest = find_nest(config);
    *text = *config;
    *found = nest;
    if (!nest)
        return SMOL_OK;
    json_t *type = smol_setting(config, "model_type"), *object = smol_setting(config, key);
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), nest->model_type) != 0))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "model_type", nest->model_type);
    if (!object && nest->is_flat)
        return SMOL_OK;
    if (!json_is_object(object))
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s must be an object, the language model's keys", config->path, key);
    text->object = object;
    text->within = "text_config.";
    return SMOL_OK;
}

/* Returns whether a text_config's model_type is a name for the first kind of model. */
static bool is_first(const struct nest *nest, const char *type)
{
    return !type || strcmp(type, nest->model_type) == 0 ||
           (nest->old_text && strcmp(type, nest->old_text) == 0);
}

smol_status smol_nested_family(const struct json_settings *text, const struct nest *nest,
                               const struct family **family)
{
    char known[FAMILY_REMEDY];
    const char *type = NULL;
    smol_status status = smol_setting_string(text, "model_type", &type);
    if (status)
        return status;
    type = is_first(nest, type) ? nest->texts[0] : type;
    *family = smol_family_by_model_type(type);
    for (size_t i = 0; i < NEST_MAX_TEXTS && nest->texts[i]; i++)
        if (strcmp(type, nest->texts[i]) == 0)
            return SMOL_OK;
    return smol_setting_fail(text, SMOL_ERROR_UNSUPPORTED, "model_type",
                             *family ? "not supported within this kind of model"
                                     : smol_family_remedy(NULL, known));
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
    static const char *const before[] = {"model.language_model.", "language_model.model.",
                                         "model.text_model.", NULL};
    static const char *const before_output[] = {"language_model.lm_head.", NULL};
    if (prefix_of(name, before_output))
        return name + strlen("language_model.");
    return name + prefix_of(name, before);
}

/* Counts the tensor, and returns true, if it is none of the language model's. */
static bool skip(const struct family *family, bool nested, const struct safetensors_tensor *tensor,
                 struct skipped_tensors *skipped)
{
    static const char *const vision[] = {"visual.",
                                         "embed_vision.",
                                         "vision_embedder.",
                                         "vision_tower.",
                                         "vision_model.",
                                         "multi_modal_projector.",
                                         "connector.",
                                         "merger.",
                                         "density_router.",
                                         "image_newline",
                                         "layerwise_projectors.",
                                         "spatial_projectors.",
                                         NULL};
    static const char *const audio[] = {"audio_tower.", "embed_audio.", NULL};
    static const char *const further[] = {"mtp.", NULL};
    const char *name = tensor->name;
    const char *place = starts_with(name, "model.") ? name + strlen("model.") : name;
    bool sees = nested && prefix_of(place, vision), hears = nested && prefix_of(place, audio);
    bool predicts = (nested || family->predicts_further) && prefix_of(name, further);
    bool skips = sees || hears || predicts;
    skipped->n_vision += sees;
    skipped->n_audio += hears;
    skipped->n_further += predicts;
    skipped->bytes += skips ? tensor->size : 0;
    return skips;
}

smol_status smol_nested_strip(const struct family *family, bool nested, struct safetensors *all,
                              struct skipped_tensors *skipped, smol_error *error)
{
    size_t n = 0;
    *skipped = (struct skipped_tensors){0};
    if (!nested && !family->predicts_further)
        return SMOL_OK;
    for (size_t i = 0; i < all->n_tensors; i++) {
        if (skip(family, nested, &all->tensors[i], skipped))
            continue;
        all->tensors[n] = all->tensors[i];
        if (nested)
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
                 {skipped->n_audio, "audio"},
                 {skipped->n_further, "the prediction of further tokens"}};
    int length = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].n > 0)
            length += snprintf(text + length, SKIPPED_TEXT - (size_t)length, "%s%zu %s of %s",
                               length ? " and " : "", kinds[i].n,
                               kinds[i].n == 1 ? "tensor" : "tensors", kinds[i].purpose);
    if (length)
        snprintf(text + length, SKIPPED_TEXT - (size_t)length, ", %.1f MB",
                 (double)skipped->bytes / 1e6);
    return length > 0;
}
