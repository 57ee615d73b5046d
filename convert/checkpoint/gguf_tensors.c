/* Names of tensors in GGUF files, see gguf_tensors.h. */
#include "convert/checkpoint/gguf_tensors.h"

#include <stdio.h>
#include <string.h>

#include "convert/checkpoint/checkpoint.h"

/* A tensor's name, with %u for the layer, and its role. If it is fused, the role is that of its
 * first part, and the family has an entry of .fused that begins with it. */
struct gguf_name {
    const char *name;
    enum tensor_role role;
    bool fused;
};

#define BLOCK(name) ("blk.%u." name)

/* The names that all architectures share. */
static const struct gguf_name common[] = {
    {"token_embd.weight", ROLE_EMBED, false},
    {"output_norm.weight", ROLE_FINAL_NORM, false},
    {"output.weight", ROLE_OUTPUT, false},
    {BLOCK("attn_norm.weight"), ROLE_ATTN_NORM, false},
    {BLOCK("attn_q.weight"), ROLE_ATTN_Q, false},
    {BLOCK("attn_k.weight"), ROLE_ATTN_K, false},
    {BLOCK("attn_v.weight"), ROLE_ATTN_V, false},
    {BLOCK("attn_output.weight"), ROLE_ATTN_O, false},
    {BLOCK("attn_q.bias"), ROLE_ATTN_Q_BIAS, false},
    {BLOCK("attn_k.bias"), ROLE_ATTN_K_BIAS, false},
    {BLOCK("attn_v.bias"), ROLE_ATTN_V_BIAS, false},
    {BLOCK("attn_output.bias"), ROLE_ATTN_O_BIAS, false},
    {BLOCK("attn_q_norm.weight"), ROLE_ATTN_Q_NORM, false},
    {BLOCK("attn_k_norm.weight"), ROLE_ATTN_K_NORM, false},
    {BLOCK("post_attention_norm.weight"), ROLE_ATTN_OUT_NORM, false},
    {BLOCK("ffn_norm.weight"), ROLE_MLP_NORM, false},
    {BLOCK("ffn_gate.weight"), ROLE_MLP_GATE, false},
    {BLOCK("ffn_up.weight"), ROLE_MLP_UP, false},
    {BLOCK("ffn_down.weight"), ROLE_MLP_DOWN, false},
    {BLOCK("ffn_gate.bias"), ROLE_MLP_GATE_BIAS, false},
    {BLOCK("ffn_up.bias"), ROLE_MLP_UP_BIAS, false},
    {BLOCK("ffn_down.bias"), ROLE_MLP_DOWN_BIAS, false},
    {BLOCK("post_ffw_norm.weight"), ROLE_MLP_OUT_NORM, false},
    {BLOCK("ffn_gate_inp.weight"), ROLE_ROUTER, false},
    {BLOCK("exp_probs_b.bias"), ROLE_ROUTER_BIAS, false},
    {NULL, ROLE_COUNT, false},
};

/* The names that an architecture has before these. */
static const struct gguf_name phi3[] = {
    {BLOCK("attn_qkv.weight"), ROLE_ATTN_Q, true},
    {BLOCK("ffn_up.weight"), ROLE_MLP_GATE, true},
    {NULL, ROLE_COUNT, false},
};
static const struct gguf_name lfm2[] = {
    {"token_embd_norm.weight", ROLE_FINAL_NORM, false},
    {BLOCK("shortconv.in_proj.weight"), ROLE_MIXER_IN, false},
    {BLOCK("shortconv.in_proj.bias"), ROLE_MIXER_IN_BIAS, false},
    {BLOCK("shortconv.conv.weight"), ROLE_MIXER_CONV, true},
    {BLOCK("shortconv.conv.bias"), ROLE_MIXER_CONV_BIAS, false},
    {BLOCK("shortconv.out_proj.weight"), ROLE_MIXER_OUT, false},
    {BLOCK("shortconv.out_proj.bias"), ROLE_MIXER_OUT_BIAS, false},
    {NULL, ROLE_COUNT, false},
};
#define SHARED_MLP                                                                                 \
    {BLOCK("ffn_gate_shexp.weight"), ROLE_MLP_GATE, false},                                        \
        {BLOCK("ffn_up_shexp.weight"), ROLE_MLP_UP, false},                                        \
    {                                                                                              \
        BLOCK("ffn_down_shexp.weight"), ROLE_MLP_DOWN, false                                       \
    }
#define RECURRENCE                                                                                 \
    {BLOCK("ssm_conv1d.weight"), ROLE_MIXER_CONV, true},                                           \
        {BLOCK("ssm_dt.bias"), ROLE_MIXER_STEP_BIAS, false},                                       \
        {BLOCK("ssm_a"), ROLE_MIXER_DECAY, false},                                                 \
        {BLOCK("ssm_norm.weight"), ROLE_MIXER_NORM, false},                                        \
    {                                                                                              \
        BLOCK("ssm_out.weight"), ROLE_MIXER_OUT, false                                             \
    }
static const struct gguf_name granite_moe[] = {SHARED_MLP, {NULL, ROLE_COUNT, false}};
static const struct gguf_name granite_hybrid[] = {
    SHARED_MLP,
    RECURRENCE,
    {BLOCK("ssm_in.weight"), ROLE_MIXER_GATE, true},
    {BLOCK("ssm_conv1d.bias"), ROLE_MIXER_CONV_BIAS, false},
    {BLOCK("ssm_d"), ROLE_MIXER_SKIP, false},
    {NULL, ROLE_COUNT, false},
};

static const struct gguf_arch archs[] = {
    {"llama", "LlamaForCausalLM", true, false, common},
    {"qwen2", "Qwen2ForCausalLM", false, false, common},
    {"qwen3", "Qwen3ForCausalLM", false, false, common},
    {"smollm3", "SmolLM3ForCausalLM", true, false, common},
    {"granite", "GraniteForCausalLM", true, false, common},
    {"phi3", "Phi3ForCausalLM", false, false, phi3},
    {"olmo2", "Olmo2ForCausalLM", false, false, common},
    {"gemma2", "Gemma2ForCausalLM", false, true, common},
    {"gemma3", "Gemma3ForCausalLM", false, true, common},
    {"lfm2", "Lfm2ForCausalLM", false, false, lfm2},
    {"lfm2moe", "Lfm2MoeForCausalLM", false, false, lfm2},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", true, false, granite_hybrid},
    {"olmoe", "OlmoeForCausalLM", false, false, common},
    {"qwen3moe", "Qwen3MoeForCausalLM", false, false, common},
    {"granitemoe", "GraniteMoeForCausalLM", true, false, common},
};

/* The other family of an architecture: with an MLP that every token uses. */
static const struct gguf_arch granite_shared = {"granitemoe", "GraniteMoeSharedForCausalLM", true,
                                                false, granite_moe};

/* The experts of a layer, which have one tensor for each of their matrices. Names stay as they are,
 * those of the parts are the family's. */
static const struct family_fused experts[] = {
    {BLOCK("ffn_gate_exps.weight"), {ROLE_EXPERT_GATE}, 1, FUSION_STACKED, true, true},
    {BLOCK("ffn_up_exps.weight"), {ROLE_EXPERT_UP}, 1, FUSION_STACKED, true, true},
    {BLOCK("ffn_down_exps.weight"), {ROLE_EXPERT_DOWN}, 1, FUSION_STACKED, true, true},
};

static bool has_shared_mlp(const struct gguf *gguf)
{
    uint64_t width = 0;
    const struct gguf_value *value =
        smol_gguf_find(gguf, "granitemoe.expert_shared_feed_forward_length");
    return value && smol_gguf_integer(value, &width) && width > 0;
}

const struct gguf_arch *smol_gguf_arch(const struct gguf *gguf)
{
    const struct gguf_value *value = smol_gguf_find(gguf, "general.architecture");
    const struct gguf_text text = value ? smol_gguf_string(value) : (struct gguf_text){"", 0};
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (text.size == strlen(archs[i].name) && memcmp(text.data, archs[i].name, text.size) == 0)
            return has_shared_mlp(gguf) && strcmp(archs[i].name, granite_shared.name) == 0
                       ? &granite_shared
                       : &archs[i];
    return NULL;
}

const char *smol_gguf_arch_list(char text[GGUF_ARCH_LIST])
{
    size_t length = 0;
    for (size_t i = 0; i < sizeof archs / sizeof archs[0] && length < GGUF_ARCH_LIST; i++) {
        const char *before = i == 0 ? "" : i + 1 < sizeof archs / sizeof archs[0] ? ", " : " or ";
        length +=
            (size_t)snprintf(text + length, GGUF_ARCH_LIST - length, "%s%s", before, archs[i].name);
    }
    return text;
}

/* Returns the family's fused tensor that begins with the role, or NULL. */
static const struct family_fused *find_fused(const struct family *family, enum tensor_role role)
{
    for (size_t i = 0; i < FAMILY_MAX_FUSED && family->fused[i].name; i++)
        if (family->fused[i].roles[0] == role)
            return &family->fused[i];
    return NULL;
}

void smol_gguf_adapt(const struct gguf_arch *arch, struct family *family)
{
    const struct family original = *family;
    size_t n = 0;
    memset(family->fused, 0, sizeof family->fused);
    for (const struct gguf_name *own = arch->names; own->name; own++) {
        const struct family_fused *fused = own->fused ? find_fused(&original, own->role) : NULL;
        if (!fused)
            continue;
        family->fused[n] = *fused;
        if (fused->fusion == FUSION_CONV) /* without the dimension of 1 */
            family->fused[n].fusion = FUSION_TURNED;
        n++;
    }
    for (size_t i = 0; family->experts.n.key && i < sizeof experts / sizeof experts[0]; i++)
        family->fused[n++] = experts[i];
    if (arch->adds_offset)
        family->norm_offset = 0;
}

/* Returns what find_pattern does, of these names. */
static const char *find_in(const struct gguf_name *names, const struct family *family,
                           const char *name, struct tensor_key *key)
{
    for (; names->name; names++) {
        const struct family_fused *fused = names->fused ? find_fused(family, names->role) : NULL;
        const char *pattern = fused ? fused->name : family->names[names->role];
        if (!pattern || !smol_checkpoint_matches(names->name, name, key))
            continue;
        key->role = names->role;
        return pattern;
    }
    return NULL;
}

/* Returns the pattern of the checkpoint's name for a tensor called `name` here, or NULL. */
static const char *find_pattern(const struct gguf_arch *arch, const struct family *family,
                                const char *name, struct tensor_key *key)
{
    const char *pattern = find_in(arch->names, family, name, key);
    return pattern ? pattern : find_in(common, family, name, key);
}

/* Undoes what llama.cpp's converter does to some small tensors: a dimension of 1 or of groups more,
 * or one less, and decays in place of their logarithms. */
static void restore_shape(enum tensor_role role, struct safetensors_tensor *tensor)
{
    bool is_vector = role == ROLE_MIXER_DECAY || role == ROLE_MIXER_SKIP || role == ROLE_MIXER_NORM;
    for (; is_vector && tensor->rank > 1; tensor->rank--)
        tensor->shape[0] *= tensor->shape[tensor->rank - 1]; /* below 2^64, see take_shape */
    tensor->negated_exp = role == ROLE_MIXER_DECAY;
}

/* Returns the number of heads of a key of the architecture: an integer, or one for each layer, with
 * 0 for those that do not attend. 0: there is none. */
static uint64_t read_heads(const struct gguf *gguf, const struct gguf_arch *arch, const char *name)
{
    char key[64];
    uint64_t heads = 0;
    snprintf(key, sizeof key, "%s.attention.%s", arch->name, name);
    const struct gguf_value *value = smol_gguf_find(gguf, key);
    for (uint64_t i = 0; value && heads == 0 && i < value->n; i++)
        if (!smol_gguf_integer_at(value, i, &heads) && !smol_gguf_integer(value, &heads))
            return 0;
    return heads;
}

/* Returns the number of rows of a head of q or k; 0 if the tensor is none of them. `heads`: of q,
 * and of k. */
static uint64_t rows_of_head(enum tensor_role role, uint64_t rows, const uint64_t heads[2])
{
    bool of_q = role == ROLE_ATTN_Q || role == ROLE_ATTN_Q_BIAS;
    bool of_k = role == ROLE_ATTN_K || role == ROLE_ATTN_K_BIAS;
    uint64_t n = heads[of_k];
    if ((!of_q && !of_k) || n == 0 || rows % n != 0)
        return 0; /* the shape is refused later */
    return rows / n % 2 ? 0 : rows / n;
}

void smol_gguf_name_tensors(const struct gguf *gguf, struct safetensors *reader)
{
    const struct gguf_arch *arch = smol_gguf_arch(gguf);
    const struct family *family = arch ? smol_family_by_architecture(arch->architecture) : NULL;
    uint64_t heads[2] = {0};
    if (arch && arch->pairs_rows) {
        heads[0] = read_heads(gguf, arch, "head_count");
        heads[1] = read_heads(gguf, arch, "head_count_kv");
        heads[1] = heads[1] ? heads[1] : heads[0];
    }
    for (size_t i = 0; family && i < reader->n_tensors; i++) {
        struct safetensors_tensor *tensor = &reader->tensors[i];
        struct tensor_key key;
        const char *pattern = find_pattern(arch, family, tensor->name, &key);
        if (!pattern)
            continue;
        tensor->paired_rows = rows_of_head(key.role, tensor->shape[0], heads);
        restore_shape(key.role, tensor);
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
