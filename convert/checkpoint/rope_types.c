/* Reads an object that describes a rotary embedding, by its rope_type, see rope.h. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "convert/checkpoint/rope.h"

smol_status smol_rope_require(const struct json_settings *object, const char *key)
{
    if (smol_setting(object, key))
        return SMOL_OK;
    return smol_fail(object->error, SMOL_ERROR_DAMAGED,
                     "%s: %s%s is missing: this type of rotary embedding needs it", object->path,
                     object->within, key);
}

smol_status smol_rope_require_real(const struct json_settings *object, const char *key,
                                   double *value)
{
    smol_status status = smol_rope_require(object, key);
    return status ? status : smol_setting_real(object, key, FLT_MIN, FLT_MAX, value);
}

smol_status smol_rope_read_type(const struct json_settings *object, const struct family *family,
                                const char **type)
{
    const char *old = NULL;
    *type = NULL;
    smol_status status = smol_setting_string(object, "rope_type", type);
    if (!status)
        status = smol_setting_string(object, "type", &old);
    const char **names[] = {type, &old};
    for (size_t i = 0; i < 2 && family->plain_rope; i++)
        if (*names[i] && strcmp(*names[i], family->plain_rope) == 0)
            *names[i] = "default";
    if (!status && *type && old && strcmp(*type, old) != 0)
        return smol_setting_fail(object, SMOL_ERROR_DAMAGED, "type",
                                 "rope_type differs: correct one of them");
    *type = *type ? *type : old ? old : "default";
    return status;
}

/* Reads original_max_position_embeddings from config.json if places->takes_outer is set, otherwise
 * from the object. For Phi-3, transformers ignores the object's value. Values that contradict each
 * other are an error. */
static smol_status read_original_context(const struct rope_places *places,
                                         const struct json_settings *object,
                                         const struct config *result, uint32_t *original)
{
    static const char key[] = "original_max_position_embeddings";
    uint32_t inner = 0, outer = 0;
    smol_status status = smol_setting_integer(object, key, 1, 1u << 31, &inner);
    if (!status)
        status = smol_setting_integer(places->config, key, 1, 1u << 31, &outer);
    *original = outer && places->takes_outer       ? outer
                : result->family->original_context ? result->family->original_context
                : inner                            ? inner
                                                   : result->max_positions;
    if (!status && ((outer && outer != *original) || (inner && inner != *original)))
        return smol_fail(object->error, SMOL_ERROR_DAMAGED,
                         "%s: %s is %u, but %s%s is %u: correct one of them", object->path, key,
                         outer ? outer : *original, object->within, key, inner ? inner : *original);
    return status;
}

static smol_status read_llama3(const struct json_settings *object, struct rope *rope)
{
    smol_status status = smol_rope_require_real(object, "factor", &rope->factor);
    if (!status)
        status = smol_rope_require_real(object, "low_freq_factor", &rope->low_freq_factor);
    if (!status)
        status = smol_rope_require_real(object, "high_freq_factor", &rope->high_freq_factor);
    if (!status && rope->high_freq_factor <= rope->low_freq_factor)
        return smol_setting_expect(object, SMOL_ERROR_DAMAGED, "high_freq_factor",
                                   "more than low_freq_factor");
    return status;
}

/* Reads beta_fast or beta_slow. 0 counts as absent, as in transformers. */
static smol_status read_beta(const struct json_settings *object, const char *key, double *beta)
{
    double found = 0;
    smol_status status = smol_setting_real(object, key, 0, FLT_MAX, &found);
    *beta = found == 0 ? *beta : found;
    return status;
}

/* Reads `truncate`. null means false; absent means true. */
static smol_status read_truncate(const struct json_settings *object, struct rope *rope)
{
    uint32_t truncate = !smol_setting_is_null(object, "truncate");
    smol_status status = smol_setting_flag(object, "truncate", &truncate);
    rope->truncate = truncate;
    return status;
}

/* Reads the factor of cosine and sine. It stays 0 if the key is absent. */
static smol_status read_attention_factor(const struct json_settings *object, struct rope *rope)
{
    return smol_setting_real(object, "attention_factor", FLT_MIN, FLT_MAX, &rope->attention_factor);
}

static smol_status read_yarn(const struct json_settings *object, uint32_t context,
                             struct rope *rope)
{
    smol_status status = SMOL_OK;
    rope->factor = (double)context / rope->original_context;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    if (!smol_setting_is_null(object, "factor"))
        status = smol_rope_require_real(object, "factor", &rope->factor);
    if (!status)
        status = read_attention_factor(object, rope);
    if (!status)
        status = smol_setting_real(object, "mscale", 0, FLT_MAX, &rope->mscale);
    if (!status)
        status = smol_setting_real(object, "mscale_all_dim", 0, FLT_MAX, &rope->mscale_all_dim);
    if (!status)
        status = read_beta(object, "beta_fast", &rope->beta_fast);
    if (!status)
        status = read_beta(object, "beta_slow", &rope->beta_slow);
    return status ? status : read_truncate(object, rope);
}

static smol_status read_factors(const struct json_settings *object, const char *key, uint32_t n,
                                float *factors)
{
    char expected[64];
    json_t *list = smol_setting(object, key);
    smol_status status = smol_rope_require(object, key);
    if (status)
        return status;
    snprintf(expected, sizeof expected, "a list of %u numbers above 0", n);
    bool good = json_array_size(list) == n;
    for (uint32_t i = 0; i < n && good; i++) {
        double factor = json_number_value(json_array_get(list, i)); /* 0 if not a number */
        good = factor >= (double)FLT_MIN && factor <= (double)FLT_MAX;
        factors[i] = (float)factor;
    }
    return good ? SMOL_OK : smol_setting_expect(object, SMOL_ERROR_DAMAGED, key, expected);
}

/* Reads both lists, so that a damaged list is found even if it is not used. */
static smol_status read_longrope(const struct json_settings *object, uint32_t context,
                                 const struct config *result, struct rope *rope)
{
    float unused[MAX_HEAD_DIM / 2];
    bool is_long = result->longrope == LONGROPE_LONG;
    uint32_t n = result->model.rotary_dim / 2;
    rope->factor = (double)context / rope->original_context;
    smol_status status = read_factors(object, "short_factor", n, is_long ? unused : rope->factors);
    if (!status)
        status = read_factors(object, "long_factor", n, is_long ? rope->factors : unused);
    if (!status)
        status = smol_setting_real(object, "factor", FLT_MIN, FLT_MAX, &rope->factor);
    return status ? status : read_attention_factor(object, rope);
}

/* transformers computes the number of pairs in this order, with doubles. */
smol_status smol_rope_read_proportional(const struct json_settings *object, double part,
                                        uint32_t head_dim, struct rope *rope)
{
    rope->n_rotated = (uint32_t)(part * head_dim / 2);
    rope->factor = 1;
    if (smol_setting_is_null(object, "factor"))
        return smol_rope_require(object, "factor");
    return smol_setting_real(object, "factor", FLT_MIN, FLT_MAX, &rope->factor);
}

/* Chooses one of the two lists of factors of longrope. transformers chooses by the length of each
 * prompt, but a blob has only one list. --context decides, and the model's context_length becomes
 * the length that the list is made for. */
static void choose_longrope(uint32_t original_context, struct config *result)
{
    uint32_t *context = &result->model.context_length;
    bool is_long = result->wanted_context > original_context;
    result->longrope = is_long ? LONGROPE_LONG : LONGROPE_SHORT;
    if (!is_long && original_context < *context)
        *context = original_context;
}

static smol_status fail_type(const struct json_settings *object, const char *name,
                             const struct family *family)
{
    const char *key = smol_setting(object, "rope_type") ? "rope_type" : "type";
    const char *remedy =
        family->rotates_parts
            ? "smolconv reads default, linear, llama3, yarn, longrope"
            : "smolconv reads default, linear, llama3, yarn, longrope, proportional";
    if (family->ropes == ROPES_PHI3)
        remedy = "smolconv reads default, longrope";
    if (family->ropes == ROPES_NTK)
        remedy = "smolconv reads default, ntk";
    if (strcmp(name, "dynamic") == 0)
        remedy = "its rotation depends on the length of the prompt, so the same text would get "
                 "different answers";
    return smol_setting_fail(object, SMOL_ERROR_UNSUPPORTED, key, remedy);
}

/* Finds the rope_type. Phi-3 has two more names for longrope and supports no other scaling.
 * Families whose heads rotate in part take partial_rotary_factor for that, so they cannot be
 * proportional. */
static smol_status find_type(const struct json_settings *object, const struct family *family,
                             enum rope_type *type)
{
    enum { USUAL = 1 << ROPES_USUAL, PHI3 = 1 << ROPES_PHI3, NTK = 1 << ROPES_NTK };
    static const struct {
        const char *name;
        enum rope_type type;
        unsigned of; /* families */
    } types[] = {
        {"default", ROPE_DEFAULT, USUAL | PHI3 | NTK},
        {"linear", ROPE_LINEAR, USUAL},
        {"llama3", ROPE_LLAMA3, USUAL},
        {"yarn", ROPE_YARN, USUAL},
        {"longrope", ROPE_LONGROPE, USUAL | PHI3},
        {"su", ROPE_LONGROPE, PHI3},
        {"yarn", ROPE_LONGROPE, PHI3},
        {"proportional", ROPE_PROPORTIONAL, USUAL},
        {"ntk", ROPE_NTK, NTK},
    };
    const char *name;
    smol_status status = smol_rope_read_type(object, family, &name);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        *type = types[i].type;
        bool parts_twice = family->rotates_parts && types[i].type == ROPE_PROPORTIONAL;
        if (strcmp(name, types[i].name) == 0 && !parts_twice && types[i].of >> family->ropes & 1)
            return SMOL_OK;
    }
    return fail_type(object, name, family);
}

/* Checks the settings of yarn. For models whose layers rotate differently, transformers does not
 * look for `truncate` in this object. Theta must be above 1, because yarn divides by its
 * logarithm. */
static smol_status check_yarn(const struct rope_places *places, const struct json_settings *object,
                              const struct rope *rope)
{
    if (!places->takes_outer && !rope->truncate)
        return smol_setting_fail(object, SMOL_ERROR_UNSUPPORTED, "truncate",
                                 "transformers ignores it here: remove it");
    if (rope->theta > 1)
        return SMOL_OK;
    return smol_fail(object->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: rope_theta is %.9g: yarn needs one above 1", object->path, rope->theta);
}

/* Reads the `alpha` of Hunyuan's rope_type "dynamic", which then does not depend on the length of
 * the prompt: it increases theta. Sets *found to whether the object is of this kind. */
static smol_status read_alpha(const struct json_settings *object, const struct config *result,
                              struct rope *rope, bool *found)
{
    const char *name;
    double alpha = 0, dim = result->model.head_dim;
    smol_status status = smol_rope_read_type(object, result->family, &name);
    *found = !status && result->family->has_rope_alpha && strcmp(name, "dynamic") == 0 &&
             smol_setting(object, "alpha");
    if (!*found)
        return status;
    if (dim <= 2)
        return smol_setting_fail(object, SMOL_ERROR_UNSUPPORTED, "alpha",
                                 "needs a head_dim above 2");
    status = smol_setting_real(object, "alpha", FLT_MIN, FLT_MAX, &alpha);
    rope->theta *= pow(alpha, dim / (dim - 2));
    return status;
}

/* Reads the settings of rope_type ntk, whose factor increases theta. */
static smol_status read_ntk(const struct json_settings *object, struct rope *rope)
{
    if (smol_setting(object, "mixed_b"))
        return smol_setting_fail(object, SMOL_ERROR_UNSUPPORTED, "mixed_b", "remove it");
    smol_status status = smol_rope_require_real(object, "factor", &rope->factor);
    rope->theta *= rope->factor;
    return status;
}

/* Checks mrope_section, which shares out frequencies to the coordinates of pictures. Those of a
 * text are equal, so that it has no effect. */
static smol_status check_sections(const struct json_settings *object)
{
    static const char key[] = "mrope_section";
    json_t *list = json_object_get(object->object, key);
    bool valid = json_array_size(list) == 3;
    for (size_t i = 0; i < 3; i++) {
        const json_t *n = json_array_get(list, i);
        valid = valid && json_is_integer(n) && json_integer_value(n) >= 0;
    }
    return !list || valid
               ? SMOL_OK
               : smol_setting_fail(object, SMOL_ERROR_DAMAGED, key, "three sizes are needed");
}

smol_status smol_rope_read(const struct rope_places *places, const struct json_settings *object,
                           struct config *result, struct rope *rope)
{
    uint32_t context = result->max_positions;
    bool has_alpha;
    smol_status status = read_alpha(object, result, rope, &has_alpha);
    if (status || has_alpha)
        return status;
    if (result->family->has_sections)
        status = check_sections(object);
    if (status)
        return status;
    status = find_type(object, result->family, &rope->type);
    if (status || rope->type == ROPE_DEFAULT)
        return status;
    if (rope->type == ROPE_NTK)
        return read_ntk(object, rope);
    if (rope->type == ROPE_LINEAR)
        return smol_rope_require_real(object, "factor", &rope->factor);
    if (rope->type == ROPE_PROPORTIONAL)
        return smol_rope_read_proportional(object, places->part >= 0 ? places->part : 1,
                                           result->model.head_dim, rope);
    status = read_original_context(places, object, result, &rope->original_context);
    if (status || rope->type == ROPE_LLAMA3)
        return status ? status : read_llama3(object, rope);
    if (rope->type == ROPE_YARN) {
        status = read_yarn(object, context, rope);
        return status ? status : check_yarn(places, object, rope);
    }
    choose_longrope(rope->original_context, result);
    return read_longrope(object, context, result, rope);
}
