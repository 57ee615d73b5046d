/* Families of models as data: what tells the checkpoints and the blocks of one from those of
 * another. families.c is the table; adding a family is adding an entry there. */
#ifndef SMOL_CONVERT_FAMILY_H
#define SMOL_CONVERT_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/format.h"

/* Defaults of config.json's keys for sizes. */
struct family_sizes {
    uint32_t hidden_size, intermediate_size, n_layers, n_heads;
    uint32_t n_kv_heads; /* 0: as many as heads */
    uint32_t head_dim;   /* 0: hidden_size / n_heads */
    uint32_t vocab_size, context_length;
};

/* A number that config.json may give; `key` NULL: it is always the default. */
struct family_number {
    const char *key;
    double fallback;
};
struct family_count {
    const char *key;
    uint32_t fallback;
};

enum family_bias {
    BIAS_NEVER,
    BIAS_BY_KEY,     /* of q, k, v and o, where config.json's attention_bias says so */
    BIAS_QKV_ALWAYS, /* of q, k and v */
};

/* Which layers see a window of sliding_window positions only. Where config.json has layer_types, it
 * is followed in all but the first two. */
enum family_windows {
    WINDOWS_NEVER,
    WINDOWS_ALL,       /* every layer; sliding_window null: none */
    WINDOWS_FROM_N,    /* where use_sliding_window is set: layer n (from 0) and later ones */
    WINDOWS_NO_ROPE,   /* where use_sliding_window is set: the layers that do not rotate */
    WINDOWS_BUT_EACH_N /* all but each n-th */
};

/* Matrices that a checkpoint keeps in one tensor, one below the other. */
enum { FAMILY_MAX_FUSED = 2, FAMILY_MAX_PARTS = 3 };
struct family_fused {
    const char *name; /* as in struct family; NULL: none */
    enum tensor_role roles[FAMILY_MAX_PARTS];
    size_t n;
};

struct family {
    const char *architecture; /* in config.json's list `architectures` */
    const char *model_type;   /* config.json's key */

    /* Defaults where config.json lacks a key: those of the reference's configuration class. */
    struct family_sizes sizes;
    double rms_norm_eps;
    double rope_theta;
    uint32_t bos_id, eos_id; /* or NO_TOKEN */
    uint32_t tied_embeddings;
    bool needs_kv_heads; /* num_key_value_heads may not be null */

    /* Its blocks. */
    const char *activation_key;
    enum activation activation; /* the default */
    enum family_bias attention_bias;
    bool has_mlp_bias;         /* a key mlp_bias */
    uint32_t blocks;           /* bits of enum block_bit */
    float norm_offset;         /* 1 where the reference multiplies by 1 + weight */
    bool has_no_rope;          /* keys no_rope_layers, no_rope_layer_interval */
    bool rotates_parts;        /* partial_rotary_factor counts; rope_type as Phi-3 has it */
    uint32_t original_context; /* default of config.json's original_max_position_embeddings, and
                                  then nothing else counts; 0: none */
    double local_theta; /* windowed layers rotate by a table of their own; the default of its theta;
                           0: they do not */
    enum family_windows windows;
    uint32_t sliding_window;       /* the key's default; 0: none */
    struct family_count windows_n; /* the n above */

    /* Scales that are not Llama's. A softcap that is 0 here, or null there, is none. */
    bool scales_by_root;                  /* the embedding times the root of hidden_size */
    struct family_number query_scalar;    /* attention's scores over its root, not head_dim's */
    struct family_number attention_scale; /* attention's scores times this */
    struct family_number embedding_scale, residual_scale, logit_divisor;
    struct family_number attention_softcap, logit_softcap;

    const char *refused_flag; /* must not be set: it asks for what we do not run */

    /* The checkpoint's names of its tensors, with %u for the layer; NULL: it has no such tensor.
     * Parts of fused tensors have names as if they were there by themselves. */
    const char *names[ROLE_COUNT];
    struct family_fused fused[FAMILY_MAX_FUSED];
};

/* The families in turn, from 0 on; NULL after the last. */
const struct family *smol_family_at(size_t i);

/* The family whose architecture, or model_type, is `name`; NULL: it is not supported. */
const struct family *smol_family_by_architecture(const char *name);
const struct family *smol_family_by_model_type(const char *name);

/* A family whose blocks these are (bits of enum block_bit); Llama where there is none: what
 * checkpoints with such blocks call their tensors. */
const struct family *smol_family_by_blocks(uint32_t blocks);

/* "smolconv reads LlamaForCausalLM, ...": for messages. Returns `text`. */
enum { FAMILY_LIST = 256 };
const char *smol_family_list(char text[FAMILY_LIST]);

#endif
