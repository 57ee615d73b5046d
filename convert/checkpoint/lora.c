/* Opens an adapter, see lora.h. Its tensors determine which matrices it changes. */
#include "convert/checkpoint/lora.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/text.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/hub.h"
#include "convert/checkpoint/lora_settings.h"
#include "convert/checkpoint/tensor.h"
#include "format/layout.h"

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
    const char *place;            /* of the language model in that of the adapter, or NULL */
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

static const char outer[] = "model.";

/* Returns what the adapter's names have instead of `outer` if they are those of a model that
 * contains the language model, otherwise NULL. */
static const char *place_of(const struct safetensors *weights)
{
    static const char before[] = "base_model.model.";
    static const char *const places[] = {"model.language_model.", "model.text_model."};
    for (size_t i = 0; i < weights->n_tensors; i++) {
        const char *name = weights->tensors[i].name;
        for (size_t k = 0; k < 2 && starts_with(name, before); k++)
            if (starts_with(name + sizeof before - 1, places[k]))
                return places[k];
    }
    return NULL;
}

/* Sets search->module to the adapter's form of the first n bytes of a name. */
static void set_module(struct pair_search *search, const char *name, size_t n)
{
    bool moves = search->place && n >= sizeof outer && strncmp(name, outer, sizeof outer - 1) == 0;
    size_t skipped = moves ? sizeof outer - 1 : 0;
    snprintf(search->module, sizeof search->module, "%s%.*s", moves ? search->place : "",
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
        status = smol_lora_scale(search->settings, search->target, lora->factor, pair->rank,
                                 &pair->scale);
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
                     search->lora->path, copy->name, LORA_INSTEAD);
}

/* Finds the change of the weight of search->module, as of a module or, of a router, which is none
 * in transformers 5, as of a parameter. */
static smol_status find_pair(struct pair_search *search, const struct safetensors_tensor *base,
                             enum tensor_role role, struct lora_pair *pair)
{
    const struct lora_settings *settings = search->settings;
    snprintf(search->target, sizeof search->target, "%s.weight", search->module);
    bool is_parameter = smol_lora_lists(settings->parameters, search->target);
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
                         settings->file.path, search->target, LORA_INSTEAD);
    if (!is_parameter)
        status = smol_lora_check_target(settings, search->module);
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
    return end && smol_lora_lists(search->settings->parameters, search->target);
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
                         settings->file.path, search->target, LORA_INSTEAD);
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
        smol_lora_lists(search->settings->parameters, search->target))
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
                     LORA_INSTEAD);
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
    return *folder ? SMOL_OK : smol_fail_memory(error, "a file name");
}

/* Sets lora->path. If the file is missing and *folder is one of the Hub's cache, *folder becomes
 * that of its snapshot. */
static smol_status find_weights(struct lora *lora, char **folder, smol_error *error)
{
    static const char name[] = "adapter_model.safetensors";
    char *snapshot = NULL;
    lora->path = smol_path_join(*folder, name);
    smol_status status = SMOL_OK;
    if (lora->path && smol_is_missing(lora->path))
        status = smol_hub_snapshot(*folder, &snapshot, error);
    if (snapshot) {
        free(*folder);
        free(lora->path);
        *folder = snapshot;
        lora->path = smol_path_join(*folder, name);
    }
    return status || lora->path ? status : smol_fail_memory(error, "a file name");
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
    search.place = place_of(&lora->weights);
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
        status = find_weights(lora, &folder, error);
    if (!status)
        status = smol_lora_settings_read(folder, &settings, error);
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
