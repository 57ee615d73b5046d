/* Which tensors a model has, their shapes, and how many bytes their tiles take: what reader,
 * writer, converter and runtime must agree on. */
#ifndef SMOL_FORMAT_LAYOUT_H
#define SMOL_FORMAT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

enum {
    TILE_ROWS = 16,    /* output rows that lie side by side, one per SIMD lane */
    GROUP_INPUTS = 32, /* int8: inputs that share a scale */
    GROUP_BYTES = 512, /* int8: TILE_ROWS * GROUP_INPUTS weights */
    QUAD_BYTES = 64,   /* int8: TILE_ROWS * 4 weights, one cache line */
    SCALES_BYTES = 64, /* int8: f16 scales of two groups of TILE_ROWS rows */
    GROUP_PAIR_BYTES = SCALES_BYTES + 2 * GROUP_BYTES,
    MAX_HEAD_DIM = 1024,
    MAX_NAME = 64, /* room for smol_tensor_name */
};

/* Which tensor: a role and, for roles within a layer, the layer. */
struct tensor_key {
    enum tensor_role role;
    uint32_t layer;
};

/* The tensors of `model` in the order of the tensor table. Start from {ROLE_EMBED, 0};
 * smol_tensor_next steps to the next one that the model has, or returns false at the end. */
bool smol_tensor_next(const struct blob_model *model, struct tensor_key *key);

/* Number of tensors, the tied output included. */
size_t smol_tensor_count(const struct blob_model *model);

/* "layers.3.attn_q", "embed": for messages and listings. Returns `name`. */
const char *smol_tensor_name(struct tensor_key key, char name[MAX_NAME]);

/* The complete table entry for `key`, but for its offset. */
struct blob_tensor smol_tensor_layout(const struct blob_model *model, struct tensor_key key);

/* Bytes of one block of TILE_ROWS rows with `cols` inputs. */
uint64_t smol_block_bytes(enum blob_dtype dtype, uint64_t cols);

/* Row blocks of a matrix of `rows`, and how many of the rows from `row` on are in one block. */
static inline uint64_t count_blocks(uint64_t rows)
{
    return (rows + TILE_ROWS - 1) / TILE_ROWS;
}
static inline uint64_t rows_in_block(uint64_t row, uint64_t rows)
{
    return rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
}

/* int8: groups of a row of `cols` inputs, the last one perhaps shorter. */
static inline uint64_t count_groups(uint64_t cols)
{
    return (cols + GROUP_INPUTS - 1) / GROUP_INPUTS;
}

/* int8: where a group's weights and its TILE_ROWS scales lie within a row block. */
static inline size_t group_weights_offset(size_t group)
{
    return group / 2 * GROUP_PAIR_BYTES + SCALES_BYTES + group % 2 * GROUP_BYTES;
}
static inline size_t group_scales_offset(size_t group)
{
    return group / 2 * GROUP_PAIR_BYTES + group % 2 * (SCALES_BYTES / 2);
}

/* int8: bytes of a row block of n groups; an odd one out comes with the scales of a pair. */
static inline size_t int8_block_bytes(size_t n_groups)
{
    return n_groups * GROUP_BYTES + (n_groups + 1) / 2 * SCALES_BYTES;
}

/* "int8", "f32"; "?" for values that are none. */
const char *smol_dtype_name(enum blob_dtype dtype);

#endif
