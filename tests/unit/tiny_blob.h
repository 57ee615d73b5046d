/* Tiny blobs with a part of every kind, which tests damage: two layers, odd shapes, biases, a
 * separate output matrix. Call make_tokenizer first. */
#ifndef SMOL_TESTS_UNIT_TINY_BLOB_H
#define SMOL_TESTS_UNIT_TINY_BLOB_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "convert/blob/writer.h"
#include "convert/weights/tile.h"
#include "format/layout.h"

/* clang-format off */
#define ODD_SHAPE                                                                                  \
    .family = FAMILY_LLAMA,                                                                        \
    .dtype = DTYPE_INT8,                                                                           \
    .n_layers = 2,                                                                                 \
    .hidden_size = 7,                                                                              \
    .intermediate_size = 35,                                                                       \
    .n_heads = 3,                                                                                  \
    .n_kv_heads = 1,                                                                               \
    .head_dim = 6,                                                                                 \
    .vocab_size = 19,                                                                              \
    .context_length = 11,                                                                          \
    .bos_id = 1,                                                                                   \
    .rms_norm_eps = 1e-5f,                                                                         \
    .mlp_bias = 1,                                                                                 \
    .rope_theta = 10000
/* clang-format on */

static const struct blob_model odd_model = {ODD_SHAPE, .attention_bias = 1};

/* Returns one whose first layer has a state. */
static inline struct blob_model stateful_model(void)
{
    struct blob_model model = odd_model;
    model.states =
        (struct blob_states){.kind = STATE_SHORT_CONV, .taps = 3, .biases = 1, .layers = {1}};
    return model;
}

/* Returns one all of whose layers attend and have a state. */
static inline struct blob_model hybrid_model(void)
{
    struct blob_model model = odd_model;
    model.states = (struct blob_states){
        .kind = STATE_MAMBA2,
        .taps = 3,
        .biases = 1,
        .n_heads = 4,
        .head_dim = 5,
        .size = 3,
        .n_groups = 2,
        .layers = {3},
    };
    model.hybrid = (struct blob_hybrid){
        .parallel = 1,
        .norm = MIXER_NORM_EARLY,
        .input_biases = 1,
        .output_bias = 1,
        .attention_in = 0.5f,
        .attention_out = 1,
        .mixer_in = 1.25f,
        .mixer_out = 2,
        .gate = 1,
        .x = 0.75f,
        .b = 1,
        .c = 3,
        .step = 1,
        .mlp_gate = 0.25f,
        .mlp_out = 1,
    };
    return model;
}

/* Returns one that attends to latent vectors. */
static inline struct blob_model latent_model(void)
{
    struct blob_model model = odd_model;
    model.attention_bias = BIAS_NONE;
    model.head_dim = 20;
    model.embedding_scale = model.residual_scale = model.attention_scale = model.logit_divisor = 1;
    model.sliding_window = 2;
    model.rotary_dim = 4;
    model.n_rope_tables = 2;
    model.rope_scale[0] = model.rope_scale[1] = 1;
    model.latent = (struct blob_latent){
        .kv_rank = 16, .q_rank = 5, .query_dim = 3, .value_dim = 32, .norm_eps = 1e-6f};
    return model;
}

/* Returns one whose layers differ in shape: the first is of the second kind, see rich_layers. */
static inline struct blob_model varied_model(void)
{
    struct blob_model model = odd_model;
    model.blocks = BLOCK_QK_NORM_HEADS | BLOCK_NORM_OUTPUTS;
    model.embedding_scale = model.residual_scale = model.attention_scale = model.logit_divisor = 1;
    model.sliding_window = 2;
    model.rotary_dim = model.head_dim;
    model.n_rope_tables = 2;
    model.rope_scale[0] = model.rope_scale[1] = 1;
    model.varied = (struct blob_varied){
        .head_dim = 2,
        .n_kv_heads = 1,
        .keys_are_values = 1,
        .first_shared = model.n_layers,
        .shared_width = model.intermediate_size,
        .input_width = 3,
        .input_scale = 1.5f,
        .projection_scale = 0.25f,
        .sum_scale = 0.75f,
        .second = {1},
    };
    return model;
}

/* Returns one whose first layer has no MLP, and the second one nothing else. */
static inline struct blob_model partial_model(void)
{
    struct blob_model model = odd_model;
    model.embedding_scale = model.residual_scale = model.attention_scale = model.logit_divisor = 1;
    model.sliding_window = 2;
    model.rotary_dim = 4;
    model.n_rope_tables = 2;
    model.rope_scale[0] = model.rope_scale[1] = 1;
    model.partial = (struct blob_partial){.no_mixer = {2}, .no_mlp = {1}};
    return model;
}

/* Adds the features of FEATURE_BLOCKS, as many as can be combined. */
static const struct blob_model rich_model = {
    ODD_SHAPE,
    .attention_bias = BIAS_QKV,
    .activation = ACTIVATION_GELU_TANH,
    .blocks = BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS,
    .embedding_scale = 2.5f,
    .residual_scale = 0.75f,
    .attention_scale = 0.5f,
    .attention_softcap = 3,
    .logit_divisor = 1.5f,
    .logit_softcap = 4,
    .sliding_window = 2,
    .rotary_dim = 4,
    .n_rope_tables = 2,
    .rope_scale = {1.25f, 0.5f},
};
static const uint8_t rich_layers[] = {LAYER_WINDOWED | LAYER_SECOND_TABLE, LAYER_NO_ROTATION};

/* Returns one whose first layer has a gate of each head, and the second one a state. Such gates
 * have no biases, though q, k and v have. */
static inline struct blob_model head_gates_model(void)
{
    struct blob_model model = rich_model;
    model.blocks |= BLOCK_ATTENTION_GATE | BLOCK_GATE_HEADS;
    model.states = stateful_model().states;
    model.states.layers[0] = 2;
    return model;
}

/* Returns the bits of a model's layers. Those of a layer that does not attend
 * are 0. */
static inline const uint8_t *layers_of(const struct blob_model *model)
{
    static const uint8_t second_zero[] = {LAYER_WINDOWED | LAYER_SECOND_TABLE, 0};
    return model->states.kind || layers_have(model->partial.no_mixer, 1) ? second_zero
                                                                         : rich_layers;
}

static const float inv_freq[] = {1, 0.046415888f, 0.0021544347f, 0.5f}; /* plain: the first three */
static const uint32_t stop[] = {0, 2, 18};
static const char provenance[] = "converter: none\n";
static const struct blob_generation generation = {
    .present = GENERATION_TEMPERATURE | GENERATION_TOP_K,
    .temperature = 0.5f,
    .top_k = 40,
};

/* The smallest valid tokenizer: two tokens, no merges, no added tokens. */
static struct {
    _Alignas(64) struct blob_tokenizer header;
    _Alignas(64) struct token_span spans[2];
    _Alignas(64) uint8_t text[3];
    _Alignas(64) uint32_t byte_tokens[256];
    _Alignas(64) struct token_merge merges[1];
    _Alignas(64) uint16_t class_index[CLASS_INDEX_SIZE];
    _Alignas(64) uint8_t class_blocks[1][256];
} tokenizer;

static inline void make_tokenizer(void)
{
    const size_t classes = offsetof(__typeof__(tokenizer), class_index);
    tokenizer.header = (struct blob_tokenizer){
        .n_tokens = 2,
        .n_text_bytes = sizeof tokenizer.text,
        .n_merge_slots = 1,
        .n_class_blocks = 1,
        .pretokenizer = PRETOKENIZE_GPT2,
        .token_spans = offsetof(__typeof__(tokenizer), spans),
        .text = offsetof(__typeof__(tokenizer), text),
        .byte_tokens = offsetof(__typeof__(tokenizer), byte_tokens),
        .merges = offsetof(__typeof__(tokenizer), merges),
        .added = (uint32_t)classes, /* empty: the end equals the start */
        .class_index = (uint32_t)classes,
        .class_blocks = offsetof(__typeof__(tokenizer), class_blocks),
    };
    tokenizer.spans[0] = (struct token_span){0, 1, 0};
    tokenizer.spans[1] = (struct token_span){1, 2, TOKEN_SPECIAL};
    memcpy(tokenizer.text, "abc", 3);
    memset(tokenizer.byte_tokens, 0xff, sizeof tokenizer.byte_tokens);
    tokenizer.byte_tokens['a'] = 0;
    tokenizer.merges[0].left = NO_TOKEN;
    tokenizer.class_blocks[0][' '] = CLASS_SPACE;
}

static inline struct blob_contents contents_of(const struct blob_model *model)
{
    return (struct blob_contents){
        .model = model,
        .inv_freq = inv_freq,
        .layers = layers_of(model), /* ignored for a plain model */
        .stop = stop,
        .n_stop = sizeof stop / sizeof stop[0],
        .generation = &generation,
        .provenance = provenance,
        .n_provenance = sizeof provenance - 1,
        .tokenizer = (const uint8_t *)&tokenizer,
        .n_tokenizer = sizeof tokenizer,
    };
}

/* Every dtype of a mix. */
static const struct storage mixed_roles[ROLE_COUNT] = {
    [ROLE_EMBED] = {DTYPE_INT6, 0},  [ROLE_ATTN_Q] = {DTYPE_INT4, 1},
    [ROLE_ATTN_K] = {DTYPE_INT8, 0}, [ROLE_ATTN_V] = {DTYPE_INT5, 2},
    [ROLE_ATTN_O] = {DTYPE_INT6, 0}, [ROLE_MLP_GATE] = {DTYPE_INT5, 2},
    [ROLE_MLP_UP] = {DTYPE_INT4, 1}, [ROLE_MLP_DOWN] = {DTYPE_INT8, 0},
    [ROLE_OUTPUT] = {DTYPE_INT4, 1},
};

/* Returns the contents of a blob with FEATURE_MIXED; the next call reuses its mix. */
static inline struct blob_contents mixed_contents_of(const struct blob_model *model)
{
    static struct storage storage[64];
    static struct blob_levels levels[3];
    struct blob_contents contents = contents_of(model);
    contents.mix = (struct mix){storage, levels, 3};
    levels[0] = smol_levels_default(DTYPE_INT6);
    levels[1] = smol_levels_default(DTYPE_INT4);
    levels[2] = smol_levels_default(DTYPE_INT5);
    if (smol_tensor_count(model) > sizeof storage / sizeof storage[0])
        abort();
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t i = 0;
    do {
        storage[i++] = mixed_roles[key.role];
    } while (smol_tensor_next(model, &key));
    return contents;
}

/* Returns the tensor that `key` names, with numbers that depend on its role, in a buffer that the
 * next call reuses. */
static inline const uint8_t *tensor_data(const struct blob_tensor *layout)
{
    static float values[64 * 1024], scratch[2048];
    static _Alignas(64) uint8_t out[512 * 1024];
    if (layout->rows * layout->cols > sizeof values / sizeof values[0] ||
        layout->size > sizeof out || layout->cols > sizeof scratch / sizeof scratch[0])
        abort();
    for (size_t i = 0; i < layout->rows * layout->cols; i++)
        values[i] = sinf((float)(i + 1) * (float)(layout->role + 1)) + (float)layout->layer;
    const struct safetensors_tensor source = {.dtype = ST_F32, .data = (const uint8_t *)values};
    if (layout->layout != LAYOUT_TILES) {
        smol_tile_vector(&source, layout, out);
        return out;
    }
    static struct level_search search;
    const struct tile_rule rule = {.levels = &search};
    if (layout->dtype > DTYPE_INT8) {
        const struct blob_levels levels = smol_levels_default(layout->dtype);
        smol_levels_prepare(&search, &levels, layout->dtype);
    }
    uint64_t bytes = smol_block_bytes(layout->dtype, layout->cols);
    for (uint64_t row = 0; row < layout->rows; row += TILE_ROWS)
        smol_tile_block(&source, layout, &rule, row, scratch, out + row / TILE_ROWS * bytes);
    return out;
}

/* Writes the tensors up to the end or to the first failure. */
static inline smol_status append_tensors(struct blob_writer *writer,
                                         const struct blob_contents *contents, smol_error *error)
{
    const struct blob_model *model = contents->model;
    struct tensor_key key = {.role = ROLE_EMBED};
    smol_status status = SMOL_OK;
    size_t i = 0;
    do {
        struct blob_tensor layout =
            smol_tensor_layout(model, key, mix_storage(&contents->mix, i++));
        if (key.role != ROLE_OUTPUT || !model->tied_embeddings)
            status = smol_writer_append(writer, tensor_data(&layout), layout.size, error);
    } while (!status && smol_tensor_next(model, &key));
    return status;
}

static inline smol_status write_blob(const char *path, bool force,
                                     const struct blob_contents *contents, smol_error *error)
{
    struct blob_writer *writer;
    struct output output;
    smol_status status = smol_output_open(path, force, &output, error);
    if (!status)
        status = smol_writer_open(&output, contents, &writer, error);
    if (status)
        return status;
    status = append_tensors(writer, contents, error);
    if (!status)
        return smol_writer_finish(writer, error);
    smol_writer_abort(writer);
    return status;
}

#endif
