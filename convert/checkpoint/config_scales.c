/* Reads quantization_config: how weights are that a tool has quantized, see config_model.h. */
#include <stdint.h>
#include <string.h>

#include "convert/checkpoint/config_model.h"

static const char remedy[] =
    "weights quantized in this way are not supported: convert the original checkpoint";

/* Returns an object within another one. The object is NULL if there is none. */
static struct json_settings inside(const struct json_settings *outer, const char *name,
                                   const char *within)
{
    struct json_settings inner = *outer;
    inner.object = smol_setting(outer, name);
    inner.within = within;
    inner.nullable = NULL;
    return inner;
}

/* Refuses a text that is none of the list, which ends with NULL; `fallback` if the key is absent.
 */
static smol_status demand_text(const struct json_settings *from, const char *name,
                               const char *const *allowed, const char *fallback)
{
    smol_status status = smol_setting_string(from, name, &fallback);
    for (; !status && fallback && *allowed; allowed++)
        if (strcmp(fallback, *allowed) == 0)
            return SMOL_OK;
    return status ? status : smol_setting_fail(from, SMOL_ERROR_UNSUPPORTED, name, remedy);
}

/* Takes the size of blocks: those of all matrices must be alike. */
static smol_status set_block(const struct json_settings *from, const char *name, uint32_t rows,
                             uint32_t cols, struct scale_rules *rules)
{
    const uint32_t block[2] = {rows, cols};
    if (rules->block[0] && memcmp(rules->block, block, sizeof block) != 0)
        return smol_setting_fail(from, SMOL_ERROR_UNSUPPORTED, name,
                                 "blocks of several sizes are not supported: convert the original "
                                 "checkpoint");
    memcpy(rules->block, block, sizeof block);
    return SMOL_OK;
}

/* Reads a size of blocks, [rows, columns], if the key is there. */
static smol_status read_block(const struct json_settings *from, const char *name,
                              struct scale_rules *rules)
{
    const json_t *list = smol_setting(from, name);
    json_int_t sizes[2] = {0};
    for (size_t i = 0; i < 2; i++)
        sizes[i] = json_integer_value(json_array_get(list, i));
    if (!list)
        return SMOL_OK;
    if (json_array_size(list) != 2 || sizes[0] < 1 || sizes[0] > INT32_MAX || sizes[1] < 1 ||
        sizes[1] > INT32_MAX)
        return smol_setting_expect(from, SMOL_ERROR_DAMAGED, name,
                                   "a list of two positive integers");
    return set_block(from, name, (uint32_t)sizes[0], (uint32_t)sizes[1], rules);
}

/* Reads the `weights` of a group of layers in the form of compressed-tensors. */
static smol_status read_weights(const struct json_settings *weights, struct scale_rules *rules)
{
    static const char *const types[] = {"int", "float", NULL};
    uint32_t bits = 8, symmetric = 1, group = 0;
    const char *type = "int";
    smol_status status = smol_setting_integer(weights, "num_bits", 1, 64, &bits);
    if (!status && bits != 8)
        return smol_setting_fail(weights, SMOL_ERROR_UNSUPPORTED, "num_bits", remedy);
    if (!status)
        status = demand_text(weights, "type", types, type);
    if (!status)
        status = smol_setting_string(weights, "type", &type);
    if (!status)
        status = smol_setting_flag(weights, "symmetric", &symmetric);
    if (!status && !symmetric)
        return smol_setting_fail(weights, SMOL_ERROR_UNSUPPORTED, "symmetric", remedy);
    if (!status)
        status = read_block(weights, "block_structure", rules);
    const json_t *size = smol_setting(weights, "group_size");
    if (!status && json_is_integer(size) && json_integer_value(size) != -1)
        status = smol_setting_integer(weights, "group_size", 1, INT32_MAX, &group);
    if (!status && group > 0)
        status = set_block(weights, "group_size", 1, group, rules);
    rules->has_integers = rules->has_integers || strcmp(type, "int") == 0;
    return status;
}

/* Refuses what changes weights in another way: a format of sparse matrices, and rotations. */
static smol_status check_changes(const struct json_settings *from)
{
    static const char *const dense[] = {"dense", NULL};
    const struct json_settings sparsity =
        inside(from, "sparsity_config", "quantization_config.sparsity_config.");
    const json_t *transform = smol_setting(from, "transform_config");
    const json_t *groups = json_object_get(transform, "config_groups");
    if (json_object_size(groups) > 0 || (transform && !json_is_object(transform)))
        return smol_setting_fail(from, SMOL_ERROR_UNSUPPORTED, "transform_config", remedy);
    return demand_text(&sparsity, "format", dense, "dense");
}

static smol_status read_compressed(const struct json_settings *from, struct scale_rules *rules)
{
    static const char *const formats[] = {"float-quantized", "int-quantized", "naive-quantized",
                                          "mixed-precision", NULL};
    const struct json_settings groups =
        inside(from, "config_groups", "quantization_config.config_groups.");
    const char *name;
    json_t *ignored;
    smol_status status = demand_text(from, "format", formats, NULL);
    if (!status)
        status = check_changes(from);
    if (!status && !json_is_object(groups.object))
        status = smol_setting_expect(from, SMOL_ERROR_DAMAGED, "config_groups", "an object");
    if (status)
        return status;
    json_object_foreach(groups.object, name, ignored)
    {
        const struct json_settings group = inside(&groups, name, "quantization_config.group.");
        const struct json_settings weights =
            inside(&group, "weights", "quantization_config.group.weights.");
        if (!json_is_object(group.object))
            return smol_setting_expect(&groups, SMOL_ERROR_DAMAGED, name, "an object");
        status = demand_text(&group, "format", formats, formats[0]);
        if (!status && weights.object)
            status = read_weights(&weights, rules);
        if (status)
            return status;
    }
    return SMOL_OK;
}

smol_status smol_config_read_scales(const struct json_settings *config, struct scale_rules *rules)
{
    static const char *const methods[] = {"fp8", "compressed-tensors", "fbgemm_fp8", "modelopt",
                                          NULL};
    static const char *const fp8[] = {"FP8", NULL};
    static const char key[] = "quantization_config";
    const struct json_settings from = inside(config, key, "quantization_config.");
    const char *method = NULL;
    *rules = (struct scale_rules){.scaled = false};
    if (!from.object)
        return SMOL_OK;
    if (!json_is_object(from.object) || !smol_setting(&from, "quant_method"))
        return smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, key, remedy);
    rules->scaled = true;
    smol_status status = demand_text(&from, "quant_method", methods, NULL);
    if (!status)
        status = smol_setting_string(&from, "quant_method", &method);
    if (!status && strcmp(method, "modelopt") == 0)
        status = demand_text(&from, "quant_algo", fp8, NULL);
    if (!status && strcmp(method, "compressed-tensors") == 0)
        return read_compressed(&from, rules);
    return status ? status : read_block(&from, "weight_block_size", rules);
}
