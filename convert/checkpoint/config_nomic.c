/* Keys of NomicBert's configuration, see config_model.h. Its checkpoints were published with code
 * of their own, whose configuration is GPT-2's with further keys. That of transformers has keys
 * like BERT's, and keeps the old ones, so files that it has written may have both. */
#include "convert/checkpoint/config_model.h"

#include <string.h>

static const struct {
    const char *old, *today;
} names[] = {
    {"n_embd", "hidden_size"},
    {"n_inner", "intermediate_size"},
    {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"layer_norm_epsilon", "layer_norm_eps"},
    {"rotary_emb_base", "rope_theta"},
    {"n_positions", "max_position_embeddings"},
};

/* Gives a number its key of today. The old code has other defaults, so `required` keys must be
 * there. If both keys are, they must agree; of two lengths of texts the larger one counts. A wrong
 * type of the key of today is left to its reader. */
static smol_status rename_key(const struct json_settings *config, const char *old,
                              const char *today, bool required)
{
    json_t *value = smol_setting(config, old), *other = smol_setting(config, today);
    bool is_length = strcmp(old, "n_positions") == 0;
    if (!value && !(required && !other))
        return SMOL_OK;
    if (!json_is_number(value))
        return smol_setting_expect(config, SMOL_ERROR_DAMAGED, old, "a number");
    double number = json_number_value(value), known = json_number_value(other);
    if (other && (!json_is_number(other) || number == known || (is_length && number < known)))
        return SMOL_OK;
    if (other && !is_length)
        return smol_fail(config->error, SMOL_ERROR_DAMAGED,
                         "%s: %s is %.9g, but %s is not: correct one of them", config->path, old,
                         number, today);
    return json_object_set(config->object, today, value)
               ? smol_fail_memory(config->error, "a setting")
               : SMOL_OK;
}

/* Refuses what the old code can compute and this family does not. */
static smol_status check_features(const struct json_settings *config)
{
    static const char *const flags[] = {
        "qkv_proj_bias",  "mlp_fc1_bias", "mlp_fc2_bias", "prenorm",
        "parallel_block", "causal",       "use_rms_norm", "rotary_emb_interleaved",
    };
    static const char *const numbers[] = {"rotary_emb_scale_base", "rotary_scaling_factor",
                                          "num_heads_kv", "moe_every_n_layers"};
    double fraction = 1;
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && !status; i++)
        status = smol_setting_demand(config, flags[i], 0, "this is not supported");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++)
        if (json_number_value(smol_setting(config, numbers[i])) != 0)
            status = smol_setting_fail(config, SMOL_ERROR_UNSUPPORTED, numbers[i],
                                       "this is not supported");
    if (!status)
        status = smol_setting_real(config, "rotary_emb_fraction", 0, 1, &fraction);
    return status || fraction == 1
               ? status
               : smol_setting_expect(config, SMOL_ERROR_UNSUPPORTED, "rotary_emb_fraction", "1");
}

smol_status smol_config_rename_nomic(const struct json_settings *config)
{
    bool is_old = smol_setting(config, "n_embd") && !smol_setting(config, "hidden_size");
    smol_status status = check_features(config);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !status; i++)
        status = rename_key(config, names[i].old, names[i].today, is_old);
    return status;
}
