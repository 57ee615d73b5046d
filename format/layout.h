/* The tensors of a model, their shapes, and the sizes of their tiles: shared by the reader, the
 * writer, the converter and the runtime. */
#ifndef SMOL_FORMAT_LAYOUT_H
#define SMOL_FORMAT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

enum {
    TILE_ROWS = 16,    /* output rows stored side by side, one per SIMD lane */
    GROUP_INPUTS = 32, /* grouped dtypes: inputs that share a scale */
    GROUP_QUADS = GROUP_INPUTS / 4,
    QUAD_BYTES = 64,   /* TILE_ROWS * 4 weights of int8, one cache line */
    SCALES_BYTES = 64, /* f16 scales of two groups of TILE_ROWS rows */
    MAX_HEAD_DIM = 1024,
    MAX_NAME = 64, /* capacity for smol_tensor_name */
};

/* Returns whether a set of layers (STATES_MAX_LAYERS / 8 bytes) contains this one. */
static inline bool layers_have(const uint8_t *set, size_t layer)
{
    return set[layer / 8] >> layer % 8 & 1;
}

/* Adds a layer to such a set. */
static inline void layers_add(uint8_t *set, size_t layer)
{
    set[layer / 8] |= (uint8_t)(1 << layer % 8);
}

/* Returns whether a layer has its first block, whether its MLP, see struct blob_partial. */
static inline bool layer_has_mixer(const struct blob_model *model, uint32_t layer)
{
    return !layers_have(model->partial.no_mixer, layer);
}
static inline bool layer_has_mlp(const struct blob_model *model, uint32_t layer)
{
    return !layers_have(model->partial.no_mlp, layer);
}

/* Returns whether a layer has a state, and whether it attends. */
static inline bool layer_has_state(const struct blob_model *model, uint32_t layer)
{
    return layers_have(model->states.layers, layer);
}
static inline bool layer_attends(const struct blob_model *model, uint32_t layer)
{
    return layer_has_mixer(model, layer) &&
           (!layer_has_state(model, layer) || model->hybrid.parallel);
}

/* Returns whether the layer is of the second kind, see struct blob_varied. */
static inline bool layer_is_second(const struct blob_model *model, uint32_t layer)
{
    return layers_have(model->varied.second, layer);
}

/* Returns the number of gates of a token's attention: of its output's elements or heads, or 0. */
static inline uint64_t gate_width(const struct blob_model *model)
{
    uint64_t channels = model->blocks & BLOCK_GATE_HEADS ? 1 : model->head_dim;
    return model->blocks & BLOCK_ATTENTION_GATE ? model->n_heads * channels : 0;
}

/* Identifies a tensor by role and, for roles within a layer, the layer, and for roles of experts,
 * the expert. */
struct tensor_key {
    enum tensor_role role;
    uint32_t layer;
    uint32_t expert;
};

/* Steps through the tensors of `model` in the order of the tensor table. Start with {ROLE_EMBED,
 * 0}. Returns false after the last one. */
bool smol_tensor_next(const struct blob_model *model, struct tensor_key *key);

/* Returns whether the model has this tensor. */
bool smol_tensor_exists(const struct blob_model *model, struct tensor_key key);

/* Returns whether a role is within a layer; whether it is one of experts. */
bool smol_role_is_per_layer(enum tensor_role role);
bool smol_role_is_per_expert(enum tensor_role role);

/* Returns the first role of an expert's matrices, and their number. They are in a row. */
static inline enum tensor_role first_expert_role(const struct blob_model *model)
{
    return model->blocks & BLOCK_NO_GATE ? ROLE_EXPERT_UP : ROLE_EXPERT_GATE;
}
static inline uint32_t expert_matrices(const struct blob_model *model)
{
    return ROLE_EXPERT_DOWN - first_expert_role(model) + 1;
}
enum { N_EXPERT_ROLES = ROLE_EXPERT_DOWN - ROLE_EXPERT_GATE + 1 };

/* Returns the key of a tensor of a table. */
static inline struct tensor_key tensor_key(const struct blob_tensor *tensor)
{
    return (struct tensor_key){(enum tensor_role)tensor->role, tensor->layer, tensor->expert};
}

/* Returns the number of tensors, including a tied output. */
size_t smol_tensor_count(const struct blob_model *model);

/* Writes a name such as "layers.3.attn_q" or "embed", for messages and listings. Returns `name`. */
const char *smol_tensor_name(struct tensor_key key, char name[MAX_NAME]);

/* Returns whether a tensor is a matrix whose dtype is the model's, or chosen for it. (The router
 * and the gate of the MLP beside experts are f32 in every model.) */
static inline bool has_storage(const struct blob_tensor *tensor)
{
    return tensor->layout == LAYOUT_TILES && tensor->role != ROLE_ROUTER &&
           tensor->role != ROLE_SHARED_GATE;
}

/* How a matrix is stored, as in struct blob_tensor. */
struct storage {
    uint32_t dtype; /* enum blob_dtype */
    uint32_t levels;
};

/* The storage of each matrix, and the tables of levels, of a blob with FEATURE_MIXED. Zeroed for
 * other blobs, whose matrices all have the model's dtype. */
struct mix {
    struct storage *storage;    /* (smol_tensor_count), those of vectors unused */
    struct blob_levels *levels; /* (n_levels), in the order of their first use */
    size_t n_levels;
};

/* Returns the complete table entry for `key`, except its offset. A matrix is stored as `storage`
 * says, or, if that is NULL, in the model's dtype. */
struct blob_tensor smol_tensor_layout(const struct blob_model *model, struct tensor_key key,
                                      const struct storage *storage);

/* Returns the storage of the tensor at `index` of the table, or NULL for a zeroed mix. */
static inline const struct storage *mix_storage(const struct mix *mix, size_t index)
{
    return mix->storage ? &mix->storage[index] : NULL;
}

/* Returns the bytes of one block of TILE_ROWS rows with `cols` inputs. */
uint64_t smol_block_bytes(enum blob_dtype dtype, uint64_t cols);

/* Returns the index of an element in a row block of f32 or bf16. */
static inline size_t tile_index(enum blob_dtype dtype, size_t row, size_t col)
{
    return dtype == DTYPE_F32 ? col * TILE_ROWS + row : (col / 2 * TILE_ROWS + row) * 2 + col % 2;
}

/* count_blocks returns the number of row blocks in a matrix of `rows`; rows_in_block returns how
 * many of the rows starting at `row` are in one block. */
static inline uint64_t count_blocks(uint64_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}
static inline uint64_t rows_in_block(uint64_t row, uint64_t rows)
{
    return rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
}

/* Returns whether the weights of a dtype are small integers in groups that share scales. */
static inline bool is_grouped(enum blob_dtype dtype)
{
    return dtype >= DTYPE_INT8;
}

/* Returns the bits of a weight of a grouped dtype, without its share of the scale. */
static inline unsigned weight_bits(enum blob_dtype dtype)
{
    return dtype == DTYPE_INT4 ? 4 : dtype == DTYPE_INT5 ? 5 : dtype == DTYPE_INT6 ? 6 : 8;
}

/* Returns the number of levels in a table for int6, int5 or int4. */
static inline unsigned level_count(enum blob_dtype dtype)
{
    return 1u << weight_bits(dtype);
}

/* Returns the number of groups in a row of `cols` inputs; the last one may be shorter. */
static inline uint64_t count_groups(uint64_t cols)
{
    return (cols + GROUP_INPUTS - 1) / GROUP_INPUTS;
}

/* Returns the bytes of the weights of one group of a row block, without scales. */
static inline size_t group_bytes(enum blob_dtype dtype)
{
    return TILE_ROWS * GROUP_INPUTS / 8 * weight_bits(dtype);
}

/* Return the offsets of a group's weights and of its TILE_ROWS scales within a row block. */
static inline size_t group_weights_offset(enum blob_dtype dtype, size_t group)
{
    size_t pair = SCALES_BYTES + 2 * group_bytes(dtype);
    return group / 2 * pair + SCALES_BYTES + group % 2 * group_bytes(dtype);
}
static inline size_t group_scales_offset(enum blob_dtype dtype, size_t group)
{
    size_t pair = SCALES_BYTES + 2 * group_bytes(dtype);
    return group / 2 * pair + group % 2 * (SCALES_BYTES / 2);
}

/* Returns the bytes of a row block of n groups. If n is odd, the last group still has the scales of
 * a pair. */
static inline size_t grouped_block_bytes(enum blob_dtype dtype, size_t n_groups)
{
    return n_groups * group_bytes(dtype) + (n_groups + 1) / 2 * SCALES_BYTES;
}

/* Returns the code of an int6, int5 or int4 weight: an index into its table of levels. `group` is
 * the group's weights. Quads 2i and 2i + 1 share line i: the lower four bits of a code are the
 * lower or the upper half of its byte. The upper bits of all quads are in the lines after these:
 * for int5 one line with a bit for each quad, for int6 two lines with two bits for each of four
 * quads. */
static inline unsigned group_code(enum blob_dtype dtype, const uint8_t *group, size_t input,
                                  size_t row)
{
    size_t quad = input / 4, lane = row * 4 + input % 4;
    const uint8_t *upper = group + GROUP_QUADS / 2 * QUAD_BYTES + lane;
    unsigned code = group[quad / 2 * QUAD_BYTES + lane] >> quad % 2 * 4 & 15;
    if (dtype == DTYPE_INT5)
        code |= (*upper >> quad & 1u) << 4;
    if (dtype == DTYPE_INT6)
        code |= (upper[quad / 4 * QUAD_BYTES] >> quad % 4 * 2 & 3u) << 4;
    return code;
}

/* Sets the code of a weight whose bits are zero. */
static inline void group_set_code(enum blob_dtype dtype, uint8_t *group, size_t input, size_t row,
                                  unsigned code)
{
    size_t quad = input / 4, lane = row * 4 + input % 4;
    uint8_t *upper = group + GROUP_QUADS / 2 * QUAD_BYTES + lane;
    group[quad / 2 * QUAD_BYTES + lane] |= (uint8_t)((code & 15) << quad % 2 * 4);
    if (dtype == DTYPE_INT5)
        *upper |= (uint8_t)(code >> 4 << quad);
    if (dtype == DTYPE_INT6)
        upper[quad / 4 * QUAD_BYTES] |= (uint8_t)(code >> 4 << quad % 4 * 2);
}

/* Returns a weight of a grouped dtype without its scale. int8 has no levels. */
static inline int8_t group_weight(enum blob_dtype dtype, const int8_t *levels, const uint8_t *group,
                                  size_t input, size_t row)
{
    if (dtype == DTYPE_INT8)
        return (int8_t)group[input / 4 * QUAD_BYTES + row * 4 + input % 4];
    return levels[group_code(dtype, group, input, row)];
}

/* Returns a name such as "int8" or "f32", or "?" for an invalid value. */
const char *smol_dtype_name(enum blob_dtype dtype);

#endif
