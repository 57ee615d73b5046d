/* The settings of a LoRA adapter, see lora_settings.h, and the patterns of modules in them. */
#include "convert/checkpoint/lora_settings.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

static bool is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(text, *list) == 0)
            return true;
    return false;
}

static bool is_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

/* Settings for training and other purposes. fan_in_fan_out does not concern linear layers, as in
 * PEFT. */
static const char *const ignored[] = {
    "auto_mapping",        "base_model_name_or_path",
    "ensure_weight_tying", "fan_in_fan_out",
    "inference_mode",      "lora_dropout",
    "megatron_core",       "peft_version",
    "qalora_group_size",   "revision",
    "task_type",           NULL,
};
static const char *const known[] = {
    "alpha_pattern",
    "bias",
    "exclude_modules",
    "init_lora_weights",
    "layers_to_transform",
    "lora_alpha",
    "peft_type",
    "r",
    "rank_pattern",
    "target_modules",
    "target_parameters",
    "use_rslora",
    NULL,
};

static smol_status check_keys(const struct json_settings *file)
{
    const char *key;
    json_t *value;
    json_object_foreach(file->object, key, value)
    {
        if (!is_nothing(value) && !is_one_of(key, ignored) && !is_one_of(key, known))
            return smol_setting_fail(file, SMOL_ERROR_UNSUPPORTED, key, LORA_INSTEAD);
    }
    return SMOL_OK;
}

/* Checks that `key` is absent or has one of the values, a list up to NULL. */
static smol_status check_harmless(const struct json_settings *file, const char *key,
                                  const char *const *choices)
{
    const char *text = choices[0];
    smol_status status = smol_setting_string(file, key, &text);
    if (status || is_one_of(text, choices))
        return status;
    return smol_setting_fail(file, SMOL_ERROR_UNSUPPORTED, key, LORA_INSTEAD);
}

/* Checks init_lora_weights. Some initializations change the base model's weights, even on
 * loading. */
static smol_status check_initialization(const struct json_settings *file)
{
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva", NULL};
    if (json_is_boolean(smol_setting(file, "init_lora_weights")))
        return SMOL_OK;
    return check_harmless(file, "init_lora_weights", harmless);
}

static smol_status read_object(const struct json_settings *file, const char *key, json_t **object)
{
    *object = smol_setting(file, key);
    if (*object && !json_is_object(*object))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, key, "an object");
    return SMOL_OK;
}

/* Returns whether PEFT was older than 0.19.1, which took a stack's outputs for its inputs. The
 * first versions did not write theirs. */
static bool is_old_version(const char *text)
{
    unsigned long parts[3] = {0};
    for (size_t i = 0; i < 3 && text; i++) {
        char *end;
        parts[i] = strtoul(text, &end, 10);
        text = *end == '.' ? end + 1 : NULL;
    }
    return parts[0] == 0 && (parts[1] < 19 || (parts[1] == 19 && parts[2] == 0));
}

/* Reads the parameters that the adapter changes without regard to their modules. */
static smol_status read_parameters(struct lora_settings *s)
{
    const struct json_settings *file = &s->file;
    const char *version = NULL;
    s->parameters = smol_setting(file, "target_parameters");
    if (s->parameters && !json_is_array(s->parameters))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "target_parameters", "a list");
    smol_status status = smol_setting_string(file, "peft_version", &version);
    s->has_version = version;
    s->is_old = is_old_version(version);
    return status;
}

/* Reads the modules that the adapter applies to. target_modules is a list of names or a pattern.
 * PEFT used the pattern to choose the modules that have tensors, so it needs no check. */
static smol_status read_modules(struct lora_settings *s)
{
    const struct json_settings *file = &s->file;
    s->targets = smol_setting(file, "target_modules");
    s->excluded = smol_setting(file, "exclude_modules");
    s->layers = smol_setting(file, "layers_to_transform");
    if (s->targets && !json_is_array(s->targets) && !json_is_string(s->targets))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "target_modules",
                                   "a list or a pattern");
    if (s->excluded && !json_is_array(s->excluded))
        return smol_setting_fail(file, SMOL_ERROR_UNSUPPORTED, "exclude_modules", LORA_INSTEAD);
    if (s->layers && !json_is_array(s->layers) && !json_is_integer(s->layers))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "layers_to_transform",
                                   "a layer or a list of layers");
    return SMOL_OK;
}

smol_status smol_lora_settings_read(const char *folder, struct lora_settings *s, smol_error *error)
{
    static const char *const types[] = {"LORA", NULL}, *const biases[] = {"none", NULL};
    const struct json_settings *file = &s->file;
    s->rank = 8; /* the defaults of PEFT's LoraConfig */
    s->alpha = 8;
    smol_status status = smol_settings_open(folder, "adapter_config.json", true, &s->file, error);
    if (!status)
        status = check_harmless(file, "peft_type", types);
    if (!status)
        status = check_keys(file);
    if (!status)
        status = check_harmless(file, "bias", biases);
    if (!status)
        status = check_initialization(file);
    if (!status)
        status = smol_setting_integer(file, "r", 1, LORA_MAX_RANK, &s->rank);
    if (!status)
        status = smol_setting_real(file, "lora_alpha", -FLT_MAX, FLT_MAX, &s->alpha);
    if (!status)
        status = smol_setting_flag(file, "use_rslora", &s->by_root);
    if (!status)
        status = read_object(file, "rank_pattern", &s->rank_pattern);
    if (!status)
        status = read_object(file, "alpha_pattern", &s->alpha_pattern);
    if (!status)
        status = read_parameters(s);
    return status ? status : read_modules(s);
}

/* ---- patterns ---- */

/* Returns the length of what may stand before a name in a pattern: ^, or the .*\. that PEFT itself
 * writes for experts. */
static size_t count_before(const char *pattern)
{
    static const char any[] = ".*\\.";
    return *pattern == '^' ? 1 : starts_with(pattern, any) ? sizeof any - 1 : 0;
}

/* Returns whether `pattern` matches all of `module` or its end after a dot. A dot in the pattern
 * matches any character, as in a regular expression. A pattern that begins with ^ must match all of
 * `module`, and one that begins with .*\. only its end. */
static bool matches(const char *pattern, const char *module)
{
    size_t before = count_before(pattern);
    pattern += before;
    size_t n = strlen(pattern), length = strlen(module);
    if (n > length || (n == length && before > 1) ||
        (n < length && (before == 1 || module[length - n - 1] != '.')))
        return false;
    for (size_t i = 0; i < n; i++)
        if (pattern[i] != '.' && pattern[i] != module[length - n + i])
            return false;
    return true;
}

static smol_status check_pattern(const struct json_settings *file, const char *key,
                                 const char *pattern)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    size_t start = count_before(pattern);
    if (pattern[start + strspn(pattern + start, plain)] == '\0')
        return SMOL_OK;
    return smol_fail(file->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: %s: \"%.64s\" is more than the end of a module's name, which %s",
                     file->path, key, pattern, LORA_INSTEAD);
}

/* Sets *value to that of the first pattern that matches, or NULL. */
static smol_status look_up(const struct json_settings *file, const char *key, json_t *patterns,
                           const char *module, json_t **value)
{
    const char *pattern;
    json_t *candidate;
    *value = NULL;
    json_object_foreach(patterns, pattern, candidate)
    {
        smol_status status = check_pattern(file, key, pattern);
        if (status)
            return status;
        if (!*value && matches(pattern, module))
            *value = candidate;
    }
    return SMOL_OK;
}

smol_status smol_lora_scale(const struct lora_settings *s, const char *module, double factor,
                            uint64_t rank, float *scale)
{
    const struct json_settings *file = &s->file;
    json_t *own_rank = NULL, *own_alpha = NULL;
    smol_status status = look_up(file, "rank_pattern", s->rank_pattern, module, &own_rank);
    if (!status)
        status = look_up(file, "alpha_pattern", s->alpha_pattern, module, &own_alpha);
    if (status)
        return status;
    if (own_alpha && !json_is_number(own_alpha))
        return smol_setting_expect_item(file, SMOL_ERROR_DAMAGED, "each value of alpha_pattern",
                                        own_alpha, "a number");
    double alpha = own_alpha ? json_number_value(own_alpha) : s->alpha;
    if (own_rank && !json_is_integer(own_rank))
        return smol_setting_expect_item(file, SMOL_ERROR_DAMAGED, "each value of rank_pattern",
                                        own_rank, "an integer");
    json_int_t expected = own_rank ? json_integer_value(own_rank) : (json_int_t)s->rank;
    if (expected <= 0 || (uint64_t)expected != rank)
        return smol_fail(file->error, SMOL_ERROR_DAMAGED,
                         "%s: the rank of %.128s is %lld here, but %" PRIu64 " in its tensors: "
                         "the files belong to different adapters",
                         file->path, module, (long long)expected, rank);
    *scale = (float)(alpha / (s->by_root ? sqrt((double)rank) : (double)rank) * factor);
    if (isfinite(*scale))
        return SMOL_OK;
    return smol_fail(file->error, SMOL_ERROR_DAMAGED,
                     "%s: the scale of %.128s is not a finite number", file->path, module);
}

bool smol_lora_lists(const json_t *list, const char *module)
{
    size_t n = json_array_size(list), length = strlen(module);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        size_t size = name ? strlen(name) : SIZE_MAX;
        if (size <= length && strcmp(module + length - size, name) == 0 &&
            (size == length || module[length - size - 1] == '.'))
            return true;
    }
    return false;
}

/* Returns the layer of a module, or -1. It is the first part of the name that is a number with
 * parts before and after, at least two before, as PEFT finds it. */
static json_int_t layer_of(const char *module)
{
    static const char digits[] = "0123456789";
    size_t n_before = 0;
    for (const char *part = module, *dot; (dot = strchr(part, '.')); part = dot + 1) {
        size_t n = strspn(part, digits);
        if (n_before++ >= 2 && n > 0 && part + n == dot)
            return strtoll(part, NULL, 10);
    }
    return -1;
}

/* Returns whether the module's layer is in the list of layers to transform. Without a list, all
 * layers are. */
static bool is_transformed(const json_t *layers, const char *module)
{
    json_int_t layer = layer_of(module);
    if (!layers || (json_is_array(layers) && json_array_size(layers) == 0))
        return true;
    if (layer < 0)
        return false;
    if (json_is_integer(layers))
        return json_integer_value(layers) == layer;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_is_integer(json_array_get(layers, i)) &&
            json_integer_value(json_array_get(layers, i)) == layer)
            return true;
    return false;
}

smol_status smol_lora_check_target(const struct lora_settings *s, const char *module)
{
    bool is_target = !json_is_array(s->targets) || smol_lora_lists(s->targets, module);
    if (is_target && !smol_lora_lists(s->excluded, module) && is_transformed(s->layers, module))
        return SMOL_OK;
    const char *key = !is_target                          ? "target_modules does not list"
                      : is_transformed(s->layers, module) ? "exclude_modules lists"
                                                          : "layers_to_transform leaves out";
    return smol_fail(s->file.error, SMOL_ERROR_DAMAGED,
                     "%s: %s %.128s, for which there are tensors: the files belong to different "
                     "adapters",
                     s->file.path, key, module);
}
