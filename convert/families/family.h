/* Families of models as data: the differences between their checkpoints and blocks. Tables are in
 * the files beside this one; to add a family, add an entry to one of them. */
#ifndef SMOL_CONVERT_FAMILY_H
#define SMOL_CONVERT_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/format.h"

/* The defaults of config.json's keys for sizes. */
struct family_sizes {
    uint32_t hidden_size;
    uint32_t intermediate_size; /* 0: 4 * hidden_size */
    uint32_t n_layers, n_heads;
    uint32_t n_kv_heads; /* 0: as many as heads */
    uint32_t head_dim;   /* 0: hidden_size / n_heads */
    uint32_t vocab_size, context_length;
};

enum {
    FAMILY_LAYERS = 2,
    FAMILY_KV_HEADS = 4,
    FAMILY_HEAD_DIM = 5,
    N_FAMILY_SIZES = 8
}; /* places of sizes */
_Static_assert(sizeof(struct family_sizes) == N_FAMILY_SIZES * sizeof(uint32_t), "sizes");

/* A number in config.json and its default. If `key` is NULL, the value is always the default. */
struct family_number {
    const char *key;
    double fallback;
};
struct family_count {
    const char *key;
    uint32_t fallback;
};

/* A flag in config.json and its default, also as in struct family_number. */
struct family_flag {
    const char *key;
    bool fallback;
};

/* More bits of enum block_bit, with a flag of config.json. */
enum { FAMILY_MAX_SWITCHED = 2 };
struct family_blocks {
    struct family_flag flag;
    uint32_t bits; /* 0: none */
};

/* A flag of config.json that must have one value, or the feature that it selects is missing. */
struct family_demand {
    const char *key;
    bool value; /* also the default */
    const char *remedy;
};

/* The layers that attend only to a window of sliding_window positions. config.json's layer_types
 * overrides all values but the first two. */
enum family_windows {
    WINDOWS_NEVER,
    WINDOWS_ALL,         /* every layer; none if sliding_window is null */
    WINDOWS_ALL_IF_USED, /* the same if use_sliding_window is set */
    WINDOWS_FROM_N,      /* if use_sliding_window is set: layer n (from 0) and later ones */
    WINDOWS_NO_ROPE,     /* if use_sliding_window is set: the layers that do not rotate */
    WINDOWS_BUT_EACH_N,  /* all but every n-th */
    WINDOWS_AFTER_EACH_N /* all but the first of every n */
};

/* Types of rotary embeddings. */
enum family_ropes {
    ROPES_USUAL, /* those of transformers */
    ROPES_PHI3,  /* those of Phi-3 */
    ROPES_NTK,   /* "ntk", as in GTE's own code */
};

/* Matrices, or their biases, that a checkpoint stores in one tensor. */
enum family_fusion {
    FUSION_STACKED, /* one below the other */
    FUSION_HEADS,   /* one head of each, then the next head of each */
    FUSION_TURNED,  /* side by side, each transposed: a column for each output */
    FUSION_CONV,    /* transposed, with a dimension of 1 between: depthwise convolutions */
    FUSION_LATENT,  /* of each head ROLE_ATTN_K_UP, transposed, then ROLE_ATTN_V_UP */
    FUSION_GROUPS,  /* of each of a state's groups, outputs of each part; ROLE_MIXER_IN has queries,
                       then keys, then values */
};
enum { FAMILY_MAX_FUSED = 10, FAMILY_MAX_PARTS = 3, FAMILY_MAX_DEMANDS = 3, FAMILY_MAX_TEXTS = 2 };
struct family_fused {
    const char *name; /* a pattern as in struct family; NULL: none */
    enum tensor_role roles[FAMILY_MAX_PARTS];
    size_t n;
    enum family_fusion fusion;
    bool of_experts; /* stacked, with another dimension before the others: the experts' */
    bool optional;   /* the checkpoint may have the parts as separate tensors instead */
};

/* Mixtures of experts. The keys of config.json and their defaults; a key of NULL: there is none. */
struct family_experts {
    struct family_count n;     /* 0: the family has no experts */
    const char *n_alias;       /* another key of the same number */
    bool may_be_none;          /* the number may be 0: a model without experts */
    const char *enabled_key;   /* a flag: whether the model has experts; NULL: it has. With it the
                                * keys of n and width, and used_key, have no defaults: that
                                * of n only says that there may be experts */
    const char *used_key;      /* NULL: num_experts_per_tok */
    uint32_t n_used;           /* its default */
    struct family_count width; /* a key of NULL: intermediate_size */
    struct family_count shared_width;
    bool gates_shared; /* the output of that MLP has a gate */
    bool needs_shared; /* its width may not be 0 */
    bool
        has_own_norms; /* that MLP, of intermediate_size, and the experts have norms of their own */
    enum expert_scoring scoring;
    struct family_flag normalizes, choice_bias;
    float sum_epsilon; /* where weights are normalized */
    struct family_number scale;
    const char *qkv_clip;
    bool has_dense;              /* config.json may have decoder_sparse_step and mlp_only_layers */
    struct family_count n_dense; /* of the first layers */
};

/* Attention to latent vectors: the defaults of kv_lora_rank (0: the family has none), q_lora_rank,
 * qk_nope_head_dim and v_head_dim (0, or null if it is: hidden_size / n_heads). */
struct family_latent {
    uint32_t kv_rank, q_rank, query_dim, value_dim;
};

struct family {
    const char *architecture; /* in config.json's list `architectures`; NULL: it only exists within
                                 another model, see nested.h */
    const char *model_type;   /* config.json's key */
    const char *body;         /* the architecture without an output layer, or NULL */
    const char *scorer;       /* that with a score in its place, of a reranker, or NULL */

    /* Defaults for keys that config.json lacks: those of transformers' configuration class. */
    struct family_sizes sizes;
    /* config.json's keys of the sizes, in their order, where they differ from most families'. The
     * usual key must then be absent. Empty: there is none, and the size is the default. */
    const char *size_keys[N_FAMILY_SIZES];
    const char *unused_size; /* such a usual key that may be there: it is another part's size */
    double norm_eps;
    const char *norm_eps_key;   /* NULL: rms_norm_eps; empty: it is always the default */
    const char *norm_eps_alias; /* overrides it; NULL: none */
    double rope_theta;
    uint32_t bos_id, eos_id; /* or NO_TOKEN */
    uint32_t tied_embeddings;
    const char *tied_key; /* overrides tie_word_embeddings; NULL: none */
    bool needs_kv_heads;  /* num_key_value_heads may not be null */
    bool needs_head_dim;  /* head_dim may be neither absent nor null */

    /* The blocks. */
    enum state_kind state; /* of the layers that do not attend, which conv_L_cache, conv_bias and
                              layer_types or full_attn_idxs describe */
    uint32_t taps;         /* of STATE_SHORT_CONV: the default of conv_L_cache */
    bool attends_beside; /* layers with a state attend too, and parts have scales: keys of Falcon-H1
                          */
    struct family_latent latent;
    bool varies;            /* layers differ in shape, as keys of Gemma 4 describe */
    bool has_old_keys;      /* config.json may have those of NomicBert's own code */
    bool has_single_blocks; /* layers have one block each, and Mamba2 its keys, as in Nemotron-H */
    bool adjusts_mlp; /* block_ff_dim is intermediate_size too, of which the MLP has about 2/3, by
                         block_auto_adjust_ff_dim, _ffn_dim_multiplier and _multiple_of */
    const char *activation_key;     /* NULL: it is always the default */
    const char *old_activation_key; /* of earlier releases, which must agree; NULL: none */
    bool gelu_is_tanh;              /* "gelu" is GELU's tanh formula */
    enum activation activation;     /* the default */
    enum bias_kind attention_bias;  /* if the flag is set */
    struct family_flag attention_biased, mlp_biased;
    struct family_flag norm_biased; /* of LayerNorms; a key of NULL: they are */
    bool lacks_norm_biases;         /* they are 0, and not in the checkpoint; set by that flag */
    bool lacks_norm_weights;        /* they are 1: zeros of which none are there, and norm_offset */
    bool norms_embedding;           /* an RMSNorm without weights comes before the first layer */
    bool turns_back;                /* queries and keys rotate in the other direction */
    bool lacks_input_biases;        /* so are those of the MLP's gate and up */
    uint32_t blocks;                /* bits of enum block_bit */
    struct family_blocks switched[FAMILY_MAX_SWITCHED];
    float norm_offset;       /* 1 if transformers multiplies by 1 + weight */
    bool has_no_rope;        /* config.json may have no_rope_layers, no_rope_layer_interval */
    const char *rotates_key; /* only if it is "rope" do attention's layers rotate; NULL: always;
                                empty: never */
    bool rotates_windowed;   /* with a sliding_window, only windowed layers rotate */
    bool needs_window;       /* sliding_window may not be null */
    bool rotates_parts;      /* partial_rotary_factor may be below 1 */
    double rotary_factor;    /* its default; 0: 1 */
    enum family_ropes ropes; /* the types that rope_type may have */
    const char *rotary_factor_key, *theta_key; /* at the top; NULL: as usual */
    bool has_rope_alpha;       /* rope_type dynamic with `alpha` only changes theta */
    bool has_sections;         /* the rotary embedding has mrope_section, which texts don't need */
    bool has_layer_thetas;     /* config.json may have layer_rope_theta, with 0 for no rotation */
    const char *plain_rope;    /* another name of rope_type default; NULL: none */
    bool needs_states;         /* at least one layer must have a state */
    bool needs_layer_types;    /* config.json must have layer_types */
    bool grows_queries;        /* the rotary embedding has a llama_4_scaling_beta */
    uint32_t original_context; /* the default of config.json's original_max_position_embeddings; if
                                  not 0, the key in the rope object has no effect */
    struct family_number local_theta; /* of the separate table of windowed layers; a key of NULL:
                                         there is none */
    bool needs_ropes; /* rope_parameters must have the tables of all layers that attend */
    enum family_windows windows;
    uint32_t sliding_window;       /* the default of the key; 0: none */
    const char *window_key;        /* NULL: sliding_window */
    struct family_count windows_n; /* the n of enum family_windows */

    /* Scales that Llama does not have. A softcap of 0 here, or null in config.json, is none. */
    bool scales_by_root; /* the embedding is multiplied by the root of hidden_size */
    struct family_number
        query_scalar; /* attention scores are divided by its root, not head_dim's */
    struct family_number attention_scale; /* attention scores are multiplied by it */
    struct family_number embedding_scale, residual_scale, logit_divisor;
    struct family_number logit_scale; /* logits are multiplied by it */
    struct family_number depth_scale; /* residual_scale is it, divided by the root of n_layers */
    struct family_count base_width;   /* logit_divisor is hidden_size, divided by it */
    struct family_number attention_softcap, logit_softcap;

    struct family_experts experts;

    struct family_demand demands[FAMILY_MAX_DEMANDS]; /* up to a key of NULL */
    /* keys that must have these texts, if present, up to a key of NULL */
    struct family_text {
        const char *key, *text;
    } texts[FAMILY_MAX_TEXTS];
    const char *refused_key; /* must be absent: it selects an unsupported feature */

    /* The names of tensors in the checkpoint, with %u for the layer, then for the expert; NULL if
     * the family has no such tensor. Parts of fused tensors have names as if they were separate
     * tensors. */
    const char *names[ROLE_COUNT];
    struct family_fused fused[FAMILY_MAX_FUSED];
    /* Encoders with a norm after the embedding and, with BLOCK_NORM_STREAM, after each layer: their
     * names, of weight and bias. names has that before the layer, which is the one after the layer
     * before. */
    bool encodes;            /* windows see half of the window on either side */
    const char *encodes_key; /* makes a model without an output layer an encoder, whose windows see
                              * half of sliding_window on either side; NULL: none */
    bool norms_score; /* a scorer has a GELU layer and a norm before its classifier, and config.json
                       * may have classifier_pooling, _activation and _bias */
    const char *score_layers[2]; /* names of an encoder's layer before the classifier and of that,
                                  * without ".weight" and ".bias" */
    enum dense_activation score_activation; /* of the first of them */
    bool types_pairs;   /* the second text of a pair has the second type of tokens */
    bool scores;        /* it has a score's tensors; set for rerankers */
    bool has_no_output; /* the output layer, if any, is not converted; set for models of embeddings
                         */
    const char *embedding_norm[2], *layer_norm[2];
    const char *heads[2]; /* beginnings of the names of tensors after the layers, which are of no
                           * use for embeddings; NULL: none */
    const char *types;    /* the embedding of types of tokens, of which all are 0; NULL: none */
    bool may_lack_types;  /* type_vocab_size may be 0, which is none */
    struct family_count pad_id; /* positions begin after the row of this token; a key of NULL: with
                                 * the first row; empty: it is always the default */
    const char *prefix;     /* that tensors' names may lack, in all of the checkpoint; NULL: none */
    const char *old_prefix; /* that they may have in its place; NULL: none */
    bool predicts_further;  /* checkpoints may have mtp.*, which predict further tokens */
    const char *pretrained; /* an architecture with further layers after the last block, which are
                             * left out like heads; NULL: none */
};

/* Returns family `i`, counted from 0, or NULL after the last. */
const struct family *smol_family_at(size_t i);

/* Return the family that has the architecture (body, pretrained and scorer too) or the model_type
 * `name`, or NULL if it is not supported. */
const struct family *smol_family_by_architecture(const char *name);
const struct family *smol_family_by_model_type(const char *name);

/* Returns a family with the model's blocks, its kind of states, experts if it has some, and an
 * encoder's if it is one, which determine the names of tensors; one with its activation, if any.
 * Returns Llama if there is none. */
const struct family *smol_family_of(const struct blob_model *model, bool encodes);

/* Writes a remedy for messages about the unknown architecture `name` (NULL: it is missing): the
 * architectures of its family, or where families are listed. Returns `text`. */
enum { FAMILY_REMEDY = 192 };
const char *smol_family_remedy(const char *name, char text[FAMILY_REMEDY]);

#endif
