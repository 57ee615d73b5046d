/* The bytes of a .smol blob as C structs. FORMAT.md is the specification. Everything is
 * little-endian; structs have no hidden padding, and reserved fields are zero. Offsets are from the
 * start of the file unless stated otherwise. */
#ifndef SMOL_FORMAT_FORMAT_H
#define SMOL_FORMAT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Modelled on PNG: a byte with the high bit set, then line endings that text-mode transfers
 * change. */
#define BLOB_MAGIC "\x89SML\r\n\x1a\n"

enum {
    BLOB_MAGIC_SIZE = 8,
    BLOB_MAJOR = 1,
    BLOB_MINOR = 0,            /* of a file that requires no feature; FORMAT.md, 11 */
    BLOB_MINOR_FEATURES = 1,   /* of a file that requires a feature of version 1.1 */
    BLOB_MINOR_MIXED = 2,      /* of a file that requires FEATURE_MIXED */
    BLOB_MINOR_TOOLS = 3,      /* of a file that requires FEATURE_TOOLS */
    BLOB_MINOR_COMPONENTS = 4, /* of a file that requires FEATURE_COMPONENTS */
    BLOB_MINOR_VOCABULARY = 5, /* of a file that requires FEATURE_VOCABULARY or FEATURE_ENCODER */
    BLOB_MINOR_STATES = 6,     /* of a file that requires any feature from FEATURE_STATES on */
    BLOB_CHUNK_SIZE = 65536,   /* unit of digests, and the alignment of data sections */
    BLOB_ALIGN = 64,           /* alignment of front sections and tensors */
    BLOB_MAX_FRONT = 64 << 20, /* largest data_offset: readers hold the front in memory */
};

/* Bytes [0, data_offset) are the front: this header, the section table, the front sections.
 * front_digest covers all of it except the magic and itself. Bytes [data_offset, file_size) are the
 * data sections, covered by the chunk digests in SECTION_DIGESTS. */
struct blob_header {
    uint8_t magic[BLOB_MAGIC_SIZE];
    uint64_t front_digest; /* XXH3-64 of bytes [16, data_offset) */
    uint16_t major, minor;
    uint32_t n_sections;        /* entries of the section table, which follows the header */
    uint64_t file_size;         /* bytes */
    uint64_t data_offset;       /* multiple of BLOB_CHUNK_SIZE */
    uint64_t required_features; /* bits of enum blob_feature that a reader must support */
    uint64_t optional_features; /* bits that a reader may ignore; none is defined yet */
    uint64_t reserved;
};
enum { BLOB_DIGEST_START = 16 };

/* Features beyond version 1.0 that a file may require of its reader. */
enum blob_feature {
    FEATURE_BLOCKS = 1 << 0, /* fields of struct blob_model from `blocks` on, and SECTION_LAYERS */
    FEATURE_TEMPLATE = 1 << 1, /* SECTION_TEMPLATE */
    FEATURE_SCANNER = 1 << 2,  /* SECTION_SCANNER */
    FEATURE_TEXT = 1 << 3,     /* SECTION_TEXT, and the flags that belong to it */
    FEATURE_MIXED = 1 << 4,    /* SECTION_LEVELS; each matrix of an int8 model has its own dtype */
    FEATURE_TOOLS = 1 << 5,    /* struct blob_template.tool_style is not 0 */
    /* struct blob_model has block bits from BLOCK_QK_NORM_LATE on, an activation from
     * ACTIVATION_GELU on, or a query_growth; with FEATURE_BLOCKS */
    FEATURE_COMPONENTS = 1 << 6,
    /* fields of struct blob_text from `model` on, and the flags and steps that belong to it */
    FEATURE_VOCABULARY = 1 << 7,
    FEATURE_ENCODER = 1 << 8,  /* SECTION_ENCODER: every token sees the whole text */
    FEATURE_STATES = 1 << 9,   /* SECTION_STATES: layers with states in place of attention */
    FEATURE_EXPERTS = 1 << 10, /* SECTION_EXPERTS: layers with mixtures of experts */
    /* SECTION_EMBEDDER, and SECTION_ENCODER even without FEATURE_ENCODER: each token then sees
     * those before it */
    FEATURE_EMBEDDER = 1 << 11,
    /* fields of struct blob_text from `n_cluster_blocks` on, STEP_CLUSTERS */
    FEATURE_CLUSTERS = 1 << 12,
    /* fields of struct blob_scanner from `n_ahead_states` on, STAGE_EMPTY */
    FEATURE_AHEAD = 1 << 13,
    /* with FEATURE_ENCODER: windows see both sides, a text may have up to ENCODER_MAX_CONTEXT
     * tokens, or struct blob_encoder.norms_embedding is not 0 */
    FEATURE_AROUND = 1 << 14,
    FEATURE_HYBRID = 1 << 15, /* SECTION_HYBRID: layers with a state attend too; with STATES */
    FEATURE_LATENT = 1 << 16, /* SECTION_LATENT: attention to latent vectors; with FEATURE_BLOCKS */
    FEATURE_NORMED = 1 << 17, /* with FEATURE_EMBEDDER: a dense layer has DENSE_GELU_NORM */
    FEATURE_DOUBLED = 1 << 18,  /* with FEATURE_EMBEDDER: PAIR_DOUBLED, or a layer has DENSE_RELU */
    FEATURE_RELATIVE = 1 << 19, /* with FEATURE_ENCODER: BLOCK_RELATIVE */
    FEATURE_HEAD_GATES = 1 << 20, /* with FEATURE_STATES: BLOCK_GATE_HEADS */
    FEATURE_FURTHER = 1 << 21,    /* parts that FEATURE_COMPONENTS does not include: BLOCK_SINKS,
                                   * ACTIVATION_RELU_SQUARED */
    FEATURE_VARIED = 1 << 22,     /* SECTION_VARIED: layers differ in shape; with FEATURE_BLOCKS */
    FEATURE_PARTIAL = 1 << 23,    /* SECTION_PARTIAL: layers lack a block; with FEATURE_BLOCKS */
    FEATURE_OWN_NORMS = 1 << 24,  /* with FEATURE_EXPERTS: struct blob_experts.own_norms */
    KNOWN_FEATURES =
        FEATURE_BLOCKS | FEATURE_TEMPLATE | FEATURE_SCANNER | FEATURE_TEXT | FEATURE_MIXED |
        FEATURE_TOOLS | FEATURE_COMPONENTS | FEATURE_VOCABULARY | FEATURE_ENCODER | FEATURE_STATES |
        FEATURE_EXPERTS | FEATURE_EMBEDDER | FEATURE_CLUSTERS | FEATURE_AHEAD | FEATURE_AROUND |
        FEATURE_HYBRID | FEATURE_LATENT | FEATURE_NORMED | FEATURE_DOUBLED | FEATURE_RELATIVE |
        FEATURE_HEAD_GATES | FEATURE_FURTHER | FEATURE_VARIED | FEATURE_PARTIAL | FEATURE_OWN_NORMS,
};

enum section_kind {
    /* front sections */
    SECTION_MODEL = 1,      /* struct blob_model */
    SECTION_INV_FREQ = 2,   /* f32[n_rope_tables][rotary_dim / 2]: RoPE's angle per position */
    SECTION_STOP = 3,       /* u32[]: token ids that end a text, ascending; may be empty */
    SECTION_GENERATION = 4, /* struct blob_generation */
    SECTION_PROVENANCE = 5, /* UTF-8 text, lines of `key: value` */
    SECTION_TENSORS = 6,    /* struct blob_tensor[] */
    SECTION_DIGESTS = 7,    /* u64[]: XXH3-64 of each chunk of [data_offset, file_size) */
    SECTION_LAYERS = 8,     /* u8[n_layers]: bits of enum layer_bit */
    SECTION_TEMPLATE = 9,   /* struct blob_template, then its tables: format/template.h */
    SECTION_SCANNER = 10,   /* struct blob_scanner, then its tables */
    SECTION_TEXT = 11,      /* struct blob_text, then its tables */
    SECTION_LEVELS = 12,    /* struct blob_levels[], FEATURE_MIXED */
    SECTION_ENCODER = 13,   /* struct blob_encoder, FEATURE_ENCODER or FEATURE_EMBEDDER */
    SECTION_STATES = 14,    /* struct blob_states, FEATURE_STATES */
    SECTION_EXPERTS = 15,   /* struct blob_experts, FEATURE_EXPERTS */
    SECTION_EMBEDDER = 16,  /* struct blob_embedder, then its tables, FEATURE_EMBEDDER */
    SECTION_HYBRID = 17,    /* struct blob_hybrid, FEATURE_HYBRID */
    SECTION_LATENT = 18,    /* struct blob_latent, FEATURE_LATENT */
    SECTION_VARIED = 19,    /* struct blob_varied, FEATURE_VARIED */
    SECTION_PARTIAL = 20,   /* struct blob_partial, FEATURE_PARTIAL */
    /* data sections */
    SECTION_FIRST_DATA = 32,
    SECTION_TOKENIZER = 32, /* struct blob_tokenizer, then its tables */
    SECTION_WEIGHTS = 33,   /* the tensors */
};

/* Sections appear in ascending order of kind and of offset, without overlap; bytes between them are
 * zero. format/sections.c lists the kinds. */
struct blob_section {
    uint32_t kind;
    uint32_t reserved;
    uint64_t offset; /* multiple of BLOB_ALIGN (front) or BLOB_CHUNK_SIZE (data) */
    uint64_t size;   /* bytes, without the padding after it */
};

enum blob_family { FAMILY_LLAMA = 1 };

/* Element types. FORMAT.md describes the tile layout in which a matrix is stored. */
enum blob_dtype {
    DTYPE_F32 = 1,
    DTYPE_BF16 = 2, /* the upper half of f32; two inputs of a row share a 32-bit lane */
    /* grouped: 32 inputs of a row share an f16 scale */
    DTYPE_INT8 = 3, /* the weight is a byte times the scale */
    DTYPE_INT6 = 4, /* the weight is an entry of a table of 64, 32 or 16 bytes, times the scale */
    DTYPE_INT5 = 5,
    DTYPE_INT4 = 6,
};
enum { MAX_LEVELS = 64 };

/* A table of the values of int4, int5 or int6 weights: strictly ascending, within -127..127, zeros
 * after the last. */
struct blob_levels {
    int8_t values[MAX_LEVELS];
};

#define NO_TOKEN UINT32_MAX /* the absence of a token id */

enum bias_kind { BIAS_NONE, BIAS_QKVO, BIAS_QKV };
enum activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_GELU,         /* by the error function; FEATURE_COMPONENTS */
    ACTIVATION_RELU_SQUARED, /* FEATURE_FURTHER too */
    ACTIVATION_COUNT,
};

/* The parts of a block. Without any bit, RMSNorms stand before attention and before the MLP. */
enum block_bit {
    BLOCK_NORM_OUTPUTS = 1 << 0,   /* after attention and the MLP, before the residual is added */
    BLOCK_NO_INPUT_NORMS = 1 << 1, /* attention and the MLP read the residual stream itself */
    BLOCK_QK_NORM_HEADS = 1 << 2,  /* of each query and key head separately */
    BLOCK_QK_NORM_ALL = 1 << 3,    /* of all query heads as one vector, and of all key heads */
    /* with FEATURE_COMPONENTS only: */
    BLOCK_QK_NORM_LATE = 1 << 4,      /* norms of query and key heads after the rotation */
    BLOCK_ROTATE_NEIGHBOURS = 1 << 5, /* channels 2i and 2i + 1 of a head turn as a pair */
    BLOCK_LAYER_NORM = 1 << 6,        /* norms of the residual stream are LayerNorms with biases */
    BLOCK_NO_GATE = 1 << 7,           /* the MLP's activation is that of `up` alone */
    BLOCK_PARALLEL = 1 << 8,          /* the MLP reads what attention reads, not what it adds */
    BLOCK_ONE_NORM = 1 << 9,          /* attn_norm is the MLP's too; with BLOCK_PARALLEL */
    BLOCK_POSITIONS = 1 << 10,        /* learned positions are added to the embedding */
    BLOCK_OUTPUT_BIAS = 1 << 11,      /* the output matrix has a bias */
    FIRST_COMPONENT_BIT = BLOCK_QK_NORM_LATE,
    /* with FEATURE_ENCODER only: the residual stream becomes what the norm before a block makes of
     * it (post-norm: LayerNorm(x + block(x)), seen from the next block) */
    BLOCK_NORM_STREAM = 1 << 12,
    /* with FEATURE_STATES only: attention's output is multiplied by the sigmoid of a gate */
    BLOCK_ATTENTION_GATE = 1 << 13,
    /* with FEATURE_RELATIVE only: the distance between query and key adds a number to the score */
    BLOCK_RELATIVE = 1 << 14,
    BLOCK_GATE_HEADS = 1 << 15, /* with FEATURE_HEAD_GATES only: that gate is one of each head */
    /* with FEATURE_FURTHER only: a number of each head joins the sum of the softmax */
    BLOCK_SINKS = 1 << 16,
    ALL_BLOCK_BITS = (1 << 17) - 1,
};

/* Properties of a single layer. */
enum layer_bit {
    LAYER_WINDOWED = 1 << 0,     /* attention sees the last sliding_window positions; with
                                  * FEATURE_AROUND as many of the next ones, its own included */
    LAYER_NO_ROTATION = 1 << 1,  /* queries and keys are not rotated */
    LAYER_SECOND_TABLE = 1 << 2, /* queries and keys are rotated by the second table of inv_freq */
    ALL_LAYER_BITS = (1 << 3) - 1,
};

/* Layers that, in place of attention's keys and values, keep a state of fixed size for a sequence.
 * All of a model's are of one kind. */
enum { STATES_MAX_LAYERS = 1 << 10 };
struct blob_states {
    uint32_t kind;   /* enum state_kind */
    uint32_t taps;   /* inputs that a convolution sees, with the newest; 2 to STATES_MAX_TAPS */
    uint32_t biases; /* 1: the convolution and, of STATE_SHORT_CONV, the matrices have biases */
    /* 0 for STATE_SHORT_CONV: */
    uint32_t n_heads, head_dim; /* of the layer's output */
    uint32_t size;              /* of the vectors that drive and read the state */
    uint32_t n_groups;          /* of these vectors: groups of as many heads share them */
    uint32_t reserved[9];
    uint8_t layers[STATES_MAX_LAYERS / 8]; /* bit i % 8 of byte i / 8: layer i has a state */
};
enum state_kind {
    STATE_NONE,       /* in memory only: no layer has a state */
    STATE_SHORT_CONV, /* LFM2's gated short convolution */
    STATE_MAMBA2,     /* Dao and Gu, 2024 */
    STATE_DELTA,      /* gated DeltaNet (Yang et al., 2024) */
};
enum { STATES_MAX_TAPS = 16, STATES_MAX_HEADS = 1 << 12, STATES_MAX_SIZE = 1 << 10 };

/* Layers whose attention and state stand side by side (Falcon-H1; Zuo et al., 2025): both read the
 * same input, and both outputs are added to the residual stream. Parts have scales. All zero: a
 * state stands in place of attention. */
struct blob_hybrid {
    uint32_t parallel;                 /* 1 */
    uint32_t norm;                     /* enum mixer_norm */
    uint32_t input_biases;             /* 1: ROLE_MIXER_GATE, _IN and _STEP have biases */
    uint32_t output_bias;              /* 1: ROLE_MIXER_OUT has a bias */
    float attention_in, attention_out; /* attention's input and output are multiplied by these, */
    float mixer_in, mixer_out;         /* and those of what has the state */
    float gate, x, b, c, step;         /* and the products of the latter's input */
    float mlp_gate, mlp_out;           /* and the MLP's gate and output */
    uint32_t reserved;
};
enum mixer_norm {
    MIXER_NORM_LATE,  /* of the gated output */
    MIXER_NORM_EARLY, /* of the output, before the gate */
    MIXER_NORM_NONE,
    MIXER_NORM_COUNT,
};

/* Mixtures of experts (Shazeer et al., 2017): in a sparse layer a router chooses for each token
 * n_used of n_experts MLPs, whose weighted outputs are added. All zero: the model has none. */
struct blob_experts {
    uint32_t n_experts;
    uint32_t n_used;       /* at most n_experts */
    uint32_t width;        /* the intermediate size of an expert */
    uint32_t shared_width; /* that of the MLP which all tokens use beside the experts; 0: none */
    uint32_t scoring;      /* enum expert_scoring */
    uint32_t normalizes;   /* 1: the weights of the chosen experts are divided by their sum */
    uint32_t choice_bias;  /* 1: a bias is added to the scores, only to choose by them */
    float sum_epsilon;     /* added to that sum */
    float scale;           /* the weights are then multiplied by it */
    float qkv_clip;        /* queries, keys and values stay within it and its negative; 0: free */
    uint32_t shared_gate;  /* 1: that MLP's output is multiplied by the sigmoid of a gate */
    /* FEATURE_OWN_NORMS: 1: that MLP's output, the router's input, and the experts' input and
     * output have norms of their own, and weights of experts factors */
    uint32_t own_norms;
    uint8_t reserved[16];
    /* set of the layers with one MLP of intermediate_size instead, or none */
    uint8_t dense[STATES_MAX_LAYERS / 8];
};
enum expert_scoring {
    SCORE_SOFTMAX,        /* softmax over all experts */
    SCORE_SOFTMAX_CHOSEN, /* softmax over the chosen experts, which have the largest logits */
    SCORE_SIGMOID,        /* of each logit */
    SCORE_COUNT,
};

/* Multi-head latent attention (DeepSeek-AI, 2024). All heads share one key, which is the value too:
 * kv_rank channels, the latent vector, then rotary_dim ones, which rotate. n_kv_heads is 1, and
 * head_dim kv_rank + rotary_dim. A head's query has query_dim channels, which ROLE_ATTN_K_UP turns
 * into a query of the latent vector, then those that rotate. ROLE_ATTN_V_UP turns the latent part
 * of attention's output into the value_dim channels of a head. All zero: the model has no latents.
 */
struct blob_latent {
    uint32_t kv_rank; /* a multiple of TILE_ROWS */
    uint32_t q_rank;  /* inputs of ROLE_ATTN_Q, which ROLE_ATTN_Q_DOWN computes; 0: hidden_size */
    uint32_t query_dim;
    uint32_t value_dim; /* a multiple of TILE_ROWS */
    float norm_eps;     /* of the norms of latent vectors and of queries before ROLE_ATTN_Q */
    uint32_t reserved[11];
};

/* Layers that differ in shape, as Gemma 4's (Google, 2026). Heads of the layers in `second` have a
 * shape of their own, and rotate as a whole, by the second table of inv_freq. The layers from
 * first_shared on keep no keys and values: they attend to those of the last layer before them that
 * is of their kind, in `second` or not. Values are divided by their root mean square, and the
 * residual stream is multiplied by ROLE_LAYER_SCALE after each layer. With an input_width a token
 * has an input of so many numbers for each layer (FORMAT.md, 5.19). All zero: layers are alike. */
struct blob_varied {
    uint32_t head_dim, n_kv_heads; /* of layers in `second` */
    uint32_t keys_are_values;      /* 1: in these, values are keys before their norm and rotation */
    uint32_t first_shared;         /* at least 1; n_layers: every layer has keys and values */
    uint32_t shared_width;         /* intermediate_size of the layers from first_shared on */
    uint32_t input_width;          /* or 0; all that follows is then 0 but for `second` */
    float input_scale;             /* of the rows of ROLE_INPUT_EMBED */
    float projection_scale;        /* of the product of ROLE_INPUT_PROJECTION */
    float sum_scale;               /* of the sum of both */
    uint32_t reserved[7];
    uint8_t second[STATES_MAX_LAYERS / 8]; /* a set of layers */
};

/* Layers that lack a block, as Nemotron-H's (NVIDIA, 2025): the first, which is attention or has a
 * state, or the MLP. They lack its norm too. All zero: every layer has both. */
struct blob_partial {
    uint8_t no_mixer[STATES_MAX_LAYERS / 8]; /* sets of layers */
    uint8_t no_mlp[STATES_MAX_LAYERS / 8];
};

/* Hyper-parameters with every default resolved. Without FEATURE_BLOCKS everything from `blocks` on
 * is zero and means the plain Llama block (smol_model_fill). Without FEATURE_COMPONENTS
 * query_growth and query_period are zero. */
struct blob_model {
    uint32_t family; /* enum blob_family */
    uint32_t dtype;  /* of every matrix: F32, BF16 or INT8; with FEATURE_MIXED, INT8 */
    uint32_t n_layers;
    uint32_t hidden_size;
    uint32_t intermediate_size;
    uint32_t n_heads;
    uint32_t n_kv_heads;      /* divides n_heads */
    uint32_t head_dim;        /* even */
    uint32_t vocab_size;      /* rows of the embedding; all ids are smaller */
    uint32_t context_length;  /* most positions that the model supports */
    uint32_t bos_id;          /* or NO_TOKEN */
    uint32_t tied_embeddings; /* 1: the output matrix is the embedding; 0: it is separate */
    float rms_norm_eps;       /* of every norm */
    uint32_t attention_bias;  /* enum bias_kind: which of q, k, v and o have biases */
    uint32_t mlp_bias;        /* 1: gate, up and down have biases */
    uint32_t activation;      /* enum activation of the MLP's gate, or of its `up` */
    double rope_theta;        /* for display; computations use inv_freq */
    uint32_t blocks;          /* bits of enum block_bit */
    float embedding_scale;
    float residual_scale;    /* of the attention and MLP outputs added to the residual stream */
    float attention_scale;   /* of queries; plain: 1 / sqrt(head_dim) */
    float attention_softcap; /* a score s becomes cap * tanh(s / cap); 0: none */
    float logit_divisor;
    float logit_softcap;     /* as attention_softcap, for logits after the division; 0: none */
    uint32_t sliding_window; /* positions that a windowed layer sees, including its own; or 0 */
    uint32_t rotary_dim;     /* elements of a head that rotate, even */
    uint32_t n_rope_tables;  /* of inv_freq: 1 or 2 */
    float rope_scale[2];     /* of cosine and sine, for each table; 0 without a second table */
    float query_growth;      /* rotated queries at position p are multiplied by */
    uint32_t query_period;   /* 1 + query_growth * ln(1 + floor(p / query_period)); 0, 0: are not */

    /* SECTION_MODEL ends here. In memory, the sections of further features follow; without them,
     * they are zero. */
    struct blob_states states;
    struct blob_experts experts;
    struct blob_hybrid hybrid;
    struct blob_latent latent;
    struct blob_varied varied;
    struct blob_partial partial;
};
enum { MODEL_SECTION_SIZE = 128 };

/* How an encoder turns the states of a text's tokens into one embedding. */
struct blob_encoder {
    uint32_t pooling;    /* enum encoder_pooling */
    uint32_t normalizes; /* 1: the embedding is divided by its Euclidean length */
    uint32_t max_length; /* most tokens of a text, with those around it; at most context_length */
    uint32_t norms_embedding; /* FEATURE_AROUND: 1: the first layer's attn_norm is the embedding's:
                               * the residual stream starts as its output */
    uint32_t reserved[12];
};
enum encoder_pooling {
    ENCODER_MEAN,
    ENCODER_FIRST,
    ENCODER_MAX,
    ENCODER_LAST, /* FEATURE_EMBEDDER only */
    ENCODER_POOLINGS
};
enum { ENCODER_SHORT = 512, ENCODER_MAX_CONTEXT = 8192 };

/* A layer between pooling and normalization: activation(matrix * x + bias). */
struct blob_dense {
    uint32_t outputs;    /* its inputs are hidden_size, or the outputs of the layer before */
    uint32_t activation; /* enum dense_activation */
    uint32_t has_bias;   /* 0 or 1 */
    uint32_t reserved;
};
enum dense_activation {
    DENSE_IDENTITY,
    DENSE_TANH,
    DENSE_GELU_NORM, /* FEATURE_NORMED: GELU, then a LayerNorm without weights */
    DENSE_RELU,      /* FEATURE_DOUBLED */
    DENSE_ACTIVATIONS
};

/* The embedder section: the rest of how an embedding is made. It starts with this struct. The
 * tables follow in the order in which they are listed here, each at the first multiple of
 * BLOB_ALIGN after the previous one. The section ends with the last table. format/embedder.h reads
 * it. */
struct blob_embedder {
    uint32_t n_prompts;      /* at most EMBEDDER_MAX_PROMPTS */
    uint32_t default_prompt; /* the one for texts without another; or NO_TOKEN */
    uint32_t n_strings;      /* u8: name and text of each prompt, by names ascending; with
                              * PAIR_TEXTS three texts: before, between and after a pair's. Each is
                              * UTF-8 that ends with a zero. */
    uint32_t n_dense;        /* at most EMBEDDER_MAX_DENSE: for each a matrix in tiles of f32 if the
                              * model's dtype is that, else of bf16; and f32[outputs] if has_bias */
    uint32_t score;          /* enum embedder_score */
    uint32_t pair;           /* enum embedder_pair, not 0 if and only if `score` is not */
    uint32_t separator;      /* PAIR_SEPARATED, PAIR_DOUBLED: the token after each text; else 0 */
    uint32_t has_types;      /* 1: f32[hidden_size], added to the embedding of each token after the
                              * first separator; with PAIR_SEPARATED only */
    struct blob_dense dense[2];
};
enum {
    EMBEDDER_MAX_PROMPTS = 64,
    EMBEDDER_MAX_STRINGS = 1 << 18,
    EMBEDDER_MAX_DENSE = 2,
    EMBEDDER_MAX_OUTPUTS = 1 << 16,
};
enum embedder_score {
    SCORE_NONE,     /* an embedding */
    SCORE_PLAIN,    /* the only output of the last dense layer */
    SCORE_LOGISTIC, /* 1 / (1 + exp(-x)) of it */
    SCORE_KINDS
};
enum embedder_pair {
    PAIR_NONE,
    PAIR_SEPARATED, /* a token after each text */
    PAIR_TEXTS,     /* in a text */
    PAIR_DOUBLED,   /* FEATURE_DOUBLED: like PAIR_SEPARATED, but two tokens between the texts */
    PAIR_KINDS
};

/* Sampling defaults of the checkpoint: `inspect` shows them, and they apply only on request. */
enum generation_field {
    GENERATION_DO_SAMPLE = 1 << 0,
    GENERATION_TEMPERATURE = 1 << 1,
    GENERATION_TOP_K = 1 << 2,
    GENERATION_TOP_P = 1 << 3,
    GENERATION_MIN_P = 1 << 4,
    GENERATION_REPETITION_PENALTY = 1 << 5,
};
struct blob_generation {
    uint32_t present; /* bits of enum generation_field; an absent field is zero */
    uint32_t do_sample;
    uint32_t top_k;
    float temperature, top_p, min_p, repetition_penalty;
    uint8_t reserved[36];
};

/* The purpose of a tensor. format/layout.c defines their order in a blob. */
enum tensor_role {
    ROLE_EMBED = 0, /* (vocab_size, hidden_size) */
    ROLE_ATTN_NORM, /* (hidden_size) */
    ROLE_ATTN_Q,    /* (n_heads * head_dim, hidden_size) */
    ROLE_ATTN_K,    /* (n_kv_heads * head_dim, hidden_size) */
    ROLE_ATTN_V,    /* as K */
    ROLE_ATTN_O,    /* (hidden_size, n_heads * head_dim) */
    ROLE_ATTN_Q_BIAS,
    ROLE_ATTN_K_BIAS,
    ROLE_ATTN_V_BIAS,
    ROLE_ATTN_O_BIAS,
    ROLE_MLP_NORM, /* (hidden_size) */
    ROLE_MLP_GATE, /* (intermediate_size, hidden_size) */
    ROLE_MLP_UP,   /* as gate */
    ROLE_MLP_DOWN, /* (hidden_size, intermediate_size) */
    ROLE_MLP_GATE_BIAS,
    ROLE_MLP_UP_BIAS,
    ROLE_MLP_DOWN_BIAS,
    ROLE_FINAL_NORM, /* (hidden_size) */
    ROLE_OUTPUT,     /* (vocab_size, hidden_size): the head; an alias of EMBED when tied */
    /* per layer, with FEATURE_BLOCKS */
    ROLE_ATTN_Q_NORM,   /* (head_dim), or (n_heads * head_dim) for BLOCK_QK_NORM_ALL */
    ROLE_ATTN_K_NORM,   /* (head_dim), or (n_kv_heads * head_dim) */
    ROLE_ATTN_OUT_NORM, /* (hidden_size) */
    ROLE_MLP_OUT_NORM,  /* (hidden_size) */
    /* with FEATURE_COMPONENTS */
    ROLE_POSITIONS,       /* (context_length, hidden_size): learned positions */
    ROLE_ATTN_NORM_BIAS,  /* (hidden_size), per layer */
    ROLE_MLP_NORM_BIAS,   /* (hidden_size), per layer */
    ROLE_FINAL_NORM_BIAS, /* (hidden_size) */
    ROLE_OUTPUT_BIAS,     /* (vocab_size) */
    /* per layer with a state, with FEATURE_STATES; FORMAT.md, 14, has their shapes */
    ROLE_MIXER_IN,        /* STATE_SHORT_CONV: B, C and x; others: the convolution's inputs */
    ROLE_MIXER_IN_BIAS,   /* of STATE_SHORT_CONV, or with FEATURE_HYBRID */
    ROLE_MIXER_CONV,      /* (taps, channels): the weights of the oldest input come first */
    ROLE_MIXER_CONV_BIAS, /* (channels) */
    ROLE_MIXER_OUT,       /* (hidden_size, n_heads * head_dim) */
    ROLE_MIXER_OUT_BIAS,  /* of STATE_SHORT_CONV, or with FEATURE_HYBRID */
    /* per sparse layer, with FEATURE_EXPERTS; its shared MLP has the roles of an MLP */
    ROLE_ROUTER,      /* (n_experts, hidden_size), f32 in blobs of every dtype */
    ROLE_ROUTER_BIAS, /* (n_experts) */
    ROLE_EXPERT_GATE, /* (width, hidden_size), for each expert */
    ROLE_EXPERT_UP,   /* as gate */
    ROLE_EXPERT_DOWN, /* (hidden_size, width) */
    /* per layer with a state, but not of STATE_SHORT_CONV: */
    ROLE_MIXER_GATE,      /* (n_heads * head_dim, hidden_size): the gate of the output */
    ROLE_MIXER_STEP,      /* (n_heads, hidden_size): a token's step */
    ROLE_MIXER_RATE,      /* (n_heads, hidden_size): STATE_DELTA's rate of learning */
    ROLE_MIXER_STEP_BIAS, /* (n_heads) */
    ROLE_MIXER_DECAY,     /* (n_heads): the logarithm of the decay by a step of 1 */
    ROLE_MIXER_SKIP,      /* (n_heads): STATE_MAMBA2's D */
    ROLE_MIXER_NORM,      /* (n_heads * head_dim), or (head_dim) of STATE_DELTA */
    /* of layers that attend, with BLOCK_ATTENTION_GATE */
    ROLE_ATTN_GATE, /* as Q, or (n_heads, hidden_size) with BLOCK_GATE_HEADS */
    ROLE_ATTN_GATE_BIAS,
    ROLE_SHARED_GATE, /* (1, hidden_size), f32: per sparse layer, of the MLP beside the experts */
    /* with FEATURE_HYBRID */
    ROLE_MIXER_GATE_BIAS,    /* (n_heads * head_dim) */
    ROLE_MIXER_STEP_IN_BIAS, /* (n_heads): of ROLE_MIXER_STEP's product, before its scale */
    /* per layer, with FEATURE_LATENT; FORMAT.md, 5.18, has the shapes of other roles with it */
    ROLE_ATTN_Q_DOWN,      /* (q_rank, hidden_size) */
    ROLE_ATTN_Q_DOWN_NORM, /* (q_rank) */
    ROLE_ATTN_LATENT_NORM, /* (kv_rank) */
    ROLE_ATTN_K_UP,        /* (n_heads * kv_rank, query_dim) */
    ROLE_ATTN_V_UP,        /* (n_heads * value_dim, kv_rank) */
    ROLE_RELATIVE,         /* (RELATIVE_BUCKETS, n_heads), f32: of all layers, BLOCK_RELATIVE */
    ROLE_ATTN_SINKS,       /* (n_heads), per layer that attends, BLOCK_SINKS */
    /* with FEATURE_VARIED; the first three are of all layers, and with an input_width */
    ROLE_INPUT_EMBED, /* (vocab_size * n_layers, input_width): a token's rows are side by side */
    ROLE_INPUT_PROJECTION, /* (n_layers * input_width, hidden_size) */
    ROLE_INPUT_NORM,       /* (input_width) */
    ROLE_INPUT_GATE,       /* (input_width, hidden_size), per layer */
    ROLE_INPUT_OUT,        /* (hidden_size, input_width), per layer */
    ROLE_INPUT_OUT_NORM,   /* (hidden_size), per layer */
    ROLE_LAYER_SCALE,      /* (1), per layer */
    /* per sparse layer, with FEATURE_OWN_NORMS */
    ROLE_SHARED_OUT_NORM, /* (hidden_size): of the output of the MLP beside the experts */
    ROLE_ROUTER_NORM,     /* (hidden_size) */
    ROLE_ROUTER_SCALE,    /* (n_experts): factors of the experts' weights */
    ROLE_EXPERT_NORM,     /* (hidden_size): of the experts' input */
    ROLE_EXPERT_OUT_NORM, /* (hidden_size): of their sum */
    ROLE_COUNT,
};

/* Distances whose scores get the same number form a bucket (FORMAT.md, 5.1). */
enum { RELATIVE_BUCKETS = 32 };

enum tensor_layout {
    LAYOUT_VECTOR = 0, /* f32[cols], zeros up to a multiple of 64 bytes */
    LAYOUT_TILES = 1,  /* row blocks of 16, see FORMAT.md */
    LAYOUT_ROWS = 2,   /* f32[rows][cols], zeros up to a multiple of 64 bytes */
};

/* Tensors are stored in the weights section in the order of this table. */
struct blob_tensor {
    uint32_t role;   /* enum tensor_role */
    uint32_t layer;  /* 0 for roles that are not per layer */
    uint32_t dtype;  /* enum blob_dtype */
    uint32_t layout; /* enum tensor_layout */
    uint64_t rows;   /* logical shape; a vector has 1 row */
    uint64_t cols;
    uint64_t offset; /* from the start of the file, multiple of BLOB_ALIGN */
    uint64_t size;   /* bytes, including tile padding */
    uint32_t levels; /* int6, int5, int4: index of the table in SECTION_LEVELS; otherwise 0 */
    uint32_t expert; /* 0 for roles that are not per expert */
    uint8_t reserved[8];
};

/* The tokenizer section starts with this struct. The tables follow in the order of their offsets
 * here, each at the first multiple of BLOB_ALIGN after the previous one. Offsets are from the start
 * of the section, which ends with the last table. */
struct blob_tokenizer {
    uint32_t n_tokens;       /* ids 0..n_tokens-1 have an entry; at most vocab_size */
    uint32_t n_text_bytes;   /* size of the text pool */
    uint32_t n_merge_slots;  /* a power of two */
    uint32_t max_probe;      /* slots to search before a pair is known to be absent */
    uint32_t n_added;        /* entries of the added-token table */
    uint32_t n_class_blocks; /* blocks of the character-class table */
    uint32_t pretokenizer;   /* bits of enum pretokenizer_bit */
    uint32_t reserved0;
    uint32_t token_spans;  /* offset of struct token_span[n_tokens] */
    uint32_t text;         /* offset of the text pool, u8[n_text_bytes] */
    uint32_t byte_tokens;  /* offset of u32[256]: the token of a single byte, or NO_TOKEN */
    uint32_t merges;       /* offset of struct token_merge[n_merge_slots] */
    uint32_t added;        /* offset of struct added_token[n_added] */
    uint32_t class_index;  /* offset of u16[CLASS_INDEX_SIZE]: code point / 256 -> block */
    uint32_t class_blocks; /* offset of u8[n_class_blocks][256]: bits of enum char_class */
    uint32_t reserved1;
};
enum {
    MERGE_MAX_PROBE = 255,  /* largest max_probe */
    ADDED_TOKEN_MAX = 1024, /* bytes of an added token's text */
};

/* How text is split before merging: by GPT-2's pattern, or by a scanner section. */
enum pretokenizer_bit {
    PRETOKENIZE_DIGITS = 1 << 0,  /* first, each CLASS_NUMERIC character becomes a piece */
    PRETOKENIZE_GPT2 = 1 << 1,    /* then GPT-2's pattern, applied to each piece separately */
    PRETOKENIZE_SCANNER = 1 << 2, /* FEATURE_SCANNER; excludes the other bits */
};

/* The bytes that a token decodes to: text[start, start + length) of the pool. */
struct token_span {
    uint32_t start;
    uint16_t length;
    uint16_t flags; /* bits of enum token_flag */
};
enum token_flag {
    TOKEN_SPECIAL = 1 << 0, /* omitted when text is displayed */
    TOKEN_UNUSED = 1 << 1,  /* no such token; start, length and the other flags are zero */
    /* with FEATURE_TEXT only: */
    TOKEN_BYTE = 1 << 2,  /* represents one byte, see TEXT_BYTE_RUNS */
    TOKEN_PLAIN = 1 << 3, /* keeps its spaces, see TEXT_FIRST_BARE */
    /* with FEATURE_VOCABULARY only: */
    TOKEN_CONTINUES = 1 << 4, /* displayed after the prefix if it is the first token */
};

/* A slot of the merge hash: (left, right) becomes `merged`; lower ranks merge first. An empty slot
 * has left = NO_TOKEN and zeros elsewhere. */
struct token_merge {
    uint32_t left, right;
    uint32_t rank; /* below n_merge_slots */
    uint32_t merged;
};

/* The text is searched for added tokens before it is split. The leftmost match wins, then the
 * longest. Tokens without ADDED_NORMALIZED are found first, then, in the gaps, those with it. The
 * table has this order; each kind is sorted by its bytes (memcmp, a prefix first), strictly
 * ascending. */
struct added_token {
    uint32_t id;
    uint32_t start;  /* the text to find: text[start, start + length) of the pool, UTF-8; */
    uint32_t length; /* may differ from what the id decodes to; 1..ADDED_TOKEN_MAX bytes */
    uint32_t flags;  /* bits of enum added_flag */
};
enum added_flag {
    ADDED_NORMALIZED = 1 << 0,
    /* with FEATURE_TEXT only: */
    ADDED_LSTRIP = 1 << 1,      /* includes the white space before it */
    ADDED_RSTRIP = 1 << 2,      /* includes the white space after it */
    ADDED_SINGLE_WORD = 1 << 3, /* not beside a CLASS_WORD character */
    ADDED_SPECIAL = 1 << 4,     /* special in input text, even if not when displayed */
};

/* LETTER, NUMBER and SPACE are mutually exclusive; U+0020 is SPACE. */
enum char_class {
    CLASS_LETTER = 1 << 0,  /* \p{L} of the reference's pattern engine */
    CLASS_NUMBER = 1 << 1,  /* \p{N} of that engine */
    CLASS_SPACE = 1 << 2,   /* \s of that engine */
    CLASS_NUMERIC = 1 << 3, /* the reference's digit splitter: Nd, Nl, No, of a newer Unicode */
    CLASS_WORD = 1 << 4,    /* \w of the reference's search for added tokens; FEATURE_TEXT only */
};
enum { CLASS_INDEX_SIZE = 0x110000 / 256 };

/* The text section: how a text is prepared, split and displayed if this differs from version 1.0.
 * It starts with this struct. The tables follow in the order of their counts here, each at the
 * first multiple of BLOB_ALIGN after the previous one. The section ends with the last table. */
struct blob_text {
    uint32_t flags;      /* bits of enum text_flag */
    uint32_t unknown_id; /* the token of unknown characters, or NO_TOKEN */
    uint32_t split;      /* words start before this code point; 0: a stretch is one word */
    uint32_t strip;      /* code point to omit at the start of a displayed text, ... */
    uint32_t n_strip;    /* ... at most this many times */
    uint32_t max_probe;  /* slots to search before a name is known to be absent */
    /* entries of the tables */
    uint32_t n_before;        /* u32: ids to put before a text */
    uint32_t n_after;         /* u32: ids to put after a text */
    uint32_t n_steps;         /* struct text_step: first steps for each stretch of text */
    uint32_t n_late_steps;    /* struct text_step: steps after the search for added tokens */
    uint32_t n_name_slots;    /* struct token_name: hash of tokens by name, a power of two or 0 */
    uint32_t n_pool;          /* u8: the bytes of steps and names */
    uint32_t n_letter_index;  /* u16: code point / 256 -> block; CLASS_INDEX_SIZE or 0 */
    uint32_t n_letter_blocks; /* u16[256]: -> letter */
    uint32_t n_letters;       /* struct nfc_letter */
    uint32_t n_letter_texts;  /* u32: code points of decompositions */
    uint32_t n_pairs;         /* struct nfc_pair */
    /* with FEATURE_VOCABULARY, else 0: */
    uint32_t model;        /* enum text_model */
    uint32_t prefix;       /* WordPiece: the names of tokens within a word start with ... */
    uint32_t n_prefix;     /* ... these bytes of the pool */
    uint32_t max_word;     /* WordPiece: a word of more characters is unknown */
    uint32_t n_maps;       /* u16[CLASS_INDEX_SIZE]: code point / 256 -> block */
    uint32_t n_map_blocks; /* u32[256]: -> change, see map_change */
    uint32_t n_nodes;      /* struct name_node: the names of the model's tokens */
    uint32_t n_scores;     /* Unigram: f64, by id */
    /* with FEATURE_CLUSTERS, else 0: u16[CLASS_INDEX_SIZE]: code point / 256 -> block;
     * u8[n_cluster_blocks][256]: -> class; u8[n_cluster_states][n_cluster_classes]: 2 * the next
     * state, + 1 if a cluster starts before the character */
    uint32_t n_cluster_blocks;
    uint32_t n_cluster_classes;
    uint32_t n_cluster_states;
    uint32_t n_clusters; /* struct text_cluster, ascending */
    uint32_t reserved[3];
};
enum {
    TEXT_MAX_AROUND = 16,  /* largest n_before and n_after */
    TEXT_MAX_STEPS = 8,    /* largest n_steps and n_late_steps */
    TEXT_MAX_LENGTH = 64,  /* bytes of a step's pattern or text */
    TEXT_MAX_GROWTH = 256, /* most that all steps together may multiply the length of a text by; */
    TEXT_MAX_MORE = 1024,  /* with FEATURE_VOCABULARY; */
    TEXT_MAX_MOST = 32768, /* with FEATURE_CLUSTERS */
    TEXT_MAX_STRIP = 64,   /* largest n_strip */
    TEXT_MAX_MAPS = 8,     /* largest n_maps */
    TEXT_MAX_PREFIX = 64,  /* largest n_prefix */
    TEXT_MAX_CLUSTER_CLASSES = 255,
    TEXT_MAX_CLUSTER_STATES = 128,
};
#define TEXT_MAX_SCORE 1e9 /* all scores are between this and its negative */

enum text_flag {
    TEXT_CHARACTERS = 1 << 0,    /* words consist of characters, found by name, not of bytes */
    TEXT_BYTE_FALLBACK = 1 << 1, /* a character without a token becomes its bytes' tokens */
    TEXT_FUSE_UNKNOWN = 1 << 2,  /* neighbours without a token become one unknown_id */
    TEXT_WHOLE_WORDS = 1 << 3,   /* a word that is a token's name becomes that token, unmerged */
    TEXT_BYTE_RUNS = 1 << 4,     /* a run of TOKEN_BYTEs is UTF-8 as a whole, or U+FFFD for each */
    TEXT_FIRST_BARE = 1 << 5, /* the first token is displayed without spaces, unless TOKEN_PLAIN */
};

/* A preparation step for a stretch of text. Pattern and text are contiguous in the pool, in this
 * order, and are UTF-8. */
struct text_step {
    uint32_t kind; /* enum text_step_kind */
    uint32_t start;
    uint32_t pattern; /* bytes of the pattern, 1..TEXT_MAX_LENGTH for STEP_REPLACE, else 0 */
    uint32_t text;    /* bytes of the text, at most TEXT_MAX_LENGTH; 0 for STEP_NFC */
};
enum text_step_kind {
    STEP_REPLACE = 1,        /* replaces each occurrence of the pattern with the text */
    STEP_PREPEND = 2,        /* puts the text before a stretch that is not empty */
    STEP_PREPEND_UNLESS = 3, /* as STEP_PREPEND, unless the stretch starts with the text */
    STEP_PREPEND_FIRST = 4,  /* as STEP_PREPEND_UNLESS, only at the start of the whole text */
    STEP_NFC = 5,            /* Unicode's normalization form C */
    /* with FEATURE_VOCABULARY only: */
    STEP_NFD = 6,      /* Unicode's normalization form D */
    STEP_MAP = 7,      /* replaces each character as map number `start` specifies */
    STEP_COLLAPSE = 8, /* replaces each run of two or more patterns with the text */
    STEP_TRIM = 9, /* removes white space: at the start if `start` has bit 0, at the end if bit 1 */
    /* with FEATURE_CLUSTERS only: */
    STEP_CLUSTERS = 10, /* replaces short clusters, and other characters as map `start` specifies */
};

/* How the tokens of a word are found. */
enum text_model {
    TEXT_MERGES = 0,    /* byte-pair encoding, with the merges of the tokenizer section */
    TEXT_WORDPIECE = 1, /* the longest name that fits, from the start of the word to its end */
    TEXT_UNIGRAM = 2,   /* the names with the highest sum of scores */
};

/* An entry of a map's block: how a character changes. 0: not at all. Otherwise it is replaced with
 * `size` bytes of the pool, or put between two spaces. */
#define MAP_PADDED UINT32_MAX
enum { MAP_SIZE_SHIFT = 24, MAP_START_MASK = (1 << MAP_SIZE_SHIFT) - 1 };
static inline uint32_t map_change(uint32_t start, uint32_t size)
{
    return (size + 1) << MAP_SIZE_SHIFT | start;
}

/* A grapheme cluster of several characters in less than CLUSTER_TOO_LONG bytes, and its change, in
 * the manner of a map. A cluster that starts with the text is replaced as a whole. */
enum { CLUSTER_TOO_LONG = 6 };
struct text_cluster {
    uint8_t text[7]; /* (size), then zeros */
    uint8_t size;
    uint32_t change;
};

/* A node of a trie: a string, and the tokens that continue it. Node 0 is the empty string; the
 * others follow by length, and those with the same parent by `byte`, ascending. */
struct name_node {
    uint32_t children; /* the first child; the others follow */
    uint32_t id;       /* the token with this name, or NO_TOKEN */
    uint16_t n_children;
    uint8_t byte; /* the last byte of the string */
    uint8_t reserved;
};

/* A slot of the hash of names. A name is in the slot that its digest modulo n_name_slots selects,
 * or in one after it. An empty slot has id = NO_TOKEN and zeros elsewhere. */
struct token_name {
    uint32_t id;
    uint32_t start, length; /* in the pool; never empty */
};

/* Normalization properties of a code point. Letter 0, all zeros, is for code points that never
 * change and never change a preceding one. */
struct nfc_letter {
    uint32_t start;          /* its decomposition: letter_texts[start, start + length) */
    uint8_t length;          /* 0: it does not decompose; at most NFC_MAX_TEXT */
    uint8_t combining_class; /* canonical combining class */
    uint8_t joins;           /* 1: may change, or change the character before it */
    uint8_t reserved;
};
enum { NFC_MAX_TEXT = 4 };

/* A pair that composes to one code point. Pairs ascend by first, then second. Hangul syllables are
 * composed by rule. */
struct nfc_pair {
    uint32_t first, second, composed;
};

/* The scanner section: how text is split into words, in stages, each of which splits the pieces of
 * the previous one. It starts with this struct. The tables follow in the order in which they are
 * listed here, each at the first multiple of BLOB_ALIGN after the previous one. The section ends
 * with the last table. A symbol is a class of characters or, with number n_classes, the end of a
 * piece. */
struct blob_scanner {
    uint32_t n_stages; /* struct scanner_stage */
    /* u16[CLASS_INDEX_SIZE]: code point / 256 -> block; u8[n_class_blocks][256]: -> class; u8[256]:
     * byte -> class, of the characters that represent bytes */
    uint32_t n_class_blocks;
    uint32_t n_classes; /* 1..SCANNER_MAX_CLASSES */
    uint32_t row;       /* a power of two above n_classes: symbols in a row of a table */
    uint32_t n_states;  /* u16[n_stages][row]: start states; u16[n_states][row]: transitions */
    /* with FEATURE_AHEAD, else 0: */
    uint32_t n_ahead_states; /* u16[n_ahead_states][row]: transitions of a text read backwards */
    uint32_t n_looks;        /* the most look-aheads of a stage, 1..AHEAD_LOOK_BITS */
    uint32_t reserved[9];
};
enum {
    SCANNER_MAX_STAGES = 16,
    SCANNER_MAX_CLASSES = 255,
    SCANNER_MAX_ENTRIES = 1 << 20, /* largest n_states * row, and n_ahead_states * row */
    AHEAD_LOOK_BITS = 3, /* an entry of ahead is the next state and, below it, bits of looks */
};

/* How a stage turns the matches of its pattern, and the text between them, into pieces. */
enum split_behaviour {
    SPLIT_REMOVED = 0,    /* removes the matches */
    SPLIT_ISOLATED = 1,   /* each match is a piece */
    SPLIT_PREVIOUS = 2,   /* a match joins the previous piece, unless that is a match */
    SPLIT_NEXT = 3,       /* a match joins the next piece, unless that is a match */
    SPLIT_CONTIGUOUS = 4, /* neighbouring matches are one piece */
    SPLIT_COUNT,
};

enum stage_flag {
    STAGE_INVERT = 1 << 0, /* exchanges the matches and the text between them */
    STAGE_BYTES = 1 << 1, /* the pattern sees the characters that represent bytes, not the text's */
    STAGE_SPACE = 1 << 2, /* adds a space before a piece that does not start with one */
    STAGE_LOOKBEHIND = 1 << 3, /* the start state depends on the character before */
    /* a match may be empty, and cuts; FEATURE_AHEAD, SPLIT_REMOVED, _ISOLATED */
    STAGE_EMPTY = 1 << 4,
};

/* A stage's automaton. Its states follow those of all earlier stages. State 0 ends the search.
 * States 1 to the highest start state are those in which no symbol has been read. A transition is
 * state << 1 | match: the next state, and whether a match ends before the symbol. */
struct scanner_stage {
    uint32_t n_states;
    uint32_t behaviour; /* enum split_behaviour */
    uint32_t flags;     /* bits of enum stage_flag */
    uint32_t n_ahead_states;
};

/* Returns the merge hash's home slot of a pair, before the reduction modulo n_merge_slots; the
 * search is linear from there. */
static inline uint32_t merge_hash(uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32);
}

_Static_assert(sizeof(struct blob_header) == 64, "header");
_Static_assert(sizeof(struct blob_section) == 24, "section");
_Static_assert(offsetof(struct blob_model, states) == MODEL_SECTION_SIZE, "model");
_Static_assert(sizeof(struct blob_states) == 192, "states");
_Static_assert(sizeof(struct blob_experts) == 192, "experts");
_Static_assert(sizeof(struct blob_hybrid) == 64, "hybrid");
_Static_assert(sizeof(struct blob_latent) == 64, "latent");
_Static_assert(sizeof(struct blob_varied) == 192, "varied");
_Static_assert(sizeof(struct blob_generation) == 64, "generation");
_Static_assert(sizeof(struct blob_levels) == 64, "levels");
_Static_assert(sizeof(struct blob_encoder) == 64, "encoder");
_Static_assert(sizeof(struct blob_embedder) == 64, "embedder");
_Static_assert(sizeof(struct blob_tensor) == 64, "tensor");
_Static_assert(sizeof(struct blob_tokenizer) == 64, "tokenizer");
_Static_assert(sizeof(struct token_span) == 8, "token span");
_Static_assert(sizeof(struct token_merge) == 16, "token merge");
_Static_assert(sizeof(struct added_token) == 16, "added token");
_Static_assert(sizeof(struct blob_text) == 128, "text");
_Static_assert(sizeof(struct text_step) == 16, "text step");
_Static_assert(sizeof(struct token_name) == 12, "token name");
_Static_assert(sizeof(struct nfc_letter) == 8, "letter");
_Static_assert(sizeof(struct nfc_pair) == 12, "pair");
_Static_assert(sizeof(struct name_node) == 12, "trie node");
_Static_assert(sizeof(struct blob_scanner) == 64, "scanner");
_Static_assert(sizeof(struct scanner_stage) == 16, "scanner stage");

#endif
