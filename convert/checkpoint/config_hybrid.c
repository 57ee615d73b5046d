/* Attention and states side by side, and their scales, see config_model.h: keys of Falcon-H1. */
#include <float.h>
#include <stdio.h>

#include "convert/checkpoint/config_model.h"

/* Reads a scale; null is refused, as by the reference. */
static smol_status read_multiplier(const struct json_settings *config, const char *key,
                                   float *scale)
{
    double value = 1;
    smol_status status = smol_setting_fraction(config, key, FLT_MIN, FLT_MAX, &value);
    *scale = (float)value;
    return status;
}

/* Reads a list of n scales. Without it all are 1. */
static smol_status read_multipliers(const struct json_settings *config, const char *key, size_t n,
                                    float *const *scales)
{
    char expected[64];
    json_t *list = smol_setting(config, key);
    snprintf(expected, sizeof expected, "a list of %zu numbers above 0 with a decimal point", n);
    for (size_t i = 0; i < n; i++)
        *scales[i] = 1;
    if (list && json_array_size(list) != n)
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, expected);
    for (size_t i = 0; i < n && list; i++) {
        const json_t *entry = json_array_get(list, i);
        double value = json_real_value(entry);
        if (!json_is_real(entry) || !(value >= (double)FLT_MIN && value <= (double)FLT_MAX))
            return smol_setting_expect(config, SMOL_ERROR_DAMAGED, key, expected);
        *scales[i] = (float)value;
    }
    return SMOL_OK;
}

/* Reads whether there is a norm, and whether it comes before the gate. */
static smol_status read_norm(const struct json_settings *config, struct blob_hybrid *hybrid)
{
    uint32_t has_norm = 0, is_early = 1;
    smol_status status = smol_setting_flag(config, "mamba_rms_norm", &has_norm);
    if (!status)
        status = smol_setting_flag(config, "mamba_norm_before_gate", &is_early);
    hybrid->norm = !has_norm ? MIXER_NORM_NONE : is_early ? MIXER_NORM_EARLY : MIXER_NORM_LATE;
    return status;
}

smol_status smol_config_read_hybrid(const struct json_settings *config, struct config *result)
{
    struct blob_hybrid *h = &result->model.hybrid;
    const struct {
        const char *key;
        float *scale;
    } scales[] = {
        {"attention_in_multiplier", &h->attention_in},
        {"attention_out_multiplier", &h->attention_out},
        {"ssm_in_multiplier", &h->mixer_in},
        {"ssm_out_multiplier", &h->mixer_out},
    };
    float *const parts[] = {&h->gate, &h->x, &h->b, &h->c, &h->step};
    float *const mlp[] = {&h->mlp_gate, &h->mlp_out};
    if (!result->family->attends_beside)
        return SMOL_OK;
    h->parallel = 1;
    smol_status status = read_norm(config, h);
    if (!status)
        status = smol_setting_flag(config, "mamba_proj_bias", &h->input_biases);
    if (!status)
        status = smol_setting_flag(config, "projectors_bias", &h->output_bias);
    for (size_t i = 0; i < sizeof scales / sizeof scales[0] && !status; i++)
        status = read_multiplier(config, scales[i].key, scales[i].scale);
    if (!status)
        status = read_multipliers(config, "ssm_multipliers", 5, parts);
    return status ? status : read_multipliers(config, "mlp_multipliers", 2, mlp);
}

/* A key's scale is as good as the query's, and a logit's is the inverse of a divisor. */
smol_status smol_config_scale_hybrid(const struct json_settings *config, struct config *result)
{
    float key, logit;
    if (!result->family->attends_beside)
        return SMOL_OK;
    smol_status status = read_multiplier(config, "key_multiplier", &key);
    if (!status)
        status = read_multiplier(config, "lm_head_multiplier", &logit);
    if (status)
        return status;
    result->model.attention_scale *= key;
    result->model.logit_divisor = 1 / logit;
    return SMOL_OK;
}
