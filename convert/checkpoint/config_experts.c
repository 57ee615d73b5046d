/* Mixtures of experts, see config_model.h. */
#include <float.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"
#include "format/model.h"

/* Reads what becomes of scores. */
static smol_status read_weighing(const struct json_settings *config,
                                 const struct family_experts *family, struct blob_experts *experts)
{
    double scale = 1;
    smol_status status = smol_config_read_flag(config, &family->normalizes, &experts->normalizes);
    if (!status)
        status = smol_config_read_flag(config, &family->choice_bias, &experts->choice_bias);
    if (!status && family->scale.key) {
        scale = family->scale.fallback;
        status = smol_setting_fraction(config, family->scale.key, FLT_MIN, FLT_MAX, &scale);
    }
    experts->scale = (float)scale;
    experts->sum_epsilon = experts->normalizes ? family->sum_epsilon : 0;
    return status;
}

/* Reads the number of experts, which has two keys in some families. Which one wins depends on the
 * reference's release, so they must agree. */
static smol_status read_n(const struct json_settings *config, const struct family_experts *family,
                          uint32_t *n)
{
    json_t *first = smol_setting(config, family->n.key);
    json_t *second = family->n_alias ? smol_setting(config, family->n_alias) : NULL;
    *n = family->n.fallback;
    if (first && second && !json_equal(first, second))
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s and %s differ: correct one of them", config->path, family->n.key,
                         family->n_alias);
    smol_status status = smol_setting_integer(config, family->n.key, family->may_be_none ? 0 : 1,
                                              MODEL_MAX_EXPERTS, n);
    if (!status && family->n_alias)
        status = smol_setting_integer(config, family->n_alias, 1, MODEL_MAX_EXPERTS, n);
    return status;
}

static smol_status read_count(const struct json_settings *config, const struct family_count *count,
                              uint32_t min, uint32_t *value)
{
    if (!count->key)
        return SMOL_OK;
    *value = count->fallback;
    return smol_setting_integer(config, count->key, min, MODEL_MAX_INTERMEDIATE, value);
}

static smol_status read_numbers(const struct json_settings *config, const struct config *result,
                                struct blob_experts *experts)
{
    const struct family_experts *family = &result->family->experts;
    experts->n_used = family->n_used;
    experts->width = result->model.intermediate_size;
    experts->scoring = family->scoring;
    smol_status status = read_n(config, family, &experts->n_experts);
    if (status || experts->n_experts == 0) /* the other keys have no effect */
        return status;
    const char *used = family->used_key ? family->used_key : "num_experts_per_tok";
    status = smol_setting_integer(config, used, 1, MODEL_MAX_EXPERTS, &experts->n_used);
    if (!status && experts->n_used > experts->n_experts)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s %u is above the number of experts, %u: correct one of them",
                         config->path, used, experts->n_used, experts->n_experts);
    if (!status)
        status = read_count(config, &family->width, 1, &experts->width);
    if (!status)
        status = read_count(config, &family->shared_width,
                            family->gates_shared || family->needs_shared, &experts->shared_width);
    experts->shared_gate = family->gates_shared;
    experts->own_norms = family->has_own_norms;
    if (family->has_own_norms)
        experts->shared_width = result->model.intermediate_size;
    return status ? status : read_weighing(config, family, experts);
}

static smol_status read_clip(const struct json_settings *config, const char *key, float *clip)
{
    double value = 0;
    if (!key)
        return SMOL_OK;
    smol_status status = smol_setting_fraction(config, key, FLT_MIN, FLT_MAX, &value);
    *clip = (float)value;
    return status;
}

/* Reads which layers have one MLP instead: those that mlp_only_layers lists, where other numbers
 * have no effect, and all but every decoder_sparse_step-th. */
static smol_status read_dense(const struct json_settings *config, uint32_t n_layers,
                              struct blob_experts *experts)
{
    uint32_t step = 1;
    json_t *list = smol_setting(config, "mlp_only_layers");
    smol_status status = smol_setting_integer(config, "decoder_sparse_step", 1, UINT32_MAX, &step);
    if (!status && list && !json_is_array(list))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "mlp_only_layers", "a list");
    for (uint32_t i = 0; i < n_layers && !status; i++)
        if ((i + 1) % step != 0)
            layers_add(experts->dense, i);
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *entry = json_array_get(list, i);
        json_int_t layer = json_integer_value(entry);
        if (!json_is_integer(entry))
            return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "mlp_only_layers",
                                       "a list of numbers of layers");
        if (layer >= 0 && layer < (json_int_t)n_layers)
            layers_add(experts->dense, (uint32_t)layer);
    }
    return status;
}

/* Reads how many of the first layers have one MLP instead. */
static smol_status read_first_dense(const struct json_settings *config,
                                    const struct family_count *count, uint32_t n_layers,
                                    struct blob_experts *experts)
{
    uint32_t n = count->fallback;
    if (!count->key)
        return SMOL_OK;
    smol_status status = smol_setting_integer(config, count->key, 0, UINT32_MAX, &n);
    for (uint32_t i = 0; i < n && i < n_layers; i++)
        layers_add(experts->dense, i);
    return status;
}

/* Brings the model into its only representation: experts that no layer has are dropped, and an
 * intermediate size that no layer has is the experts'. */
static void settle(struct blob_model *model)
{
    if (smol_experts_layers(model) == 0)
        model->experts = (struct blob_experts){0};
    else if (!smol_has_dense(model))
        model->intermediate_size = model->experts.width;
}

/* Reads the flag whether there are experts, whose numbers must then be there. */
static smol_status read_enabled(const struct json_settings *config,
                                const struct family_experts *family, uint32_t *enabled)
{
    const char *const needed[] = {family->n.key, family->used_key, family->width.key};
    *enabled = !family->enabled_key;
    if (*enabled)
        return SMOL_OK;
    smol_status status = smol_setting_flag(config, family->enabled_key, enabled);
    for (size_t i = 0; !status && *enabled && i < 3; i++)
        if (!smol_setting(config, needed[i]))
            status = smol_setting_fail(config, SMOL_ERROR_DAMAGED, needed[i],
                                       "models with experts must have it");
    return status;
}

smol_status smol_config_read_experts(const struct json_settings *config, struct config *result)
{
    const struct family_experts *family = &result->family->experts;
    struct blob_experts *experts = &result->model.experts;
    uint32_t enabled;
    if (!family->n.key)
        return SMOL_OK;
    smol_status status = read_enabled(config, family, &enabled);
    if (status || !enabled)
        return status;
    status = read_numbers(config, result, experts);
    if (!status)
        status = read_clip(config, family->qkv_clip, &experts->qkv_clip);
    if (!status && family->has_dense)
        status = read_dense(config, result->model.n_layers, experts);
    if (!status)
        status = read_first_dense(config, &family->n_dense, result->model.n_layers, experts);
    if (!status)
        settle(&result->model);
    return status;
}
