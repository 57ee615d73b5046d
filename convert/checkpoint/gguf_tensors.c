/* Names of tensors in GGUF files, see gguf_tensors.h. */
#include "convert/checkpoint/gguf_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/checkpoint/checkpoint.h"

/* A tensor's name, with %u for the layer, and its role. If it is fused, the role is that of its
 * first part, and the family's .fused, or the table `joined`, has an entry that begins with it. */
struct gguf_name {
    const char *name;
    enum tensor_role role;
    bool fused;
};

/* clang-format off */
#define BLOCK(name) ("blk.%u." name)
#define WEIGHT(name, role) {BLOCK(name ".weight"), ROLE_##role, false}
#define BIAS(name, role) {BLOCK(name ".bias"), ROLE_##role##_BIAS, false}
#define PAIR(name, role) WEIGHT(name, role), BIAS(name, role)
#define FUSED(name, role) {BLOCK(name), ROLE_##role, true}
#define END {NULL, ROLE_COUNT, false}

/* The names that all architectures share. */
static const struct gguf_name common[] = {
    {"token_embd.weight", ROLE_EMBED, false},
    {"position_embd.weight", ROLE_POSITIONS, false},
    {"output_norm.weight", ROLE_FINAL_NORM, false},
    {"output_norm.bias", ROLE_FINAL_NORM_BIAS, false},
    {"output.weight", ROLE_OUTPUT, false},
    {"output.bias", ROLE_OUTPUT_BIAS, false},
    PAIR("attn_norm", ATTN_NORM),
    PAIR("attn_q", ATTN_Q),
    PAIR("attn_k", ATTN_K),
    PAIR("attn_v", ATTN_V),
    FUSED("attn_qkv.weight", ATTN_Q),
    FUSED("attn_qkv.bias", ATTN_Q_BIAS),
    PAIR("attn_output", ATTN_O),
    WEIGHT("attn_q_norm", ATTN_Q_NORM),
    WEIGHT("attn_k_norm", ATTN_K_NORM),
    WEIGHT("post_attention_norm", ATTN_OUT_NORM),
    PAIR("ffn_norm", MLP_NORM),
    PAIR("ffn_gate", MLP_GATE),
    PAIR("ffn_up", MLP_UP),
    PAIR("ffn_down", MLP_DOWN),
    WEIGHT("post_ffw_norm", MLP_OUT_NORM),
    WEIGHT("ffn_gate_inp", ROUTER),
    BIAS("exp_probs_b", ROUTER),
    END,
};

/* The names that an architecture has before these. */
static const struct gguf_name phi3[] = {
    FUSED("attn_qkv.weight", ATTN_Q), FUSED("ffn_up.weight", MLP_GATE), END,
};
static const struct gguf_name glm[] = {FUSED("ffn_up.weight", MLP_GATE), END};
static const struct gguf_name lfm2[] = {
    {"token_embd_norm.weight", ROLE_FINAL_NORM, false},
    PAIR("shortconv.in_proj", MIXER_IN),
    FUSED("shortconv.conv.weight", MIXER_CONV),
    BIAS("shortconv.conv", MIXER_CONV),
    PAIR("shortconv.out_proj", MIXER_OUT),
    END,
};
#define SHARED_MLP                                                                                 \
    WEIGHT("ffn_gate_shexp", MLP_GATE), WEIGHT("ffn_up_shexp", MLP_UP),                            \
    WEIGHT("ffn_down_shexp", MLP_DOWN)
#define RECURRENCE                                                                                 \
    FUSED("ssm_conv1d.weight", MIXER_CONV), BIAS("ssm_dt", MIXER_STEP),                            \
    {BLOCK("ssm_a"), ROLE_MIXER_DECAY, false}, WEIGHT("ssm_norm", MIXER_NORM),                     \
    WEIGHT("ssm_out", MIXER_OUT)
#define MAMBA2                                                                                     \
    RECURRENCE, FUSED("ssm_in.weight", MIXER_GATE), BIAS("ssm_conv1d", MIXER_CONV),                \
    {BLOCK("ssm_d"), ROLE_MIXER_SKIP, false}
static const struct gguf_name granite_moe[] = {SHARED_MLP, END};
static const struct gguf_name granite_hybrid[] = {SHARED_MLP, MAMBA2, END};

/* Qwen's layers of gated DeltaNet, and gated attention. */
#define DELTA                                                                                      \
    WEIGHT("post_attention_norm", MLP_NORM), FUSED("attn_q.weight", ATTN_Q),                       \
    FUSED("attn_q.bias", ATTN_Q_BIAS), WEIGHT("attn_qkv", MIXER_IN),                               \
    WEIGHT("attn_gate", MIXER_GATE), RECURRENCE
#define RATES_AND_STEPS WEIGHT("ssm_beta", MIXER_RATE), WEIGHT("ssm_alpha", MIXER_STEP)
#define GATED_MLP WEIGHT("ffn_gate_inp_shexp", SHARED_GATE), SHARED_MLP
static const struct gguf_name qwen35[] = {DELTA, RATES_AND_STEPS, END};
static const struct gguf_name qwen35_moe[] = {DELTA, RATES_AND_STEPS, GATED_MLP, END};
static const struct gguf_name qwen3_next[] = {
    DELTA, GATED_MLP,
    FUSED("ssm_in.weight", MIXER_IN), /* of old files: with the gate */
    FUSED("ssm_ba.weight", MIXER_RATE),
    END,
};

static const struct gguf_name falcon_h1[] = {
    {BLOCK("ffn_norm"), ROLE_MLP_NORM, false}, /* without ".weight" */
    MAMBA2, END,
};

static const struct gguf_name gemma4[] = {
    {"per_layer_token_embd.weight", ROLE_INPUT_EMBED, false},
    {"per_layer_model_proj.weight", ROLE_INPUT_PROJECTION, false},
    {"per_layer_proj_norm.weight", ROLE_INPUT_NORM, false},
    WEIGHT("inp_gate", INPUT_GATE), WEIGHT("proj", INPUT_OUT), WEIGHT("post_norm", INPUT_OUT_NORM),
    WEIGHT("layer_output_scale", LAYER_SCALE), WEIGHT("post_ffw_norm_1", SHARED_OUT_NORM),
    WEIGHT("pre_ffw_norm_2", EXPERT_NORM), WEIGHT("post_ffw_norm_2", EXPERT_OUT_NORM),
    {BLOCK("ffn_gate_inp.scale"), ROLE_ROUTER_NORM, false},
    {BLOCK("ffn_down_exps.scale"), ROLE_ROUTER_SCALE, false}, END,
};

static const struct gguf_name bert[] = {PAIR("attn_output_norm", MLP_NORM), END};
static const struct gguf_name modern_bert[] = {
    FUSED("ffn_up.weight", MLP_GATE), FUSED("ffn_up.bias", MLP_GATE_BIAS), END,
};
/* clang-format on */

/* Tensors of encoders that have no role of their own, see family.h. */
static const struct {
    enum gguf_kind kind;
    const char *name, *pattern;
} without_role[] = {
    {OF_BERT, "token_types.weight", "bert.embeddings.token_type_embeddings.weight"},
    {OF_BERT, "token_embd_norm.weight", "bert.embeddings.LayerNorm.weight"},
    {OF_BERT, "token_embd_norm.bias", "bert.embeddings.LayerNorm.bias"},
    {OF_BERT, BLOCK("layer_output_norm.weight"), "bert.encoder.layer.%u.output.LayerNorm.weight"},
    {OF_BERT, BLOCK("layer_output_norm.bias"), "bert.encoder.layer.%u.output.LayerNorm.bias"},
    {OF_NOMICBERT, "token_types.weight", "nomic_bert.embeddings.token_type_embeddings.weight"},
    {OF_NOMICBERT, "token_embd_norm.weight", "nomic_bert.emb_ln.weight"},
    {OF_NOMICBERT, "token_embd_norm.bias", "nomic_bert.emb_ln.bias"},
    {OF_NOMICBERT, BLOCK("layer_output_norm.weight"), "nomic_bert.encoder.layers.%u.norm2.weight"},
    {OF_NOMICBERT, BLOCK("layer_output_norm.bias"), "nomic_bert.encoder.layers.%u.norm2.bias"},
    {OF_MODERNBERT, "token_embd_norm.weight", "model.embeddings.norm.weight"},
    {OF_MODERNBERT, "token_embd_norm.bias", "model.embeddings.norm.bias"},
};

static const struct gguf_arch archs[] = {
    {"llama", "LlamaForCausalLM", ORDER_PAIRED, false, common, OF_OTHERS},
    {"qwen2", "Qwen2ForCausalLM", ORDER_KEPT, false, common, OF_OTHERS},
    {"qwen3", "Qwen3ForCausalLM", ORDER_KEPT, false, common, OF_QWEN3},
    {"qwen2vl", "Qwen2ForCausalLM", ORDER_KEPT, false, common, OF_QWENVL},
    {"qwen3vl", "Qwen3ForCausalLM", ORDER_KEPT, false, common, OF_QWENVL},
    {"smollm3", "SmolLM3ForCausalLM", ORDER_PAIRED, false, common, OF_OTHERS},
    {"granite", "GraniteForCausalLM", ORDER_PAIRED, false, common, OF_GRANITE},
    {"phi3", "Phi3ForCausalLM", ORDER_KEPT, false, phi3, OF_PHI3},
    {"olmo2", "Olmo2ForCausalLM", ORDER_KEPT, false, common, OF_OLMO2},
    {"arcee", "ArceeForCausalLM", ORDER_PAIRED, false, common, OF_OTHERS},
    {"gemma", "GemmaForCausalLM", ORDER_KEPT, true, common, OF_OTHERS},
    {"gemma2", "Gemma2ForCausalLM", ORDER_KEPT, true, common, OF_GEMMA2},
    {"gemma3", "Gemma3ForCausalLM", ORDER_KEPT, true, common, OF_GEMMA3},
    {"gemma4", "Gemma4ForCausalLM", ORDER_KEPT, false, gemma4, OF_GEMMA4},
    {"lfm2", "Lfm2ForCausalLM", ORDER_KEPT, false, lfm2, OF_LFM2},
    {"lfm2moe", "Lfm2MoeForCausalLM", ORDER_KEPT, false, lfm2, OF_LFM2MOE},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", ORDER_PAIRED, false, granite_hybrid,
     OF_HYBRID},
    {"olmoe", "OlmoeForCausalLM", ORDER_KEPT, false, common, OF_OLMOE},
    {"qwen3moe", "Qwen3MoeForCausalLM", ORDER_KEPT, false, common, OF_QWEN3MOE},
    {"granitemoe", "GraniteMoeForCausalLM", ORDER_PAIRED, false, common, OF_GRANITEMOE},
    {"qwen35", "Qwen3_5ForCausalLM", ORDER_TILED, true, qwen35, OF_QWEN35},
    {"qwen35moe", "Qwen3_5MoeForCausalLM", ORDER_TILED, true, qwen35_moe, OF_QWEN35MOE},
    {"qwen3next", "Qwen3NextForCausalLM", ORDER_KEPT, true, qwen3_next, OF_QWEN3NEXT},
    {"mistral3", "LlamaForCausalLM", ORDER_PAIRED, false, common, OF_MISTRAL3}, /* Mistral Small */
    {"ernie4_5", "Ernie4_5ForCausalLM", ORDER_KEPT, false, common, OF_OTHERS},
    {"chatglm", "GlmForCausalLM", ORDER_KEPT, false, glm, OF_GLM},
    {"glm4", "Glm4ForCausalLM", ORDER_KEPT, false, glm, OF_GLM},
    {"exaone4", "Exaone4ForCausalLM", ORDER_KEPT, false, common, OF_EXAONE4},
    {"hunyuan-dense", "HunYuanDenseV1ForCausalLM", ORDER_KEPT, false, common, OF_OTHERS},
    {"minicpm", "GraniteForCausalLM", ORDER_PAIRED, false, common,
     OF_MINICPM}, /* the same with its scales */
    {"stablelm", "StableLmForCausalLM", ORDER_KEPT, false, common, OF_STABLELM},
    {"olmo", "OlmoForCausalLM", ORDER_PAIRED, false, common, OF_PHI2},
    {"nemotron", "NemotronForCausalLM", ORDER_KEPT, true, common, OF_PHI2},
    {"phi2", "PhiForCausalLM", ORDER_KEPT, false, common, OF_PHI2},
    {"falcon-h1", "FalconH1ForCausalLM", ORDER_KEPT, false, falcon_h1, OF_FALCONH1},
    {"gptneox", "GPTNeoXForCausalLM", ORDER_STACKED, false, common, OF_GPTNEOX},
    {"gpt2", "GPT2LMHeadModel", ORDER_STACKED, false, common, OF_GPT2},
    {"bert", "BertModel", ORDER_KEPT, false, bert, OF_BERT},
    {"modern-bert", "ModernBertModel", ORDER_KEPT, false, modern_bert, OF_MODERNBERT},
    {"nomic-bert", "NomicBertModel", ORDER_KEPT, false, bert, OF_NOMICBERT},
    {"eurobert", "EuroBertModel", ORDER_KEPT, false, common, OF_EUROBERT},
    {"gemma-embedding", "Gemma3TextModel", ORDER_KEPT, true, common, OF_GEMMA3},
};

/* The other families of architectures: of files with a key whose number is above 0. */
static const struct {
    const char *key;
    struct gguf_arch arch;
} variants[] = {
    {"expert_shared_feed_forward_length",
     {"granitemoe", "GraniteMoeSharedForCausalLM", ORDER_PAIRED, false, granite_moe,
      OF_GRANITEMOE}},
    {"attention.sliding_window",
     {"olmo2", "Olmo3ForCausalLM", ORDER_KEPT, false, common, OF_OLMO2}},
    {"attention.temperature_scale",
     {"mistral3", "Ministral3ForCausalLM", ORDER_PAIRED, false, common, OF_MISTRAL3}},
};

/* clang-format off */
#define STACKED(name, n, of_experts, ...)                                                          \
    {(name), {__VA_ARGS__}, n, FUSION_STACKED, of_experts, true}

/* The experts of a layer, which have one tensor for each of their matrices. Names stay as they are,
 * those of the parts are the family's. */
static const struct family_fused experts[] = {
    STACKED(BLOCK("ffn_gate_exps.weight"), 1, true, ROLE_EXPERT_GATE),
    STACKED(BLOCK("ffn_up_exps.weight"), 1, true, ROLE_EXPERT_UP),
    STACKED(BLOCK("ffn_down_exps.weight"), 1, true, ROLE_EXPERT_DOWN),
    STACKED(BLOCK("ffn_gate_up_exps.weight"), 2, true, ROLE_EXPERT_GATE, ROLE_EXPERT_UP),
};

/* q, k and v in one tensor, where the family has none, as llama.cpp's converter writes them with
 * --fuse-qkv. */
static const struct family_fused joined[] = {
    STACKED("model.layers.%u.self_attn.qkv_proj.weight", 3, false,
            ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V),
    STACKED("model.layers.%u.self_attn.qkv_proj.bias", 3, false,
            ROLE_ATTN_Q_BIAS, ROLE_ATTN_K_BIAS, ROLE_ATTN_V_BIAS),
};
/* clang-format on */

/* Returns the value of a key of an architecture, or NULL. */
static const struct gguf_value *find_key(const struct gguf *gguf, const char *arch,
                                         const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    return smol_gguf_find(gguf, key);
}

const struct gguf_arch *smol_gguf_arch(const struct gguf *gguf)
{
    const struct gguf_text text = smol_gguf_string(smol_gguf_find(gguf, "general.architecture"));
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const struct gguf_arch *arch = &variants[i].arch;
        const struct gguf_value *value = find_key(gguf, arch->name, variants[i].key);
        double number = 0;
        if (gguf_text_is(text, arch->name) && value && smol_gguf_real(value, &number) && number > 0)
            return arch;
    }
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        if (gguf_text_is(text, archs[i].name))
            return &archs[i];
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

/* Returns the one of n fused tensors that begins with the role, or NULL. */
static const struct family_fused *find_role(const struct family_fused *fused, size_t n,
                                            enum tensor_role role)
{
    for (size_t i = 0; i < n && fused[i].name; i++)
        if (fused[i].roles[0] == role)
            return &fused[i];
    return NULL;
}

/* Returns the family's fused tensor that begins with the role, or else that of any family; the
 * latter first if the architecture stacks them. */
static const struct family_fused *find_fused(const struct gguf_arch *arch,
                                             const struct family *family, enum tensor_role role)
{
    const struct family_fused *own = find_role(family->fused, FAMILY_MAX_FUSED, role);
    const struct family_fused *any = find_role(joined, sizeof joined / sizeof joined[0], role);
    return own && !(any && arch->order == ORDER_STACKED) ? own : any;
}

/* Adds the fused tensors among these names that the family has not yet. */
static void add_fused(const struct gguf_arch *arch, const struct gguf_name *names,
                      const struct family *original, struct family *family, size_t *n)
{
    for (; names->name; names++) {
        const struct family_fused *fused =
            names->fused ? find_fused(arch, original, names->role) : NULL;
        if (!fused || find_role(family->fused, *n, names->role))
            continue;
        struct family_fused *added = &family->fused[(*n)++];
        *added = *fused;
        if (fused->fusion == FUSION_CONV) /* without the dimension of 1 */
            added->fusion = FUSION_TURNED;
        added->optional |= fused->fusion == FUSION_GROUPS; /* taken apart or not */
    }
}

void smol_gguf_adapt(const struct gguf_arch *arch, struct family *family)
{
    const struct family original = *family;
    size_t n = 0;
    memset(family->fused, 0, sizeof family->fused);
    add_fused(arch, arch->names, &original, family, &n);
    add_fused(arch, common, &original, family, &n);
    for (size_t i = 0; family->experts.n.key && i < sizeof experts / sizeof experts[0]; i++)
        family->fused[n++] = experts[i];
    if (arch->adds_offset)
        family->norm_offset = 0;
}

/* Searches one list of names for find_pattern. */
static const char *find_in(const struct gguf_arch *arch, const struct gguf_name *names,
                           const struct family *family, const char *name, struct tensor_key *key,
                           bool *is_fused)
{
    for (; names->name; names++) {
        const struct family_fused *fused =
            names->fused ? find_fused(arch, family, names->role) : NULL;
        const char *pattern = fused ? fused->name : family->names[names->role];
        if (!pattern || !smol_checkpoint_matches(names->name, name, key))
            continue;
        key->role = names->role;
        *is_fused = names->fused;
        return pattern;
    }
    return NULL;
}

/* Returns the pattern of the checkpoint's name for a tensor called `name` here, or NULL. */
static const char *find_pattern(const struct gguf_arch *arch, const struct family *family,
                                const char *name, struct tensor_key *key, bool *is_fused)
{
    for (size_t i = 0; i < sizeof without_role / sizeof without_role[0]; i++)
        if (without_role[i].kind == arch->kind &&
            smol_checkpoint_matches(without_role[i].name, name, key)) {
            key->role = ROLE_COUNT;
            return without_role[i].pattern;
        }
    const char *pattern = find_in(arch, arch->names, family, name, key, is_fused);
    return pattern ? pattern : find_in(arch, common, family, name, key, is_fused);
}

/* Undoes what llama.cpp's programs do to some small tensors: a dimension of 1 or of groups more, or
 * one less, and decays in place of their logarithms. */
static void restore_shape(enum tensor_role role, struct safetensors_tensor *tensor)
{
    if (role == ROLE_SHARED_GATE && tensor->rank == 1) { /* by llama-quantize */
        tensor->rank = 2;
        tensor->shape[1] = tensor->shape[0];
        tensor->shape[0] = 1;
    }
    bool is_vector = role == ROLE_MIXER_DECAY || role == ROLE_MIXER_SKIP || role == ROLE_MIXER_NORM;
    for (; is_vector && tensor->rank > 1; tensor->rank--)
        tensor->shape[0] *= tensor->shape[tensor->rank - 1]; /* below 2^64, see take_shape */
    tensor->function = role == ROLE_MIXER_DECAY ? FUNCTION_LOG : FUNCTION_NONE;
}

/* Returns the number of heads of a key of the architecture: an integer, or one for each layer, with
 * 0 for those that do not attend. 0: there is none. */
static uint64_t read_heads(const struct gguf *gguf, const struct gguf_arch *arch, const char *name)
{
    uint64_t heads = 0;
    const struct gguf_value *value = find_key(gguf, arch->name, name);
    for (uint64_t i = 0; value && heads == 0 && i < value->n; i++)
        if (!smol_gguf_integer_at(value, i, &heads) && !smol_gguf_integer(value, &heads))
            return 0;
    return heads;
}

/* Returns the number of rows of a head of q or k; 0 if the tensor is none of them. `heads`: of q,
 * and of k. A fused one has as many heads of v as of k. */
static uint32_t rows_of_head(enum tensor_role role, bool is_fused, uint64_t rows,
                             const uint64_t heads[2])
{
    bool of_q = role == ROLE_ATTN_Q || role == ROLE_ATTN_Q_BIAS;
    bool of_k = role == ROLE_ATTN_K || role == ROLE_ATTN_K_BIAS;
    uint64_t n = heads[of_k] + (is_fused ? 2 * heads[1] : 0);
    if ((!of_q && !of_k) || n == 0 || rows % n != 0 || rows / n % 2 != 0 || rows / n > UINT32_MAX)
        return 0; /* the shape is refused later */
    return (uint32_t)(rows / n);
}

/* Returns the integer of a key of the architecture; 0: it is missing, or above `most`. */
static uint64_t read_size(const struct gguf *gguf, const struct gguf_arch *arch, const char *name,
                          uint64_t most)
{
    uint64_t size = 0;
    const struct gguf_value *value = find_key(gguf, arch->name, name);
    return value && smol_gguf_integer(value, &size) && size <= most ? size : 0;
}

/* The heads of values of layers with states, which share keys in groups. llama.cpp repeats the keys
 * of all groups as a whole, so its converter puts the first head of each group first. */
struct value_heads {
    uint64_t n, groups; /* 0: the usual order */
    uint32_t width;     /* of a head */
    uint32_t before;    /* the width of all queries and keys */
};

static struct value_heads read_value_heads(const struct gguf *gguf, const struct gguf_arch *arch)
{
    uint64_t inner = read_size(gguf, arch, "ssm.inner_size", UINT32_MAX);
    uint64_t key = read_size(gguf, arch, "ssm.state_size", STATES_MAX_SIZE);
    struct value_heads heads = {
        .n = read_size(gguf, arch, "ssm.time_step_rank", STATES_MAX_HEADS),
        .groups = read_size(gguf, arch, "ssm.group_count", STATES_MAX_HEADS),
    };
    if (arch->order != ORDER_TILED || heads.n == 0 || heads.groups == 0 ||
        heads.n % heads.groups != 0 || inner == 0 || inner % heads.n != 0)
        return (struct value_heads){0}; /* impossible sizes are refused later */
    heads.width = (uint32_t)(inner / heads.n);
    heads.before = (uint32_t)(2 * heads.groups * key);
    return heads;
}

/* Marks a tensor that has the heads in another order. Its shape, if it is another one than the
 * heads call for, is refused later. */
static void mark_tiling(enum tensor_role role, const struct value_heads *heads,
                        struct safetensors_tensor *tensor)
{
    struct head_order order = {.groups = (uint16_t)heads->groups, .size = heads->width};
    bool by_columns = role == ROLE_MIXER_OUT;
    switch (role) {
    case ROLE_MIXER_IN:
    case ROLE_MIXER_CONV:
        order.from = heads->before;
        break;
    case ROLE_MIXER_GATE:
    case ROLE_MIXER_OUT:
        break;
    case ROLE_MIXER_RATE:
    case ROLE_MIXER_STEP:
    case ROLE_MIXER_STEP_BIAS:
    case ROLE_MIXER_DECAY:
        order.size = 1;
        break;
    default:
        return;
    }
    if (heads->groups == 0 || tensor->rank == 0 || tensor->rank > 2 ||
        (by_columns && tensor->rank != 2) ||
        tensor->shape[by_columns] != order.from + heads->n * order.size)
        return;
    order.per_group = (uint16_t)(heads->n / heads->groups);
    tensor->heads = order;
    tensor->by_columns = by_columns;
}

/* The layers [first, end) only predict further tokens. */
struct further_layers {
    uint64_t first, end;
};

static struct further_layers find_further(const struct gguf *gguf, const struct gguf_arch *arch)
{
    uint64_t all = read_size(gguf, arch, "block_count", UINT32_MAX);
    uint64_t n = read_size(gguf, arch, "nextn_predict_layers", UINT32_MAX);
    return (struct further_layers){n < all ? all - n : all, all};
}

/* Gives a tensor of these layers the beginning that such names have in checkpoints. */
static bool name_further(const struct further_layers *further, char *name)
{
    static const char before[] = "blk.", instead[] = "mtp";
    const char *digits = name + strlen(before);
    if (!starts_with(name, before) || !is_digit(*digits))
        return false;
    uint64_t layer = strtoull(digits, NULL, 10);
    if (layer < further->first || layer >= further->end)
        return false;
    memcpy(name, instead, sizeof instead - 1); /* as long as "blk" */
    return true;
}

void smol_gguf_name_tensors(const struct gguf *gguf, struct safetensors *reader)
{
    const struct gguf_arch *arch = smol_gguf_arch(gguf);
    const struct family *family = arch ? smol_family_by_architecture(arch->architecture) : NULL;
    struct value_heads values = {0};
    struct further_layers further = {0};
    uint64_t heads[2] = {0};
    if (family)
        values = read_value_heads(gguf, arch);
    if (family && family->predicts_further)
        further = find_further(gguf, arch);
    if (arch && arch->order == ORDER_PAIRED) {
        heads[0] = read_heads(gguf, arch, "attention.head_count");
        heads[1] = read_heads(gguf, arch, "attention.head_count_kv");
        heads[1] = heads[1] ? heads[1] : heads[0];
    }
    for (size_t i = 0; family && i < reader->n_tensors; i++) {
        struct safetensors_tensor *tensor = &reader->tensors[i];
        struct tensor_key key;
        bool is_fused = false;
        if (name_further(&further, (char *)(uintptr_t)tensor->name))
            continue;
        const char *pattern = find_pattern(arch, family, tensor->name, &key, &is_fused);
        if (!pattern)
            continue;
        tensor->heads.size = rows_of_head(key.role, is_fused, tensor->shape[0], heads);
        restore_shape(key.role, tensor);
        mark_tiling(key.role, &values, tensor);
        smol_checkpoint_format(pattern, key, (char *)(uintptr_t)tensor->name);
    }
}
