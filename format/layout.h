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
    GROUP_INPUTS = 32, /* int8: inputs that share a scale */
    GROUP_BYTES = 512, /* int8: TILE_ROWS * GROUP_INPUTS weights */
    QUAD_BYTES = 64,   /* int8: TILE_ROWS * 4 weights, one cache line */
    SCALES_BYTES = 64, /* int8: f16 scales of two groups of TILE_ROWS rows */
    GROUP_PAIR_BYTES = SCALES_BYTES + 2 * GROUP_BYTES,
    MAX_HEAD_DIM = 1024,
    MAX_NAME = 64, /* capacity for smol_tensor_name */
};

/* Identifies a tensor by role and, for roles within a layer, the layer. */
struct tensor_key {
    enum tensor_role role;
    uint32_t layer;
};

/* Steps through the tensors of `model` in the order of the tensor table. Start with {ROLE_EMBED,
 * 0}. Returns false after the last one. */
bool smol_tensor_next(const struct blob_model *model, struct tensor_key *key);

/* Returns the number of tensors, including a tied output. */
size_t smol_tensor_count(const struct blob_model *model);

/* Writes a name such as "layers.3.attn_q" or "embed", for messages and listings. Returns `name`. */
const char *smol_tensor_name(struct tensor_key key, char name[MAX_NAME]);

/* Returns the complete table entry for `key`, except its offset. */
struct blob_tensor smol_tensor_layout(const struct blob_model *model, struct tensor_key key);

/* Returns the bytes of one block of TILE_ROWS rows with `cols` inputs. */
uint64_t smol_block_bytes(enum blob_dtype dtype, uint64_t cols);

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

/* Returns the number of int8 groups in a row of `cols` inputs; the last one may be shorter. */
static inline uint64_t count_groups(uint64_t cols)
{
    return (cols + GROUP_INPUTS - 1) / GROUP_INPUTS;
}

/* Return the offsets of an int8 group's weights and of its TILE_ROWS scales within a row block. */
static inline size_t group_weights_offset(size_t group)
{
    return group / 2 * GROUP_PAIR_BYTES + SCALES_BYTES + group % 2 * GROUP_BYTES;
}
static inline size_t group_scales_offset(size_t group)
{
    return group / 2 * GROUP_PAIR_BYTES + group % 2 * (SCALES_BYTES / 2);
}

/* Returns the bytes of an int8 row block of n groups. If n is odd, the last group still has the
 * scales of a pair. */
static inline size_t int8_block_bytes(size_t n_groups)
{
    return n_groups * GROUP_BYTES + (n_groups + 1) / 2 * SCALES_BYTES;
}

/* Returns a name such as "int8" or "f32", or "?" for an invalid value. */
const char *smol_dtype_name(enum blob_dtype dtype);

#endif
