/* The rotary embedding of a GGUF file, see maker.h. */
#include <math.h>
#include <string.h>

#include "convert/gguf/maker.h"

/* Puts the number of a key into an object, if the file has the key. */
static smol_status put_real(struct maker *m, json_t *object, const char *key, const char *setting)
{
    const struct gguf_value *value = smol_maker_find(m, key);
    double real = 0;
    if (value && (!smol_gguf_real(value, &real) || !isfinite(real)))
        return smol_maker_fail_value(m, value, "a number");
    if (value)
        smol_maker_put(m, object, setting, json_real(real));
    return SMOL_OK;
}

/* Reads what yarn has besides a factor. llama.cpp has no key for mscale, and takes it for 1. */
static smol_status take_yarn(struct maker *m, json_t *scaling)
{
    static const char *const names[][2] = {
        {"rope.scaling.yarn_attn_factor", "attention_factor"},
        {"rope.scaling.yarn_beta_fast", "beta_fast"},
        {"rope.scaling.yarn_beta_slow", "beta_slow"},
        {"rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
        {"attention.temperature_scale", "llama_4_scaling_beta"},
    };
    const struct gguf_value *extrapolation = smol_maker_find(m, "rope.scaling.yarn_ext_factor");
    double real = 1;
    if (extrapolation && (!smol_gguf_real(extrapolation, &real) || real != 1))
        return smol_maker_fail_value(m, extrapolation, "1");
    uint64_t original = 0;
    smol_status status = smol_maker_integer(m, "rope.scaling.original_context_length", &original);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !status; i++)
        status = put_real(m, scaling, names[i][0], names[i][1]);
    if (original > 0)
        smol_maker_put(m, scaling, "original_max_position_embeddings",
                       json_integer((json_int_t)original));
    if (json_object_get(scaling, "mscale_all_dim"))
        smol_maker_put(m, scaling, "mscale", json_real(1));
    return status;
}

/* Reads the type, which without a key is linear, and the factor. */
static smol_status take_scaling(struct maker *m)
{
    const struct gguf_value *type = smol_maker_find(m, "rope.scaling.type");
    const struct gguf_text name = smol_gguf_string(type);
    bool yarn = gguf_text_is(name, "yarn");
    if (gguf_text_is(name, "none") || gguf_text_is(name, "longrope")) /* see take_longrope */
        return SMOL_OK;
    if (!type && !smol_maker_find(m, "rope.scaling.factor"))
        return SMOL_OK;
    if (type && !yarn && !gguf_text_is(name, "linear"))
        return smol_maker_fail_value(m, type, "none, linear, longrope or yarn");
    json_t *scaling = json_pack("{s:s}", "rope_type", yarn ? "yarn" : "linear");
    smol_maker_put(m, m->object, "rope_scaling", scaling);
    smol_status status = put_real(m, scaling, "rope.scaling.factor", "factor");
    return status || !yarn ? status : take_yarn(m, scaling);
}

static double factor_at(const struct safetensors_tensor *factors, uint64_t i)
{
    float value;
    memcpy(&value, factors->data + i * sizeof value, sizeof value);
    return (double)value;
}

/* Finds a list of factors, (n) of f32. *factors is NULL if there is none. */
static smol_status find_factors(const struct maker *m, const struct safetensors *tensors,
                                const char *name, const struct safetensors_tensor **factors)
{
    const struct safetensors_tensor *found = smol_safetensors_find(tensors, name);
    *factors = found;
    bool good =
        !found || (found->rank == 1 && found->dtype == ST_F32 && found->shape[0] <= MAX_HEAD_DIM);
    for (uint64_t i = 0; found && good && i < found->shape[0]; i++)
        good = isfinite(factor_at(found, i));
    return good ? SMOL_OK
                : smol_fail(m->error, SMOL_ERROR_DAMAGED,
                            "%s: tensor %s must be a list of at most %d finite numbers in F32: "
                            "download the file again",
                            m->gguf->path, name, MAX_HEAD_DIM);
}

/* Returns the factor of pair `i` of `n` by Llama 3's rule, with its published settings. */
static double llama3_factor(double theta, double factor, uint64_t i, uint64_t n)
{
    const double original = 8192, low = 1, high = 4, pi = 3.14159265358979323846;
    double wave = 2 * pi * pow(theta, (double)i / (double)n);
    double smooth = (original / wave - low) / (high - low);
    if (wave < original / high)
        return 1;
    return wave > original / low ? factor : 1 / ((1 - smooth) / factor + smooth);
}

/* Files of Llama 3.1 and later state the factor of each pair, not the rule. Recognizes the rule,
 * and refuses factors that do not follow it. */
static smol_status take_llama3(struct maker *m, const struct safetensors *tensors)
{
    const struct safetensors_tensor *factors;
    smol_status status = find_factors(m, tensors, "rope_freqs.weight", &factors);
    if (status || !factors || m->arch->kind == OF_GEMMA4) /* see take_proportional */
        return status;
    if (json_object_get(m->object, "rope_scaling"))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: rope_freqs.weight and rope.scaling.type are both set: convert the "
                         "original checkpoint",
                         m->gguf->path);
    uint64_t n = factors->shape[0];
    double theta = json_real_value(json_object_get(m->object, "rope_theta"));
    double factor = factor_at(factors, n - 1);
    bool follows = n == smol_maker_setting(m, "head_dim") / 2 && factor >= 1;
    for (uint64_t i = 0; i < n && follows; i++) {
        double expected = llama3_factor(theta, factor, i, n);
        follows = fabs(factor_at(factors, i) - expected) <= 1e-4 * expected;
    }
    if (!follows)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: the factors in rope_freqs.weight do not follow Llama 3's rule: "
                         "convert the original checkpoint",
                         m->gguf->path);
    smol_maker_put(m, m->object, "rope_scaling",
                   json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", factor,
                             "low_freq_factor", 1.0, "high_freq_factor", 4.0,
                             "original_max_position_embeddings", 8192));
    return SMOL_OK;
}

static json_t *list_factors(struct maker *m, const struct safetensors_tensor *factors)
{
    json_t *list = json_array();
    for (uint64_t i = 0; i < factors->shape[0]; i++)
        smol_maker_append(m, list, json_real(factor_at(factors, i)));
    return list;
}

static smol_status take_longrope(struct maker *m, const struct safetensors *tensors)
{
    const struct safetensors_tensor *of_long, *of_short;
    smol_status status = find_factors(m, tensors, "rope_factors_long.weight", &of_long);
    if (!status)
        status = find_factors(m, tensors, "rope_factors_short.weight", &of_short);
    if (status || (!of_long && !of_short))
        return status;
    if (!of_long || !of_short || json_object_get(m->object, "rope_scaling"))
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: only one of the lists of rotary factors, or another scaling beside "
                         "them: download the file again",
                         m->gguf->path);
    json_t *scaling = json_pack("{s:s}", "type", "longrope");
    smol_maker_put(m, scaling, "long_factor", list_factors(m, of_long));
    smol_maker_put(m, scaling, "short_factor", list_factors(m, of_short));
    smol_maker_put(m, m->object, "rope_scaling", scaling);
    return SMOL_OK;
}

/* Takes how frequencies are shared out to the coordinates of pictures, which are equal in texts. */
static smol_status take_sections(struct maker *m)
{
    const struct gguf_value *list = smol_maker_find(m, "rope.dimension_sections");
    json_t *sections = json_array(), *scaling = json_object_get(m->object, "rope_scaling");
    uint64_t n = 0;
    bool valid = list && list->type == GGUF_ARRAY && (list->n == 3 || list->n == 4);
    for (uint64_t i = 0; valid && i < list->n; i++) {
        valid = smol_gguf_integer_at(list, i, &n) && n <= UINT32_MAX && (i < 3 || n == 0);
        if (i < 3)
            smol_maker_append(m, sections, json_integer((json_int_t)n));
    }
    if (list && valid && scaling)
        smol_maker_put(m, scaling, "mrope_section", json_incref(sections));
    else if (list && valid)
        smol_maker_put(m, m->object, "rope_scaling",
                       json_pack("{s:s, s:O}", "rope_type", "default", "mrope_section", sections));
    json_decref(sections);
    return !list || valid ? SMOL_OK
                          : smol_maker_fail_value(m, list, "three sizes, and perhaps a 0");
}

/* Reads how many pairs of a head rotate in Gemma 4's layers without windows: the first ones have a
 * factor of 1 in the file, the others one so large that they hardly turn. */
static smol_status take_proportional(struct maker *m, const struct safetensors *tensors)
{
    const struct safetensors_tensor *factors;
    const double stopped = 1e29; /* a file has 1e30, rounded to f32 */
    smol_status status = find_factors(m, tensors, "rope_freqs.weight", &factors);
    uint64_t n = factors ? factors->shape[0] : 0, rotated = 0;
    if (status)
        return status;
    while (rotated < n && factor_at(factors, rotated) == 1)
        rotated++;
    bool follows = n > 0 && n == smol_maker_setting(m, "global_head_dim") / 2;
    for (uint64_t i = rotated; i < n && follows; i++)
        follows = factor_at(factors, i) >= stopped;
    if (!follows || json_object_get(m->object, "rope_scaling"))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tensor rope_freqs.weight must have factors of 1, then 1e30, one for "
                         "each pair of a head, beside no rope.scaling.type: convert the original "
                         "checkpoint",
                         m->gguf->path);
    double part = (double)rotated / (double)n; /* its product with the size is rounded down */
    smol_maker_put(m, m->object, "rope_scaling",
                   json_pack("{s:s, s:f}", "rope_type", "proportional", "partial_rotary_factor",
                             rotated == n ? 1 : nextafter(part, 2)));
    return SMOL_OK;
}

/* Gives windowed layers of OLMo 3 and Gemma 4 an embedding of their own, which is not scaled. */
static smol_status split_rope(struct maker *m)
{
    json_t *theta = json_object_get(m->object, "rope_theta");
    json_t *scaling = json_object_get(m->object, "rope_scaling");
    if (m->arch->kind != OF_GEMMA4 && strcmp(m->arch->architecture, "Olmo3ForCausalLM") != 0)
        return SMOL_OK;
    json_t *full = json_pack("{s:s, s:O}", "rope_type", "default", "rope_theta", theta);
    json_t *windowed = json_pack("{s:s, s:O}", "rope_type", "default", "rope_theta", theta);
    if (scaling)
        json_object_update(full, scaling);
    smol_status status = put_real(m, windowed, "rope.freq_base_swa", "rope_theta");
    smol_maker_put(m, m->object, "rope_parameters",
                   json_pack("{s:o, s:o}", "full_attention", full, "sliding_attention", windowed));
    json_object_del(m->object, "rope_theta");
    json_object_del(m->object, "rope_scaling");
    return status;
}

smol_status smol_gguf_take_rope(struct maker *m, const struct safetensors *tensors)
{
    smol_status status = take_scaling(m);
    if (!status)
        status = take_llama3(m, tensors);
    if (!status)
        status = take_longrope(m, tensors);
    if (!status)
        status = take_sections(m);
    if (!status && m->arch->kind == OF_GEMMA4)
        status = take_proportional(m, tensors);
    return status ? status : split_rope(m);
}
