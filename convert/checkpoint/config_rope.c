/* Rotary embedding, see config_model.h: finds the objects of config.json that describe it, and
 * fills the tables of frequencies. rope_types.c reads the objects.
 *
 * transformers 5 uses the object rope_parameters. It holds rope_theta and, if two types of layers
 * rotate differently, one object for each type. Earlier versions have the separate keys
 * rope_scaling and rope_theta. A value that appears in several places must be the same in all of
 * them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "common/number.h"
#include "convert/checkpoint/config_model.h"
#include "convert/checkpoint/rope.h"

/* ---- finding ---- */

/* The keys of the object that may be null, as in transformers. */
static const char *const nullable[] = {"attention_factor", "beta_fast", "beta_slow", "mscale",
                                       "mscale_all_dim",   "truncate",  "factor",    NULL};

static bool is_layer_type(const char *key)
{
    return strcmp(key, "full_attention") == 0 || strcmp(key, "sliding_attention") == 0;
}

static smol_status check_flat(const struct json_settings *from, const char *name, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (json_is_object(value) || is_layer_type(key))
            return smol_fail(from->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: %s%s has the key %.48s: expected a single rotary embedding",
                             from->path, from->within, name, key);
    }
    return SMOL_OK;
}

/* Adds the object `key` of `from` if it is present and not empty. Messages call it `within`. */
static smol_status add_object(struct rope_places *places, const struct json_settings *from,
                              const char *key, const char *within)
{
    json_t *object = smol_setting(from, key);
    if (object && !json_is_object(object))
        return smol_setting_expect(from, SMOL_ERROR_DAMAGED, key, "an object");
    if (json_object_size(object) > 0) {
        struct json_settings *added = &places->objects[places->n_objects++];
        *added = *from;
        added->object = object;
        added->within = within;
        added->nullable = nullable;
    }
    return check_flat(from, key, object);
}

/* Reads a theta. It must be finite and above 0 as a float. All places must agree. */
static smol_status read_theta(const struct json_settings *settings, const char *key,
                              const struct json_settings **place, double *theta)
{
    double found = 0;
    smol_status status = smol_setting_real(settings, key, FLT_MIN, FLT_MAX, &found);
    if (status || found == 0)
        return status;
    if (*place && found != *theta)
        return smol_fail(settings->error, SMOL_ERROR_DAMAGED,
                         "%s: %srope_theta is %.9g, but %s%s is %.9g: correct one of them",
                         settings->path, (*place)->within, *theta, settings->within, key, found);
    *theta = found;
    *place = settings;
    return SMOL_OK;
}

/* Checks a usual key of config.json that transformers ignores, because the family has its own. */
static smol_status check_ignored(const struct json_settings *config, const char *key, double value)
{
    json_t *found = smol_setting(config, key);
    if (!found || json_number_value(found) == value)
        return SMOL_OK;
    return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key,
                             "this family has another key for it: remove it");
}

static smol_status find_theta(struct rope_places *places)
{
    const struct json_settings *place = NULL;
    smol_status status = read_theta(places->config, places->theta_key, &place, &places->theta);
    for (size_t i = 0; i < places->n_objects && !status; i++)
        status = read_theta(&places->objects[i], "rope_theta", &place, &places->theta);
    if (!status && !place && smol_setting_is_null(places->config, places->theta_key))
        return smol_setting_fail(places->config, SMOL_ERROR_DAMAGED, places->theta_key,
                                 "expected a number here or in the rotary embedding");
    return status;
}

/* ---- what rotates ---- */

static smol_status find_proportional(struct rope_places *places, const struct family *family)
{
    smol_status status = SMOL_OK;
    places->proportional = false;
    for (size_t i = 0; i < places->n_objects && !status; i++) {
        const char *type;
        status = smol_rope_read_type(&places->objects[i], family, &type);
        places->proportional |= !status && strcmp(type, "proportional") == 0;
    }
    return status;
}

/* Reads partial_rotary_factor into places->part. In most families of transformers heads always
 * rotate as a whole, so it must be 1, unless the embedding is proportional. */
static smol_status read_rotary_factor(const struct json_settings *settings, const char *key,
                                      const struct family *family, struct rope_places *places)
{
    bool in_parts = family->rotates_parts;
    double found = 0, least = places->proportional ? 0 : in_parts ? (double)FLT_MIN : 1;
    smol_status status = smol_setting_real(settings, key, -FLT_MAX, FLT_MAX, &found);
    if (status || !smol_setting(settings, key))
        return status;
    if (!(found >= least && found <= 1))
        return smol_setting_expect(settings, SMOL_ERROR_UNSUPPORTED, key,
                                   places->proportional ? "from 0 to 1"
                                   : in_parts           ? "above 0 and at most 1"
                                                        : "1");
    if (places->part >= 0 && found != places->part)
        return smol_setting_fail(settings, SMOL_ERROR_DAMAGED, key,
                                 "another place has a different value: correct one of them");
    places->part = found;
    return SMOL_OK;
}

/* Sets the number of elements of a head that rotate. A proportional embedding has frequencies for
 * all of them. */
static smol_status find_rotary_dim(struct rope_places *places, struct config *result)
{
    struct blob_model *model = &result->model;
    const struct family *family = result->family;
    const char *usual = "partial_rotary_factor", *own = family->rotary_factor_key;
    places->part = -1;
    smol_status status = find_proportional(places, result->family);
    if (!status)
        status = read_rotary_factor(places->config, own ? own : usual, family, places);
    for (size_t i = 0; i < places->n_objects && !status; i++)
        status = read_rotary_factor(&places->objects[i], usual, family, places);
    double factor = places->part >= 0 ? places->part : family->rotary_factor;
    if (!status && own)
        status = check_ignored(places->config, usual, factor);
    if (status)
        return status;
    model->rotary_dim = factor > 0 && !places->proportional ? (uint32_t)(model->head_dim * factor)
                                                            : model->head_dim;
    if (model->rotary_dim < 2 || model->rotary_dim % 2 != 0)
        return smol_fail(places->config->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: partial_rotary_factor makes %u of a head's %u elements rotate: the "
                         "number must be even",
                         places->config->path, model->rotary_dim, model->head_dim);
    return SMOL_OK;
}

smol_status smol_rope_add_table(const struct json_settings *config, const struct rope *rope,
                                uint32_t dim, struct config *result)
{
    struct blob_model *model = &result->model;
    float *inv_freq = result->inv_freq + (size_t)model->n_rope_tables * (model->rotary_dim / 2);
    float scale = smol_rope_scale(rope);
    smol_rope_frequencies(rope, dim, inv_freq);
    for (uint32_t i = 0; i < dim / 2; i++)
        if (!(inv_freq[i] >= 0 && inv_freq[i] <= 1))
            return smol_fail(config->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: rotary embedding: frequency %u is %g: must be 0 to 1",
                             config->path, i, (double)inv_freq[i]);
    if (!(scale > 0) || !f32_is_finite(scale))
        return smol_fail(
            config->error, SMOL_ERROR_UNSUPPORTED,
            "%s: rotary embedding: the factor of cosine and sine is %g: must be finite "
            "and above 0",
            config->path, (double)scale);
    model->rope_scale[model->n_rope_tables++] = scale;
    return SMOL_OK;
}

/* Checks that two objects describe the same frequencies and scale. */
static smol_status check_same(const struct rope_places *places, const struct rope *first,
                              const struct rope *second, uint32_t dim)
{
    float a[MAX_HEAD_DIM / 2], b[MAX_HEAD_DIM / 2];
    smol_rope_frequencies(first, dim, a);
    smol_rope_frequencies(second, dim, b);
    if (memcmp(a, b, dim / 2 * sizeof *a) == 0 &&
        f32_bits(smol_rope_scale(first)) == f32_bits(smol_rope_scale(second)))
        return SMOL_OK;
    return smol_fail(places->config->error, SMOL_ERROR_DAMAGED,
                     "%s: %s and %s describe different rotary embeddings: keep one of them",
                     places->config->path, places->objects[0].within, places->objects[1].within);
}

/* Reads the growth of queries from the only object. `original` is its original context, or 0 if its
 * type has none. A growth that no position reaches is none. */
static smol_status read_growth(const struct rope_places *places, uint32_t original,
                               struct config *result)
{
    static const char key[] = "llama_4_scaling_beta", period[] = "original_max_position_embeddings";
    const struct json_settings *object = &places->objects[0];
    double growth = 0;
    if (places->n_objects != 1)
        return smol_fail(places->config->error, SMOL_ERROR_DAMAGED,
                         "%s: this family needs one of rope_parameters and rope_scaling",
                         places->config->path);
    smol_status status = smol_rope_require(object, key);
    if (!status)
        status = smol_setting_real(object, key, 0, FLT_MAX, &growth);
    if (!status && original == 0)
        status = smol_rope_require(object, period);
    if (!status && original == 0)
        status = smol_setting_integer(object, period, 1, 1u << 31, &original);
    if (status || (float)growth == 0 || original >= result->model.context_length)
        return status;
    result->model.query_growth = (float)growth;
    result->model.query_period = original;
    return SMOL_OK;
}

/* Appends the table of the embedding that the places describe. */
static smol_status add_table(struct rope_places *places, struct config *result)
{
    struct blob_model *model = &result->model;
    smol_status status = find_rotary_dim(places, result);
    if (!status)
        status = find_theta(places);
    if (places->layer_theta > 0)
        places->theta = places->layer_theta;
    struct rope ropes[2] = {{.theta = places->theta}, {.theta = places->theta}};
    for (size_t i = 0; i < places->n_objects && !status; i++)
        status = smol_rope_read(places, &places->objects[i], result, &ropes[i]);
    if (!status && places->n_objects == 2)
        status = check_same(places, &ropes[0], &ropes[1], model->rotary_dim);
    if (!status && result->family->grows_queries)
        status = read_growth(places, ropes[0].original_context, result);
    return status ? status
                  : smol_rope_add_table(places->config, &ropes[0], model->rotary_dim, result);
}

/* Appends the table that all layers have, or those without a window. */
static smol_status add_main_table(struct rope_places *places, struct config *result)
{
    const char *own = result->family->theta_key;
    places->theta_key = own ? own : "rope_theta";
    places->theta = result->family->rope_theta;
    smol_status status = add_table(places, result);
    if (!status && own)
        status = check_ignored(places->config, "rope_theta", places->theta);
    result->model.rope_theta = places->theta;
    return status;
}

/* ---- one table for all layers ---- */

/* Checks `key` if both objects are present. transformers replaces rope_parameters by rope_scaling,
 * so a key in rope_parameters alone would be lost. */
static smol_status check_whole(const struct rope_places *places, const char *key)
{
    const struct json_settings *parameters = &places->objects[0], *scaling = &places->objects[1];
    if (places->n_objects < 2 || !smol_setting(parameters, key) || smol_setting(scaling, key) ||
        smol_setting(places->config, key))
        return SMOL_OK;
    return smol_fail(places->config->error, SMOL_ERROR_DAMAGED,
                     "%s: %s is in rope_parameters, but not in rope_scaling: keep one of these "
                     "objects",
                     places->config->path, key);
}

/* ---- a theta for each layer ---- */

/* Reads layer_rope_theta, with 0 for layers without rotation. Sets the bits of the layers, and
 * thetas to the others' numbers, each once and in their order, or to 0. */
static smol_status read_layer_thetas(const struct json_settings *config, struct config *result,
                                     double thetas[2])
{
    static const char key[] = "layer_rope_theta";
    json_t *list = smol_setting(config, key);
    uint32_t n = list ? result->model.n_layers : 0;
    smol_status status = list ? smol_config_check_list(config, key, list, n, n) : SMOL_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        const json_t *entry = json_array_get(list, i);
        double theta = json_number_value(entry);
        if (!json_is_number(entry) ||
            (theta != 0 && !(theta >= (double)FLT_MIN && theta <= (double)FLT_MAX)))
            return smol_config_fail_entry(config, SMOL_ERROR_DAMAGED, key, i, entry,
                                          "0 (no rotation) or a number above 0");
        if (theta == 0) {
            result->layers[i] |= LAYER_NO_ROTATION;
            continue;
        }
        size_t table = thetas[0] == 0 || thetas[0] == theta ? 0 : 1;
        if (table == 1 && thetas[1] != 0 && thetas[1] != theta)
            return smol_config_fail_entry(config, SMOL_ERROR_UNSUPPORTED, key, i, entry,
                                          "at most two different numbers other than 0");
        thetas[table] = theta;
        result->layers[i] |= table ? LAYER_SECOND_TABLE : 0;
    }
    return status;
}

static smol_status read_shared(const struct json_settings *config, struct config *result)
{
    double thetas[2] = {0};
    struct rope_places places = {.config = config, .takes_outer = true};
    smol_status status = add_object(&places, config, "rope_parameters", "rope_parameters.");
    if (!status)
        status = add_object(&places, config, "rope_scaling", "rope_scaling.");
    if (!status)
        status = check_whole(&places, "rope_theta");
    if (!status)
        status = check_whole(&places, "partial_rotary_factor");
    if (!status && result->family->has_layer_thetas)
        status = read_layer_thetas(config, result, thetas);
    places.layer_theta = thetas[0];
    if (!status)
        status = add_main_table(&places, result);
    places.layer_theta = thetas[1];
    return status || thetas[1] == 0 ? status : add_table(&places, result);
}

/* ---- one table for windowed layers, one for the others ---- */

static smol_status check_nested(const struct json_settings *parameters)
{
    const char *key;
    json_t *value;
    json_object_foreach(parameters->object, key, value)
    {
        if (!is_layer_type(key))
            return smol_setting_fail(parameters, SMOL_ERROR_DAMAGED, key,
                                     "expected only full_attention and sliding_attention here");
    }
    return SMOL_OK;
}

/* Refuses an object with `type`, the old name of rope_type: transformers ignores it for these
 * families. */
static smol_status check_new_type(const struct json_settings *config)
{
    json_t *scaling = smol_setting(config, "rope_scaling");
    if (!json_object_get(scaling, "type") || json_object_get(scaling, "rope_type"))
        return SMOL_OK;
    return smol_setting_fail_item(config, SMOL_ERROR_UNSUPPORTED, "rope_scaling.type",
                                  json_object_get(scaling, "type"),
                                  "transformers ignores it: rename it to rope_type");
}

/* Adds a type's object of rope_parameters. */
static smol_status add_type(struct rope_places *places, const struct json_settings *parameters,
                            const char *type, const char *within, const struct family *family)
{
    smol_status status = family->needs_ropes ? smol_rope_require(parameters, type) : SMOL_OK;
    return status ? status : add_object(places, parameters, type, within);
}

static smol_status read_global(const struct json_settings *config,
                               const struct json_settings *parameters, struct config *result)
{
    struct rope_places places = {.config = config};
    smol_status status = check_new_type(config);
    if (!status)
        status = add_type(&places, parameters, "full_attention", "rope_parameters.full_attention.",
                          result->family);
    if (!status)
        status = add_object(&places, config, "rope_scaling", "rope_scaling.");
    return status ? status : add_main_table(&places, result);
}

/* Checks a rope_theta that would count for all layers, where the family has one key for both
 * tables. transformers 5 ignores it for windowed layers, version 4 does not. */
static smol_status check_outer_theta(const struct rope_places *places, double fallback)
{
    json_t *outer = smol_setting(places->config, "rope_theta");
    if (!outer || strcmp(places->theta_key, "rope_theta") != 0 || places->theta == fallback)
        return SMOL_OK;
    for (size_t i = 0; i < places->n_objects; i++)
        if (smol_setting(&places->objects[i], "rope_theta"))
            return SMOL_OK;
    return smol_setting_fail(places->config, SMOL_ERROR_UNSUPPORTED, "rope_theta",
                             "releases of transformers differ in whether it counts for windowed "
                             "layers: state it in rope_parameters.sliding_attention too");
}

static smol_status read_local(const struct json_settings *config,
                              const struct json_settings *parameters, struct config *result)
{
    const struct family_number *theta = &result->family->local_theta;
    struct rope_places places = {
        .config = config, .theta_key = theta->key, .theta = theta->fallback};
    smol_status status = add_type(&places, parameters, "sliding_attention",
                                  "rope_parameters.sliding_attention.", result->family);
    if (!status)
        status = add_table(&places, result);
    if (!status && !result->family->needs_ropes)
        status = check_outer_theta(&places, theta->fallback);
    if (result->model.n_rope_tables == 1)
        result->model.rope_theta = places.theta;
    return status;
}

/* Reads the tables of both types of layers. A table that no layer needs is left out. */
static smol_status read_mixed(const struct json_settings *config, struct config *result)
{
    struct json_settings parameters = *config;
    uint32_t n_windowed = 0, n_full = 0, n_layers = result->model.n_layers;
    parameters.object = smol_setting(config, "rope_parameters");
    parameters.within = "rope_parameters.";
    if (parameters.object && !json_is_object(parameters.object))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, "rope_parameters", "an object");
    for (uint32_t i = 0; i < n_layers; i++)
        if (result->layers[i] & LAYER_WINDOWED)
            n_windowed++;
        else
            n_full += layer_attends(&result->model, i);
    smol_status status = check_nested(&parameters);
    if (!status && n_full > 0)
        status = read_global(config, &parameters, result);
    if (!status && n_windowed > 0)
        status = read_local(config, &parameters, result);
    for (uint32_t i = 0; i < n_layers && result->model.n_rope_tables == 2; i++)
        if (result->layers[i] & LAYER_WINDOWED)
            result->layers[i] |= LAYER_SECOND_TABLE;
    return status;
}

/* Describes a model without rotary embedding: no layer uses the table. */
static void leave_out_rope(struct config *result)
{
    struct blob_model *model = &result->model;
    model->rotary_dim = 2;
    model->n_rope_tables = 1;
    model->rope_theta = 1;
    result->inv_freq[0] = 0;
    for (uint32_t i = 0; i < model->n_layers; i++)
        result->layers[i] |= LAYER_NO_ROTATION;
}

smol_status smol_config_read_rope(const struct json_settings *config, struct config *result)
{
    if (result->family->blocks & BLOCK_POSITIONS) {
        leave_out_rope(result);
        return SMOL_OK;
    }
    if (result->family->varies)
        return smol_config_read_varied(config, result);
    result->model.rotary_dim = result->model.head_dim;
    result->model.n_rope_tables = 0;
    return result->family->local_theta.key ? read_mixed(config, result)
                                           : read_shared(config, result);
}
