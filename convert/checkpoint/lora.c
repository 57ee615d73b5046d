/* Opens and merges an adapter, see lora.h. Its tensors determine which matrices it changes.
 * Settings that affect the meaning of the tensors are read, and settings without effect are
 * ignored. Any other setting is refused, because it may change the result. */
#include "convert/checkpoint/lora.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/tensor.h"
#include "format/layout.h"

static const char instead[] = "is not supported: merge the adapter with PEFT, save the model and "
                              "convert that";

/* ---- settings ---- */

struct lora_settings {
    struct json_settings file;
    uint32_t rank;
    double alpha;
    uint32_t by_root; /* use_rslora */
    json_t *rank_pattern, *alpha_pattern, *targets, *excluded, *layers, *parameters;
    bool has_version, is_old; /* old: stacked experts' inputs were taken for outputs */
};

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
            return smol_setting_fail(file, SMOL_ERROR_UNSUPPORTED, key, value, instead);
    }
    return SMOL_OK;
}

static smol_status check_choice(const struct json_settings *file, const char *key,
                                const char *const *choices)
{
    const char *text = choices[0];
    smol_status status = smol_setting_string(file, key, &text);
    if (status || is_one_of(text, choices))
        return status;
    return smol_setting_fail(file, SMOL_ERROR_UNSUPPORTED, key, smol_setting(file, key), instead);
}

/* Checks init_lora_weights. Some initializations change the base model's weights, even on
 * loading. */
static smol_status check_beginning(const struct json_settings *file)
{
    static const char *const harmless[] = {"gaussian", "orthogonal", "eva", NULL};
    if (json_is_boolean(smol_setting(file, "init_lora_weights")))
        return SMOL_OK;
    return check_choice(file, "init_lora_weights", harmless);
}

static smol_status read_object(const struct json_settings *file, const char *key, json_t **object)
{
    *object = smol_setting(file, key);
    if (*object && !json_is_object(*object))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, key, *object, "an object");
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
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "target_parameters", s->parameters,
                                   "a list");
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
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "target_modules", s->targets,
                                   "a list or a pattern");
    if (s->excluded && !json_is_array(s->excluded))
        return smol_setting_fail(file, SMOL_ERROR_UNSUPPORTED, "exclude_modules", s->excluded,
                                 instead);
    if (s->layers && !json_is_array(s->layers) && !json_is_integer(s->layers))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "layers_to_transform", s->layers,
                                   "a layer or a list of layers");
    return SMOL_OK;
}

static smol_status read_settings(const char *folder, struct lora_settings *s, smol_error *error)
{
    static const char *const types[] = {"LORA", NULL}, *const biases[] = {"none", NULL};
    const struct json_settings *file = &s->file;
    s->rank = 8; /* the defaults of PEFT's LoraConfig */
    s->alpha = 8;
    smol_status status = smol_settings_open(folder, "adapter_config.json", true, &s->file, error);
    if (!status)
        status = check_choice(file, "peft_type", types);
    if (!status)
        status = check_keys(file);
    if (!status)
        status = check_choice(file, "bias", biases);
    if (!status)
        status = check_beginning(file);
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
    return *pattern == '^' ? 1 : strncmp(pattern, any, sizeof any - 1) == 0 ? sizeof any - 1 : 0;
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
                     file->path, key, pattern, instead);
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

/* Computes the scale as PEFT does: in double, rounded when it meets an f32 tensor. */
static smol_status find_scale(const struct lora_settings *s, const char *module, double factor,
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
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "each value of alpha_pattern",
                                   own_alpha, "a number");
    double alpha = own_alpha ? json_number_value(own_alpha) : s->alpha;
    if (own_rank && !json_is_integer(own_rank))
        return smol_setting_expect(file, SMOL_ERROR_DAMAGED, "each value of rank_pattern", own_rank,
                                   "an integer");
    json_int_t due = own_rank ? json_integer_value(own_rank) : (json_int_t)s->rank;
    if (due <= 0 || (uint64_t)due != rank)
        return smol_fail(file->error, SMOL_ERROR_DAMAGED,
                         "%s: the rank of %.128s is %lld here, but %" PRIu64 " in its tensors: "
                         "the files belong to different adapters",
                         file->path, module, (long long)due, rank);
    *scale = (float)(alpha / (s->by_root ? sqrt((double)rank) : (double)rank) * factor);
    if (isfinite(*scale))
        return SMOL_OK;
    return smol_fail(file->error, SMOL_ERROR_DAMAGED,
                     "%s: the scale of %.128s is not a finite number", file->path, module);
}

/* Returns whether a name in the list is that of the module, or its end after a dot. */
static bool is_listed(const json_t *list, const char *module)
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

/* Returns whether the module's layer is in the list of layers to transform. Without a list, all
 * layers are. */
static bool is_transformed(const json_t *layers, const char *module)
{
    static const char before[] = ".layers.";
    const char *found = strstr(module, before);
    if (!layers || (json_is_array(layers) && json_array_size(layers) == 0))
        return true;
    if (!found)
        return false;
    json_int_t layer = strtoll(found + sizeof before - 1, NULL, 10);
    if (json_is_integer(layers))
        return json_integer_value(layers) == layer;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_is_integer(json_array_get(layers, i)) &&
            json_integer_value(json_array_get(layers, i)) == layer)
            return true;
    return false;
}

/* Refuses a module that PEFT would skip on loading. */
static smol_status check_target(const struct lora_settings *s, const char *module)
{
    bool is_target = !json_is_array(s->targets) || is_listed(s->targets, module);
    if (is_target && !is_listed(s->excluded, module) && is_transformed(s->layers, module))
        return SMOL_OK;
    const char *key = !is_target                          ? "target_modules does not list"
                      : is_transformed(s->layers, module) ? "exclude_modules lists"
                                                          : "layers_to_transform leaves out";
    return smol_fail(s->file.error, SMOL_ERROR_DAMAGED,
                     "%s: %s %.128s, for which there are tensors: the files belong to different "
                     "adapters",
                     s->file.path, key, module);
}

/* ---- tensors ---- */

enum { MAX_MODULE = MAX_CHECKPOINT_NAME };

static smol_status check_half(const struct lora *lora, const struct safetensors_tensor *half,
                              uint64_t rows, uint64_t cols, smol_error *error)
{
    if (!smol_element_is_weight(half->dtype))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tensor %.200s has type %s: expected a float", lora->path, half->name,
                         smol_element_name(half->dtype));
    if (half->rank == 2 && half->shape[0] == rows && half->shape[1] == cols)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: tensor %.200s has a shape other than the [%" PRIu64 ", %" PRIu64
                     "] that this model and rank call for: the adapter may belong to another model",
                     lora->path, half->name, rows, cols);
}

/* Returns whether two tensors of the same shape hold the same numbers. */
static bool same_numbers(const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
    enum { STRIP = 1024 };
    float left[STRIP], right[STRIP];
    uint64_t n = a->shape[0] * a->shape[1];
    for (uint64_t i = 0; i < n; i += STRIP) {
        uint64_t width = n - i < STRIP ? n - i : STRIP;
        tensor_widen(a, i, width, left);
        tensor_widen(b, i, width, right);
        if (memcmp(left, right, width * sizeof *left) != 0)
            return false;
    }
    return true;
}

/* A search for the adapter's tensors of a module or parameter. */
struct pair_search {
    struct lora *lora;
    const struct lora_settings *settings;
    const struct blob_model *model;
    bool *used;                   /* (n_tensors): the adapter's tensors that were found */
    bool is_nested;               /* the adapter is of a model that contains the language model */
    char module[MAX_MODULE + 16]; /* the adapter's tensors have its name */
    char target[MAX_MODULE + 32]; /* the module or parameter that settings name */
    struct lora_pair stacks[2];   /* of a layer's experts: of gates and ups, and of downs */
};

static const struct safetensors_tensor *find_of(struct pair_search *search, const char *what)
{
    char name[MAX_MODULE + 96];
    const struct safetensors *weights = &search->lora->weights;
    snprintf(name, sizeof name, "base_model.model.%s.%s", search->module, what);
    const struct safetensors_tensor *found = smol_safetensors_find(weights, name);
    if (found)
        search->used[found - weights->tensors] = true;
    return found;
}

static const char outer[] = "model.", inner[] = "model.language_model.";

/* Returns whether the adapter's names are those of a model that contains the language model. */
static bool is_nested(const struct safetensors *weights)
{
    static const char before[] = "base_model.model.";
    size_t n = sizeof before - 1;
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const char *name = weights->tensors[i].name;
        if (strncmp(name, before, n) == 0 && strncmp(name + n, inner, sizeof inner - 1) == 0)
            return true;
    }
    return false;
}

/* Sets search->module to the adapter's form of the first n bytes of a name. */
static void set_module(struct pair_search *search, const char *name, size_t n)
{
    bool moves =
        search->is_nested && n >= sizeof outer && strncmp(name, outer, sizeof outer - 1) == 0;
    size_t skipped = moves ? sizeof outer - 1 : 0;
    snprintf(search->module, sizeof search->module, "%s%.*s", moves ? inner : "",
             (int)(n - skipped), name + skipped);
}

/* Finds the halves of the change of `n` stacked matrices (rows, cols), and their scale. Without
 * them, pair->a is NULL. */
static smol_status find_halves(struct pair_search *search, uint64_t n, uint64_t rows, uint64_t cols,
                               struct lora_pair *pair)
{
    smol_error *error = search->settings->file.error;
    const struct lora *lora = search->lora;
    *pair = (struct lora_pair){.n = n};
    pair->a = find_of(search, "lora_A.weight");
    pair->b = find_of(search, "lora_B.weight");
    if (!pair->a && !pair->b)
        return SMOL_OK;
    if (!pair->a || !pair->b)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: %.128s has only one of lora_A and lora_B",
                         lora->path, search->module);
    pair->rank = pair->a->rank == 2 ? pair->a->shape[0] / n : 0;
    smol_status status = check_half(lora, pair->a, pair->rank * n, cols, error);
    if (!status)
        status = check_half(lora, pair->b, rows, pair->rank * n, error);
    if (!status)
        status =
            find_scale(search->settings, search->target, lora->factor, pair->rank, &pair->scale);
    return status;
}

/* Checks the copy of the base weights that PEFT saves with the adapter if the output is a target.
 * PEFT restores it on loading, so it must not differ. */
static smol_status check_copy(struct pair_search *search, const struct safetensors_tensor *base)
{
    smol_error *error = search->settings->file.error;
    const struct safetensors_tensor *copy = find_of(search, "base_layer.weight");
    smol_status status =
        copy ? check_half(search->lora, copy, base->shape[0], base->shape[1], error) : SMOL_OK;
    if (status || !copy || same_numbers(copy, base))
        return status;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: tensor %.200s differs from the checkpoint's, which %s",
                     search->lora->path, copy->name, instead);
}

/* Finds the change of the weight of search->module, as of a module or, of a router, which is none
 * in transformers 5, as of a parameter. */
static smol_status find_pair(struct pair_search *search, const struct safetensors_tensor *base,
                             enum tensor_role role, struct lora_pair *pair)
{
    const struct lora_settings *settings = search->settings;
    snprintf(search->target, sizeof search->target, "%s.weight", search->module);
    bool is_parameter = is_listed(settings->parameters, search->target);
    if (!is_parameter)
        memcpy(search->target, search->module, sizeof search->module);
    smol_status status = find_halves(search, 1, base->whole ? base->whole_rows : base->shape[0],
                                     base->swaps ? base->run : base->shape[1], pair);
    if (status || !pair->a)
        return status;
    if (is_parameter && role != ROLE_ROUTER)
        return smol_fail(settings->file.error, SMOL_ERROR_UNSUPPORTED,
                         "%s: target_parameters lists %.128s, which is neither a router nor "
                         "experts, and %s",
                         settings->file.path, search->target, instead);
    if (!is_parameter)
        status = check_target(settings, search->module);
    return status ? status : check_copy(search, base);
}

static smol_status fail_incomplete(const struct pair_search *search)
{
    return smol_fail(search->settings->file.error, SMOL_ERROR_DAMAGED,
                     "%s: target_parameters lists %.128s, for which there are no tensors: the "
                     "files belong to different adapters, or are incomplete",
                     search->settings->file.path, search->target);
}

/* ---- experts ---- */

static const char *const stack_names[] = {"gate_up_proj", "down_proj"};

/* Sets search->target to a parameter of the layer's experts, of which `base` is a matrix, and
 * returns whether it is a target. Its name is what transformers calls it, whatever the checkpoint
 * does. */
static bool name_stack(struct pair_search *search, const struct safetensors_tensor *base,
                       bool is_down)
{
    static const char experts[] = ".experts";
    const char *end = strstr(base->name, experts);
    size_t n = end ? (size_t)(end - base->name) + sizeof experts - 1 : 0;
    set_module(search, base->name, n);
    snprintf(search->target, sizeof search->target, "%s.%s", search->module, stack_names[is_down]);
    return end && is_listed(search->settings->parameters, search->target);
}

/* Finds the change of a stack, of whose first expert `base` is a matrix. PEFT wraps the experts of
 * a layer once for each stack that is a target, in their order, and an inner wrapper's tensors have
 * "base_layer" in their names. */
static smol_status find_stack(struct pair_search *search, const struct safetensors_tensor *base,
                              bool is_down, struct lora_pair *stack)
{
    static const char wrapped[] = ".base_layer";
    const struct lora_settings *settings = search->settings;
    *stack = (struct lora_pair){0};
    bool is_inner = !is_down && name_stack(search, base, true);
    if (!name_stack(search, base, is_down))
        return SMOL_OK;
    uint64_t rows = base->shape[0] * (is_down ? 1 : 2), cols = base->shape[1];
    if (settings->is_old && !settings->has_version && rows == cols)
        return smol_fail(settings->file.error, SMOL_ERROR_UNSUPPORTED,
                         "%s: target_parameters lists %.128s, which has as many inputs as outputs, "
                         "and there is no peft_version: whether it is below 0.19.1 cannot be told, "
                         "and its change %s",
                         settings->file.path, search->target, instead);
    size_t length = strlen(search->module);
    if (is_inner && length + sizeof wrapped <= sizeof search->module)
        memcpy(search->module + length, wrapped, sizeof wrapped);
    bool swaps = settings->is_old;
    smol_status status = find_halves(search, search->model->experts.n_experts, swaps ? cols : rows,
                                     swaps ? rows : cols, stack);
    stack->swaps = swaps;
    if (status || stack->a)
        return status;
    return fail_incomplete(search);
}

/* Finds the change of an expert's matrix as a part of its stack. *pair is that of the matrix
 * itself. */
static smol_status find_in_stack(struct pair_search *search, const struct safetensors_tensor *base,
                                 struct tensor_key key, struct lora_pair *pair)
{
    bool is_down = key.role == ROLE_EXPERT_DOWN;
    struct lora_pair *stack = &search->stacks[is_down];
    smol_status status = SMOL_OK;
    if (key.expert == 0 && key.role != ROLE_EXPERT_UP)
        status = find_stack(search, base, is_down, stack);
    if (status || !stack->a)
        return status;
    if (pair->a)
        return smol_fail(search->settings->file.error, SMOL_ERROR_DAMAGED,
                         "%s: changes %.128s twice: alone, and among all experts",
                         search->lora->path, base->name);
    *pair = *stack;
    pair->index = key.expert;
    pair->first_row = key.role == ROLE_EXPERT_UP ? base->shape[0] : 0;
    return SMOL_OK;
}

/* ---- the search ---- */

/* Sets search->module to the module that has `base`, or the tensor it is a part of, as its weight.
 * Returns false if there is none. */
static bool name_module(struct pair_search *search, const struct safetensors_tensor *base)
{
    static const char end[] = ".weight";
    const char *name = base->whole ? base->whole : base->name;
    size_t length = strlen(name), n = length - (sizeof end - 1);
    if (base->rank != 2 || length < sizeof end || n >= MAX_MODULE || strcmp(name + n, end) != 0)
        return false;
    set_module(search, name, n);
    return true;
}

/* Drops the end of a router's name that published Granites have, but not transformers. */
static bool rename_router(struct pair_search *search, enum tensor_role role)
{
    static const char end[] = ".layer";
    size_t length = strlen(search->module), n = length - (sizeof end - 1);
    if (role != ROLE_ROUTER || length < sizeof end || strcmp(search->module + n, end) != 0)
        return false;
    search->module[n] = '\0';
    return true;
}

static smol_status find_change(struct pair_search *search, const struct safetensors_tensor *base,
                               struct tensor_key key, struct lora_pair *pair)
{
    if (!name_module(search, base))
        return SMOL_OK;
    smol_status status = find_pair(search, base, key.role, pair);
    if (!status && !pair->a && rename_router(search, key.role))
        status = find_pair(search, base, key.role, pair);
    if (!status && !pair->a && key.role == ROLE_ROUTER &&
        is_listed(search->settings->parameters, search->target))
        status = fail_incomplete(search);
    if (!status && smol_role_is_per_expert(key.role))
        status = find_in_stack(search, base, key, pair);
    return status;
}

static smol_status fail_unused(const struct lora *lora, const char *name, smol_error *error)
{
    if (strstr(name, ".lora_A.") || strstr(name, ".lora_B.") || strstr(name, ".base_layer."))
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: tensor %.200s changes no matrix that this model has (a tied output does "
            "not count): the adapter may belong to another model",
            lora->path, name);
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "%s: tensor %.200s %s", lora->path, name,
                     instead);
}

static smol_status find_pairs(struct pair_search *search,
                              const struct safetensors_tensor *const *tensors)
{
    const struct safetensors *weights = &search->lora->weights;
    struct tensor_key key = {0};
    /* The first is the embedding, which is looked up, not multiplied. */
    for (size_t i = 1; smol_tensor_next(search->model, &key); i++) {
        smol_status status = SMOL_OK;
        if (tensors[i])
            status = find_change(search, tensors[i], key, &search->lora->pairs[i]);
        if (status)
            return status;
    }
    for (size_t i = 0; i < weights->n_tensors; i++)
        if (!search->used[i])
            return fail_unused(search->lora, weights->tensors[i].name,
                               search->settings->file.error);
    if (weights->n_tensors > 0)
        return SMOL_OK;
    return smol_fail(search->settings->file.error, SMOL_ERROR_DAMAGED,
                     "%s: empty: the adapter would change nothing", search->lora->path);
}

/* ---- opening ---- */

static bool parse_factor(const char *text, double *factor)
{
    char *end;
    if (*text == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    double number = strtod(text, &end);
    if (*end != '\0' || !isfinite(number))
        return false;
    *factor = number;
    return true;
}

/* Splits FOLDER:FACTOR, unless a folder has that whole name. */
static smol_status split_words(const char *words, struct lora *lora, char **folder,
                               smol_error *error)
{
    const char *colon = strrchr(words, ':');
    lora->factor = 1;
    bool split = colon && !smol_is_folder(words) && parse_factor(colon + 1, &lora->factor);
    *folder = split ? strndup(words, (size_t)(colon - words)) : strdup(words);
    if (*folder)
        lora->path = smol_path_join(*folder, "adapter_model.safetensors");
    return lora->path ? SMOL_OK : smol_fail_memory(error, "a file name");
}

static smol_status open_weights(struct lora *lora, const struct lora_settings *s,
                                const struct blob_model *model,
                                const struct safetensors_tensor *const *tensors, smol_error *error)
{
    smol_status status = smol_safetensors_open(lora->path, &lora->weights, error);
    if (status)
        return status;
    struct pair_search search = {.lora = lora, .settings = s, .model = model};
    search.used = calloc(lora->weights.n_tensors + 1, sizeof *search.used);
    lora->pairs = calloc(smol_tensor_count(model), sizeof *lora->pairs);
    search.is_nested = is_nested(&lora->weights);
    status = search.used && lora->pairs ? find_pairs(&search, tensors)
                                        : smol_fail_memory(error, "the adapter's matrices");
    free(search.used);
    return file_settle(&lora->weights.file, lora->path, status, error);
}

smol_status smol_lora_open(const char *words, const struct blob_model *model,
                           const struct safetensors_tensor *const *tensors, struct lora *lora,
                           smol_error *error)
{
    struct lora_settings settings = {0};
    char *folder = NULL;
    *lora = (struct lora){0};
    smol_status status = split_words(words, lora, &folder, error);
    if (!status)
        status = read_settings(folder, &settings, error);
    lora->config_mark = settings.file.mark;
    if (!status)
        status = open_weights(lora, &settings, model, tensors, error);
    smol_settings_close(&settings.file);
    free(folder);
    if (status)
        smol_lora_close(lora);
    return status;
}

void smol_lora_close(struct lora *lora)
{
    smol_safetensors_close(&lora->weights);
    free(lora->pairs);
    free(lora->path);
    *lora = (struct lora){0};
}

/* ---- merging ---- */

enum { MERGED_STRIP = 256 }; /* columns whose sums fit the first-level cache */

/* Computes sums (n, width): rows [row, row + n) of `base` and columns [col, col + width) of B A. */
static void add_products(const struct lora_pair *pair, const struct safetensors_tensor *base,
                         uint64_t row, uint64_t n, uint64_t col, uint64_t width,
                         double (*sums)[MERGED_STRIP])
{
    uint64_t rank = pair->rank, cols = pair->a->shape[1];
    float a[MERGED_STRIP], b;
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t k = 0; k < rank; k++) {
        tensor_widen(pair->a, (pair->index * rank + k) * cols + col, width, a);
        for (uint64_t r = 0; r < n; r++) {
            uint64_t output = pair->first_row + base->first_row + tensor_output(base, row + r);
            tensor_widen(pair->b, (output * rank + k) * pair->n + pair->index, 1, &b);
            for (uint64_t c = 0; c < width; c++)
                sums[r][c] += (double)b * (double)a[c];
        }
    }
}

/* Does the same where rows are inputs: of the whole that a base is a part of, or as old versions of
 * PEFT have stacks of experts. */
static void add_swapped(const struct lora_pair *pair, const struct safetensors_tensor *base,
                        uint64_t row, uint64_t n, uint64_t col, uint64_t width,
                        double (*sums)[MERGED_STRIP])
{
    uint64_t rank = pair->rank, inputs = pair->a->shape[1];
    float a, b[MERGED_STRIP];
    memset(sums, 0, n * sizeof *sums);
    for (uint64_t k = 0; k < rank; k++)
        for (uint64_t r = 0; r < n; r++) {
            uint64_t input = pair->first_row + row + r, output = col;
            bool is_next = r == 0;
            if (base->swaps) {
                output += base->first_row + input / inputs * (base->run_step / base->col_step);
                input %= inputs;
                is_next = is_next || input == 0; /* of another run */
            }
            for (uint64_t c = 0; is_next && c < width; c++)
                tensor_widen(pair->b, ((output + c) * rank + k) * pair->n + pair->index, 1, &b[c]);
            tensor_widen(pair->a, (pair->index * rank + k) * inputs + input, 1, &a);
            for (uint64_t c = 0; c < width; c++)
                sums[r][c] += (double)b[c] * (double)a;
        }
}

void smol_lora_merge(const struct lora_pair *pair, const struct safetensors_tensor *base,
                     uint64_t row, uint64_t n, float *out)
{
    uint64_t cols = base->shape[1];
    double sums[TILE_ROWS][MERGED_STRIP];
    tensor_widen(base, row * cols, n * cols, out);
    for (uint64_t col = 0; col < cols; col += MERGED_STRIP) {
        uint64_t width = cols - col < MERGED_STRIP ? cols - col : MERGED_STRIP;
        (base->swaps || pair->swaps ? add_swapped : add_products)(pair, base, row, n, col, width,
                                                                  sums);
        for (uint64_t r = 0; r < n; r++)
            for (uint64_t c = 0; c < width; c++) {
                float delta = (float)sums[r][c] * pair->scale;
                out[r * cols + col + c] += delta;
            }
    }
}
