/* Names of tensors in GGUF files, see gguf_tensors.h. */
#include "convert/checkpoint/gguf_tensors.h"

#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/checkpoint.h"

static const struct gguf_arch archs[] = {
    {"llama", "LlamaForCausalLM", true, false},     {"qwen2", "Qwen2ForCausalLM", false, false},
    {"qwen3", "Qwen3ForCausalLM", false, false},    {"smollm3", "SmolLM3ForCausalLM", true, false},
    {"granite", "GraniteForCausalLM", true, false}, {"phi3", "Phi3ForCausalLM", false, false},
    {"olmo2", "Olmo2ForCausalLM", false, false},    {"gemma2", "Gemma2ForCausalLM", false, true},
    {"gemma3", "Gemma3ForCausalLM", false, true},
};

/* The names of tensors, with %u for the layer. */
static const char *const names[ROLE_COUNT] = {
    [ROLE_EMBED] = "token_embd.weight",
    [ROLE_FINAL_NORM] = "output_norm.weight",
    [ROLE_OUTPUT] = "output.weight",
    [ROLE_ATTN_NORM] = "blk.%u.attn_norm.weight",
    [ROLE_ATTN_Q] = "blk.%u.attn_q.weight",
    [ROLE_ATTN_K] = "blk.%u.attn_k.weight",
    [ROLE_ATTN_V] = "blk.%u.attn_v.weight",
    [ROLE_ATTN_O] = "blk.%u.attn_output.weight",
    [ROLE_ATTN_Q_BIAS] = "blk.%u.attn_q.bias",
    [ROLE_ATTN_K_BIAS] = "blk.%u.attn_k.bias",
    [ROLE_ATTN_V_BIAS] = "blk.%u.attn_v.bias",
    [ROLE_ATTN_O_BIAS] = "blk.%u.attn_output.bias",
    [ROLE_ATTN_Q_NORM] = "blk.%u.attn_q_norm.weight",
    [ROLE_ATTN_K_NORM] = "blk.%u.attn_k_norm.weight",
    [ROLE_ATTN_OUT_NORM] = "blk.%u.post_attention_norm.weight",
    [ROLE_MLP_NORM] = "blk.%u.ffn_norm.weight",
    [ROLE_MLP_GATE] = "blk.%u.ffn_gate.weight",
    [ROLE_MLP_UP] = "blk.%u.ffn_up.weight",
    [ROLE_MLP_DOWN] = "blk.%u.ffn_down.weight",
    [ROLE_MLP_GATE_BIAS] = "blk.%u.ffn_gate.bias",
    [ROLE_MLP_UP_BIAS] = "blk.%u.ffn_up.bias",
    [ROLE_MLP_DOWN_BIAS] = "blk.%u.ffn_down.bias",
    [ROLE_MLP_OUT_NORM] = "blk.%u.post_ffw_norm.weight",
};

const struct gguf_arch *smol_gguf_arch(const struct gguf *gguf)
{
    const struct gguf_value *value = smol_gguf_find(gguf, "general.architecture");
    const struct gguf_text text = value ? smol_gguf_string(value) : (struct gguf_text){"", 0};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (text.size == strlen(archs[i].name) && memcmp(text.data, archs[i].name, text.size) == 0)
            return &archs[i];
    return NULL;
}

/* Returns the pattern of the checkpoint's name for a tensor called `name` here, or NULL. */
static const char *find_pattern(const struct family *family, const char *name,
                                struct tensor_key *key)
{
    static const char *const fused[FAMILY_MAX_FUSED] = {"blk.%u.attn_qkv.weight",
                                                        "blk.%u.ffn_up.weight"};
    key->role = ROLE_COUNT;
    for (size_t i = 0; i < FAMILY_MAX_FUSED; i++)
        if (family->fused[i].name && smol_checkpoint_matches(fused[i], name, key))
            return family->fused[i].name;
    for (int i = 0; i < ROLE_COUNT; i++)
        if (names[i] && family->names[i] && smol_checkpoint_matches(names[i], name, key)) {
            key->role = (enum tensor_role)i;
            return family->names[i];
        }
    return NULL;
}

/* Returns the number of rows of a head of q or k, whose number is in the key; 0 if it is none. */
static uint64_t rows_of_head(const struct gguf *gguf, const struct gguf_arch *arch,
                             enum tensor_role role, uint64_t rows)
{
    bool of_q = role == ROLE_ATTN_Q || role == ROLE_ATTN_Q_BIAS;
    bool of_k = role == ROLE_ATTN_K || role == ROLE_ATTN_K_BIAS;
    char key[64];
    uint64_t heads = 0;
    if (!of_q && !of_k)
        return 0;
    snprintf(key, sizeof key, "%s.attention.head_count%s", arch->name, of_k ? "_kv" : "");
    const struct gguf_value *value = smol_gguf_find(gguf, key);
    if (!value && of_k) { /* as many as heads */
        snprintf(key, sizeof key, "%s.attention.head_count", arch->name);
        value = smol_gguf_find(gguf, key);
    }
    if (!value || !smol_gguf_integer(value, &heads) || heads == 0 || rows % heads != 0)
        return 0; /* the shape is refused later */
    return rows / heads % 2 ? 0 : rows / heads;
}

void smol_gguf_name_tensors(const struct gguf *gguf, struct safetensors *reader)
{
    const struct gguf_arch *arch = smol_gguf_arch(gguf);
    const struct family *family = arch ? smol_family_by_architecture(arch->architecture) : NULL;
    for (size_t i = 0; family && i < reader->n_tensors; i++) {
        struct safetensors_tensor *tensor = &reader->tensors[i];
        struct tensor_key key;
        const char *pattern = find_pattern(family, tensor->name, &key);
        if (!pattern)
            continue;
        if (arch->pairs_rows)
            tensor->paired_rows = rows_of_head(gguf, arch, key.role, tensor->shape[0]);
        smol_checkpoint_format(pattern, key, (char *)(uintptr_t)tensor->name);
    }
}

bool smol_describe_quantized(const struct safetensors *all, char text[QUANTIZED_TEXT])
{
    size_t counts[N_ELEMENT_DTYPES] = {0}, n = 0, length;
    for (size_t i = 0; i < all->n_tensors; i++) {
        counts[all->tensors[i].dtype]++;
        n += smol_element_block(all->tensors[i].dtype).elements > 1;
    }
    if (n == 0)
        return false;
    length = (size_t)snprintf(text, QUANTIZED_TEXT, "%zu of %zu tensors", n, all->n_tensors);
    const char *before = ": ";
    for (unsigned i = N_SAFETENSORS_DTYPES; i < N_ELEMENT_DTYPES; i++) {
        if (counts[i] == 0)
            continue;
        length += (size_t)snprintf(text + length, QUANTIZED_TEXT - length, "%s%zu %s", before,
                                   counts[i], smol_element_name((enum safetensors_dtype)i));
        before = ", ";
    }
    return true;
}
