/* Names of tensors in GGUF files, see gguf_tensors.h. */
#include "convert/checkpoint/gguf_tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/checkpoint/checkpoint.h"

/* A tensor's name, with %u for the layer, and its role. If it is fused, the role is that of its
 * first part, and the family's .fused, or the table `joined`, has an entry that begins with it. */
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
    {BLOCK("attn_qkv.weight"), ROLE_ATTN_Q, true},
    {BLOCK("attn_qkv.bias"), ROLE_ATTN_Q_BIAS, true},
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
    {BLOCK("attn_norm.bias"), ROLE_ATTN_NORM_BIAS, false},
    {BLOCK("ffn_norm.bias"), ROLE_MLP_NORM_BIAS, false},
    {"output_norm.bias", ROLE_FINAL_NORM_BIAS, false},
    {"output.bias", ROLE_OUTPUT_BIAS, false},
    {"position_embd.weight", ROLE_POSITIONS, false},
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
#define MAMBA2                                                                                     \
    RECURRENCE, {BLOCK("ssm_in.weight"), ROLE_MIXER_GATE, true},                                   \
        {BLOCK("ssm_conv1d.bias"), ROLE_MIXER_CONV_BIAS, false},                                   \
    {                                                                                              \
        BLOCK("ssm_d"), ROLE_MIXER_SKIP, false                                                     \
    }
static const struct gguf_name granite_hybrid[] = {SHARED_MLP, MAMBA2, {NULL, ROLE_COUNT, false}};

/* Qwen's layers of gated DeltaNet, and gated attention. */
#define DELTA                                                                                      \
    {BLOCK("post_attention_norm.weight"), ROLE_MLP_NORM, false},                                   \
        {BLOCK("attn_q.weight"), ROLE_ATTN_Q, true},                                               \
        {BLOCK("attn_q.bias"), ROLE_ATTN_Q_BIAS, true},                                            \
        {BLOCK("attn_qkv.weight"), ROLE_MIXER_IN, false},                                          \
        {BLOCK("attn_gate.weight"), ROLE_MIXER_GATE, false}, RECURRENCE
#define RATES_AND_STEPS                                                                            \
    {BLOCK("ssm_beta.weight"), ROLE_MIXER_RATE, false},                                            \
    {                                                                                              \
        BLOCK("ssm_alpha.weight"), ROLE_MIXER_STEP, false                                          \
    }
#define GATED_MLP {BLOCK("ffn_gate_inp_shexp.weight"), ROLE_SHARED_GATE, false}, SHARED_MLP
static const struct gguf_name qwen35[] = {DELTA, RATES_AND_STEPS, {NULL, ROLE_COUNT, false}};
static const struct gguf_name qwen35_moe[] = {
    DELTA, RATES_AND_STEPS, GATED_MLP, {NULL, ROLE_COUNT, false}};
static const struct gguf_name qwen3_next[] = {
    DELTA,
    GATED_MLP,
    {BLOCK("ssm_in.weight"), ROLE_MIXER_IN, true}, /* of old files: with the gate */
    {BLOCK("ssm_ba.weight"), ROLE_MIXER_RATE, true},
    {NULL, ROLE_COUNT, false},
};

static const struct gguf_name falcon_h1[] = {
    {BLOCK("ffn_norm"), ROLE_MLP_NORM, false}, /* without ".weight" */
    MAMBA2,
    {NULL, ROLE_COUNT, false},
};

static const struct gguf_name bert[] = {
    {BLOCK("attn_output_norm.weight"), ROLE_MLP_NORM, false},
    {BLOCK("attn_output_norm.bias"), ROLE_MLP_NORM_BIAS, false},
    {NULL, ROLE_COUNT, false},
};
static const struct gguf_name modern_bert[] = {
    {BLOCK("ffn_up.weight"), ROLE_MLP_GATE, true},
    {BLOCK("ffn_up.bias"), ROLE_MLP_GATE_BIAS, true},
    {NULL, ROLE_COUNT, false},
};

/* Tensors of encoders that have no role of their own, see family.h. */
static const struct {
    const char *arch, *name, *pattern;
} without_role[] = {
    {"bert", "token_types.weight", "bert.embeddings.token_type_embeddings.weight"},
    {"bert", "token_embd_norm.weight", "bert.embeddings.LayerNorm.weight"},
    {"bert", "token_embd_norm.bias", "bert.embeddings.LayerNorm.bias"},
    {"bert", BLOCK("layer_output_norm.weight"), "bert.encoder.layer.%u.output.LayerNorm.weight"},
    {"bert", BLOCK("layer_output_norm.bias"), "bert.encoder.layer.%u.output.LayerNorm.bias"},
    {"modern-bert", "token_embd_norm.weight", "model.embeddings.norm.weight"},
    {"modern-bert", "token_embd_norm.bias", "model.embeddings.norm.bias"},
};

static const struct gguf_arch archs[] = {
    {"llama", "LlamaForCausalLM", ORDER_PAIRED, false, common},
    {"qwen2", "Qwen2ForCausalLM", ORDER_KEPT, false, common},
    {"qwen3", "Qwen3ForCausalLM", ORDER_KEPT, false, common},
    {"smollm3", "SmolLM3ForCausalLM", ORDER_PAIRED, false, common},
    {"granite", "GraniteForCausalLM", ORDER_PAIRED, false, common},
    {"phi3", "Phi3ForCausalLM", ORDER_KEPT, false, phi3},
    {"olmo2", "Olmo2ForCausalLM", ORDER_KEPT, false, common},
    {"gemma2", "Gemma2ForCausalLM", ORDER_KEPT, true, common},
    {"gemma3", "Gemma3ForCausalLM", ORDER_KEPT, true, common},
    {"lfm2", "Lfm2ForCausalLM", ORDER_KEPT, false, lfm2},
    {"lfm2moe", "Lfm2MoeForCausalLM", ORDER_KEPT, false, lfm2},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", ORDER_PAIRED, false, granite_hybrid},
    {"olmoe", "OlmoeForCausalLM", ORDER_KEPT, false, common},
    {"qwen3moe", "Qwen3MoeForCausalLM", ORDER_KEPT, false, common},
    {"granitemoe", "GraniteMoeForCausalLM", ORDER_PAIRED, false, common},
    {"qwen35", "Qwen3_5ForCausalLM", ORDER_TILED, true, qwen35},
    {"qwen35moe", "Qwen3_5MoeForCausalLM", ORDER_TILED, true, qwen35_moe},
    {"qwen3next", "Qwen3NextForCausalLM", ORDER_KEPT, true, qwen3_next},
    {"mistral3", "LlamaForCausalLM", ORDER_PAIRED, false, common}, /* Mistral Small */
    {"ernie4_5", "Ernie4_5ForCausalLM", ORDER_KEPT, false, common},
    {"exaone4", "Exaone4ForCausalLM", ORDER_KEPT, false, common},
    {"hunyuan-dense", "HunYuanDenseV1ForCausalLM", ORDER_KEPT, false, common},
    {"minicpm", "GraniteForCausalLM", ORDER_PAIRED, false, common}, /* the same with its scales */
    {"stablelm", "StableLmForCausalLM", ORDER_KEPT, false, common},
    {"phi2", "PhiForCausalLM", ORDER_KEPT, false, common},
    {"falcon-h1", "FalconH1ForCausalLM", ORDER_KEPT, false, falcon_h1},
    {"gptneox", "GPTNeoXForCausalLM", ORDER_STACKED, false, common},
    {"gpt2", "GPT2LMHeadModel", ORDER_STACKED, false, common},
    {"bert", "BertModel", ORDER_KEPT, false, bert},
    {"modern-bert", "ModernBertModel", ORDER_KEPT, false, modern_bert},
    {"gemma-embedding", "Gemma3TextModel", ORDER_KEPT, true, common},
};

/* The other families of architectures: of files with a key whose number is above 0. */
static const struct {
    const char *key;
    struct gguf_arch arch;
} variants[] = {
    {"expert_shared_feed_forward_length",
     {"granitemoe", "GraniteMoeSharedForCausalLM", ORDER_PAIRED, false, granite_moe}},
    {"attention.sliding_window", {"olmo2", "Olmo3ForCausalLM", ORDER_KEPT, false, common}},
    {"attention.temperature_scale",
     {"mistral3", "Ministral3ForCausalLM", ORDER_PAIRED, false, common}},
};

/* The experts of a layer, which have one tensor for each of their matrices. Names stay as they are,
 * those of the parts are the family's. */
static const struct family_fused experts[] = {
    {BLOCK("ffn_gate_exps.weight"), {ROLE_EXPERT_GATE}, 1, FUSION_STACKED, true, true},
    {BLOCK("ffn_up_exps.weight"), {ROLE_EXPERT_UP}, 1, FUSION_STACKED, true, true},
    {BLOCK("ffn_down_exps.weight"), {ROLE_EXPERT_DOWN}, 1, FUSION_STACKED, true, true},
    {BLOCK("ffn_gate_up_exps.weight"),
     {ROLE_EXPERT_GATE, ROLE_EXPERT_UP},
     2,
     FUSION_STACKED,
     true,
     true},
};

/* q, k and v in one tensor, where the family has none, as llama.cpp's converter writes them with
 * --fuse-qkv. */
static const struct family_fused joined[] = {
    {"model.layers.%u.self_attn.qkv_proj.weight",
     {ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_V},
     3,
     FUSION_STACKED,
     false,
     true},
    {"model.layers.%u.self_attn.qkv_proj.bias",
     {ROLE_ATTN_Q_BIAS, ROLE_ATTN_K_BIAS, ROLE_ATTN_V_BIAS},
     3,
     FUSION_STACKED,
     false,
     true},
};

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
        if (strcmp(without_role[i].arch, arch->name) == 0 &&
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
    tensor->negated_exp = role == ROLE_MIXER_DECAY;
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
    if (strncmp(name, before, strlen(before)) != 0 || *digits < '0' || *digits > '9')
        return false;
    uint64_t layer = strtoull(digits, NULL, 10);
    if (layer < further->first || layer >= further->end)
        return false;
    memcpy(name, instead, strlen(instead)); /* as long as "blk" */
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
