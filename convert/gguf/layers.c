/* Layers with states or experts in a GGUF file, see maker.h. */
#include "convert/gguf/maker.h"

#include "format/model.h"

/* The architectures whose layers may have states, with the names of such a layer, and of one that
 * attends, in config.json's layer_types. */
static const struct mixed_arch {
    enum gguf_kind kinds;
    const char *state, *attention;
} mixed_archs[] = {
    {OF_LFM2 | OF_LFM2MOE, "conv", "full_attention"},
    {OF_HYBRID, "mamba", "attention"},
};

/* --- layers that attend ------------------------------------------------------------------- */

static const struct mixed_arch *find_mixed(const struct maker *m)
{
    for (size_t i = 0; i < sizeof mixed_archs / sizeof mixed_archs[0]; i++)
        if (m->arch->kind & mixed_archs[i].kinds)
            return &mixed_archs[i];
    return NULL;
}

/* Reads a list of the heads of each layer: 0 in those with a state, and one number in the others.
 * *n is that number. */
static smol_status check_heads(const struct maker *m, const struct gguf_value *list, bool may_lack,
                               uint64_t *n)
{
    uint64_t layers = smol_maker_setting(m, "num_hidden_layers"), heads;
    *n = 0;
    if (list->n != layers)
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: %.*s has %llu numbers for %llu layers: download the file again",
                         m->gguf->path, gguf_shown(list->key), list->key.data,
                         (unsigned long long)list->n, (unsigned long long)layers);
    for (uint64_t i = 0; i < list->n; i++) {
        if (!smol_gguf_integer_at(list, i, &heads) || heads > UINT32_MAX)
            return smol_maker_fail_value(m, list, "a list of whole numbers, 0 or more");
        if ((heads == 0 && !may_lack) || (heads > 0 && *n > 0 && heads != *n))
            return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: %.*s differs between layers, which is not supported in %s",
                             m->gguf->path, gguf_shown(list->key), list->key.data, m->arch->name);
        *n = heads ? heads : *n;
    }
    return SMOL_OK;
}

/* Takes the last layers away, if all they do is to predict further tokens. */
static smol_status take_further(struct maker *m, uint64_t *further)
{
    uint64_t layers = smol_maker_setting(m, "num_hidden_layers");
    *further = 0;
    smol_status status = smol_maker_integer(m, "nextn_predict_layers", further);
    if (status || *further == 0)
        return status;
    if (*further >= layers)
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: %s.nextn_predict_layers %llu must be below %s.block_count %llu",
                         m->gguf->path, m->arch->name, (unsigned long long)*further, m->arch->name,
                         (unsigned long long)layers);
    smol_maker_put_integer(m, "num_hidden_layers", layers - *further);
    return SMOL_OK;
}

/* Reads the heads of keys and values: a number, or a list that also tells which layers attend. */
static smol_status take_attending(struct maker *m)
{
    const struct gguf_value *value = smol_maker_find(m, "attention.head_count_kv");
    const struct mixed_arch *mixed = find_mixed(m);
    bool is_list = value && value->type == GGUF_ARRAY;
    uint64_t query_heads = smol_maker_setting(m, "num_attention_heads");
    if (m->arch->kind == OF_GEMMA4) /* see varied.c */
        return SMOL_OK;
    uint64_t heads = query_heads; /* if the key is missing */
    smol_status status = is_list ? check_heads(m, value, mixed, &heads)
                                 : smol_maker_integer(m, "attention.head_count_kv", &heads);
    if (status)
        return status;
    if (is_list && heads == 0) /* no layer attends, which is refused later */
        heads = query_heads;
    smol_maker_put_integer(m, "num_key_value_heads", heads);
    if (!mixed || !is_list || value->n > MODEL_MAX_LAYERS) /* so many are refused later */
        return SMOL_OK;
    json_t *types = json_array();
    for (uint64_t i = 0; i < value->n && smol_gguf_integer_at(value, i, &heads); i++)
        smol_maker_append(m, types, json_string(heads ? mixed->attention : mixed->state));
    smol_maker_put(m, m->object, "layer_types", types);
    return SMOL_OK;
}

/* Puts the types of layers by a list with a flag for each of them, and for `further` ones. */
static smol_status put_types(struct maker *m, const struct gguf_value *flags, uint64_t further,
                             const char *set, const char *unset)
{
    uint64_t layers = smol_maker_setting(m, "num_hidden_layers");
    if (flags->type != GGUF_ARRAY || flags->item != GGUF_BOOL || flags->n != layers + further)
        return smol_maker_fail_value(m, flags, "a list of a flag for each layer");
    json_t *types = json_array();
    for (uint64_t i = 0; i < layers && i <= MODEL_MAX_LAYERS; i++) /* more are refused later */
        smol_maker_append(m, types, json_string(flags->data[i] ? set : unset));
    smol_maker_put(m, m->object, "layer_types", types);
    return SMOL_OK;
}

/* Reads which layers have windows, if any: by a list, or else as the family says. */
static smol_status take_windows(struct maker *m)
{
    const struct gguf_value *list = smol_maker_find(m, "attention.sliding_window_pattern");
    if (!list || smol_maker_setting(m, "sliding_window") == 0)
        return SMOL_OK;
    return put_types(m, list, 0, "sliding_attention", "full_attention");
}

/* --- states ------------------------------------------------------------------------------- */

/* Puts the width of layers with states, divided by `n`, the value of `key`. */
static smol_status put_width(struct maker *m, const char *setting, const char *key, uint64_t n)
{
    uint64_t width = 0;
    smol_status status = smol_maker_integer(m, "ssm.inner_size", &width);
    if (status)
        return status;
    if (width == 0 || n == 0 || width % n != 0)
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: %s.ssm.inner_size %llu must be a multiple of %s.%s %llu",
                         m->gguf->path, m->arch->name, (unsigned long long)width, m->arch->name,
                         key, (unsigned long long)n);
    smol_maker_put_integer(m, setting, width / n);
    return SMOL_OK;
}

/* Reads the width of Mamba2 layers, which config.json states as a multiple of hidden_size. */
static smol_status take_mamba(struct maker *m)
{
    return put_width(m, "mamba_expand", "embedding_length", smol_maker_setting(m, "hidden_size"));
}

/* Reads the width of heads of values, and which layers of Qwen's models have states: by a list, or
 * all but each n-th. */
static smol_status take_delta(struct maker *m, uint64_t further)
{
    const struct gguf_value *list = smol_maker_find(m, "attention.recurrent_layers");
    smol_status status = put_width(m, "linear_value_head_dim", "ssm.time_step_rank",
                                   smol_maker_setting(m, "linear_num_value_heads"));
    if (status || !list)
        return status;
    return put_types(m, list, further, "linear_attention", "full_attention");
}

/* Reads whether the attention of Granite's models rotates: a key that elsewhere is about training.
 */
static smol_status take_rotation(struct maker *m)
{
    const struct gguf_value *value = smol_maker_find(m, "rope.scaling.finetuned");
    bool rotates = true;
    if (value && !smol_gguf_flag(value, &rotates))
        return smol_maker_fail_value(m, value, "a flag");
    if (!rotates && m->arch->kind != OF_HYBRID)
        return smol_fail(
            m->error, SMOL_ERROR_UNSUPPORTED,
            "%s: %s.rope.scaling.finetuned is false: attention without rotation is not "
            "supported in %s",
            m->gguf->path, m->arch->name, m->arch->name);
    if (m->arch->kind == OF_HYBRID)
        smol_maker_put(m, m->object, "position_embedding_type",
                       json_string(rotates ? "rope" : "nope"));
    return SMOL_OK;
}

/* Reads the width of the MLP that every token uses. In Granite 4.0 it is the only one of models
 * without experts. */
static smol_status take_shared(struct maker *m)
{
    uint64_t width = 0;
    smol_status status = smol_maker_integer(m, "expert_shared_feed_forward_length", &width);
    if (width == 0)
        width = smol_maker_setting(m, "intermediate_size");
    smol_maker_put_integer(
        m, m->arch->kind == OF_GRANITE ? "intermediate_size" : "shared_intermediate_size", width);
    return status;
}

/* --- experts ------------------------------------------------------------------------------ */

/* Checks the function that makes weights of experts, by its number in the format. */
static smol_status take_gating(const struct maker *m)
{
    const struct gguf_value *value = smol_maker_find(m, "expert_gating_func");
    bool sigmoid = m->arch->kind == OF_LFM2MOE;
    uint64_t found = 0;
    if (!value || (smol_gguf_integer(value, &found) && found == (sigmoid ? 2 : 1)))
        return SMOL_OK;
    return smol_maker_fail_value(m, value, sigmoid ? "2 (sigmoid)" : "1 (softmax)");
}

/* Sets whether weights are normalized, which llama.cpp's converter leaves out. */
static void put_norm(struct maker *m)
{
    if (!json_object_get(m->object, "norm_topk_prob"))
        smol_maker_put(m, m->object, "norm_topk_prob", json_boolean(m->arch->kind != OF_OLMOE));
}

smol_status smol_gguf_take_layers(struct maker *m)
{
    uint64_t further = 0;
    smol_status status = take_further(m, &further);
    if (!status)
        status = take_attending(m);
    if (!status)
        status = take_windows(m);
    if (!status && m->arch->kind == OF_LFM2)
        smol_maker_put(m, m->object, "block_auto_adjust_ff_dim", json_false());
    if (!status && m->arch->kind == OF_HYBRID)
        status = take_mamba(m);
    if (!status && json_object_get(m->object, "linear_num_value_heads"))
        status = take_delta(m, further);
    if (!status && m->arch->kind & OF_GRANITES)
        status = take_rotation(m);
    if (!status && m->arch->kind & (OF_GRANITE | OF_HYBRID))
        status = take_shared(m);
    if (!status)
        status = take_gating(m);
    if (!status)
        put_norm(m);
    return status;
}
