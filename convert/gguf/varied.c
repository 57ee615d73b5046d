/* Layers that differ in shape in a GGUF file, see maker.h: keys of Gemma 4. */
#include <stdio.h>

#include "convert/gguf/maker.h"

/* How layers are told apart: those of the second kind have no window, or are the first or later
 * ones that share keys and values. */
struct kinds {
    const uint8_t *windowed; /* (layers); NULL: by the number of the layer */
    uint64_t layers, first_shared;
};

static bool is_second(const struct kinds *kinds, uint64_t layer)
{
    return kinds->windowed ? !kinds->windowed[layer] : layer >= kinds->first_shared;
}

/* Reads a number of each of both kinds: a key has one of all layers, or a list with one for each.
 * values[1] is 0 if no layer is of the second kind. */
static smol_status read_pair(const struct maker *m, const char *key, const struct kinds *kinds,
                             uint64_t values[2])
{
    const struct gguf_value *value = smol_maker_find(m, key);
    uint64_t number = 0;
    bool is_list = value && value->type == GGUF_ARRAY;
    values[0] = values[1] = 0;
    if (is_list && value->n != kinds->layers)
        return smol_maker_fail_value(m, value, "a number, or a list of one for each layer");
    if (!is_list) {
        smol_status status = smol_maker_integer(m, key, &values[0]);
        values[1] = values[0];
        return status;
    }
    for (uint64_t i = 0; i < kinds->layers; i++) {
        uint64_t *known = &values[is_second(kinds, i)];
        if (!smol_gguf_integer_at(value, i, &number) || number == 0 || number > UINT32_MAX ||
            (*known && number != *known))
            return smol_maker_fail_value(m, value, "alike in all layers of a kind, and above 0");
        *known = number;
    }
    return SMOL_OK;
}

/* Reads the heads of keys. Windowed layers come first in *kinds. */
static smol_status take_heads(struct maker *m, const struct kinds *kinds)
{
    uint64_t heads[2];
    smol_status status = read_pair(m, "attention.head_count_kv", kinds, heads);
    smol_maker_put_integer(m, "num_key_value_heads", heads[0] ? heads[0] : heads[1]);
    smol_maker_put_integer(m, "num_global_key_value_heads", heads[1]);
    return status;
}

/* Reads the width of the MLP, which may be twice as large in layers that share. */
static smol_status take_widths(struct maker *m, const struct kinds *kinds)
{
    static const char key[] = "feed_forward_length";
    uint64_t widths[2];
    smol_status status = read_pair(m, key, kinds, widths);
    bool shares = kinds->first_shared < kinds->layers, doubles = widths[1] == 2 * widths[0];
    if (!status && shares && !doubles && widths[1] != widths[0])
        return smol_maker_fail_value(m, smol_maker_find(m, key),
                                     "the same, or twice as large, in layers that share");
    smol_maker_put_integer(m, "intermediate_size", widths[0]);
    smol_maker_put(m, m->object, "use_double_wide_mlp", json_boolean(shares && doubles));
    return status;
}

/* Checks that values are as long as keys, and that all of a head rotates. */
static smol_status check_lengths(const struct maker *m)
{
    static const char *const same[][2] = {{"attention.value_length", "global_head_dim"},
                                          {"rope.dimension_count", "global_head_dim"},
                                          {"attention.value_length_swa", "head_dim"},
                                          {"rope.dimension_count_swa", "head_dim"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        uint64_t size = smol_maker_setting(m, same[i][1]), length = size;
        smol_status status = smol_maker_integer(m, same[i][0], &length);
        if (!status && length != size)
            status = smol_maker_fail_value(m, smol_maker_find(m, same[i][0]), "the length of keys");
        if (status)
            return status;
    }
    return SMOL_OK;
}

static bool has_values(const struct safetensors *tensors, uint64_t layer)
{
    static const char *const parts[] = {"v_proj", "qkv_proj"};
    char name[64];
    bool found = false;
    for (size_t i = 0; i < 2 && !found; i++) {
        snprintf(name, sizeof name, "model.layers.%llu.self_attn.%s.weight",
                 (unsigned long long)layer, parts[i]);
        found = smol_safetensors_find(tensors, name);
    }
    return found;
}

/* Reads from the tensors what no key tells: whether keys are values in layers without windows, and
 * the rows of the table of inputs. */
static void take_tensors(struct maker *m, const struct kinds *kinds,
                         const struct safetensors *tensors)
{
    const struct safetensors_tensor *table =
        smol_safetensors_find(tensors, "model.embed_tokens_per_layer.weight");
    bool shared = false;
    for (uint64_t i = 0; i < kinds->first_shared && !shared; i++)
        shared = is_second(kinds, i) && !has_values(tensors, i);
    smol_maker_put(m, m->object, "attention_k_eq_v", json_boolean(shared));
    if (table && table->rank == 2)
        smol_maker_put_integer(m, "vocab_size_per_layer_input", table->shape[0]);
}

smol_status smol_gguf_take_varied(struct maker *m, const struct safetensors *tensors)
{
    const struct gguf_value *list = smol_maker_find(m, "attention.sliding_window_pattern");
    uint64_t layers = smol_maker_setting(m, "num_hidden_layers");
    uint64_t sharing = smol_maker_setting(m, "num_kv_shared_layers");
    struct kinds kinds = {NULL, layers, sharing < layers ? layers - sharing : 0};
    smol_status status = take_widths(m, &kinds);
    if (!status)
        status = check_lengths(m);
    if (status)
        return status;
    if (!list || list->type != GGUF_ARRAY || list->item != GGUF_BOOL || list->n != layers)
        return list ? smol_maker_fail_value(m, list, "a list of a flag for each layer")
                    : smol_fail(m->error, SMOL_ERROR_DAMAGED,
                                "%s: %s.attention.sliding_window_pattern is missing: download the "
                                "file again",
                                m->gguf->path, m->arch->name);
    kinds.windowed = list->data;
    take_tensors(m, &kinds, tensors);
    return take_heads(m, &kinds);
}
