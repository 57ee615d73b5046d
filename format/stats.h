/* The bytes of calibration statistics as C structs, and the places of their records.
 * format/STATS.md is the specification. Everything is little-endian; structs have no hidden
 * padding. */
#ifndef SMOL_FORMAT_STATS_H
#define SMOL_FORMAT_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

#define STATS_MAGIC "\x89SMC\r\n\x1a\n" /* see BLOB_MAGIC */

enum {
    STATS_MAGIC_SIZE = 8,
    STATS_MAJOR = 1,
    STATS_MINOR = 6,       /* the newest; a header of minor 0 ends with the widths */
    STATS_BESIDE = 2,      /* layers with a state attend too; otherwise as minor 1 */
    STATS_LATENT = 3,      /* attention is to latent vectors; there are no states and no experts */
    STATS_VARIED = 4,      /* layers differ in shape; there are no states and no experts */
    STATS_PARTIAL = 5,     /* layers lack a block; otherwise as minor 1 */
    STATS_OWN_NORMS = 6,   /* as minor 4, but with experts, whose norms are their own */
    STATS_MATRICES = 7,    /* sensitivities of a layer: q, k, v, o, gate, up, down */
    STATS_MATRICES_1 = 12, /* from minor 1 on */
    STATS_LAYERS = STATES_MAX_LAYERS,
};

enum stats_kind {
    STATS_GRAM = 1,     /* a record is the upper triangle of a Gram matrix, row by row */
    STATS_DIAGONAL = 2, /* a record is the diagonal of one */
};

/* The inputs of matrices, in the order in which a layer computes them. Each has a record. */
enum stats_input {
    STATS_ATTENTION, /* of q, k and v, and of the first matrices of a layer with a state */
    STATS_ATTENDED,  /* of o, and of the last matrix of a layer with a state */
    STATS_MLP,       /* of gate and up, and of a router without a norm of its own */
    STATS_GATED,     /* of down */
    STATS_PER_LAYER,
    STATS_OUTPUT = STATS_PER_LAYER, /* of the output layer, of every row */
    STATS_EXPERT,                   /* of an expert's gate and up: the rows that it gets */
    STATS_EXPERT_GATED,             /* of its down */
    STATS_STATE,                    /* of the last matrix of a state, in a layer that attends too */
    STATS_QUERY,                    /* of q, where it is not the first matrix of queries */
    STATS_HEAD_QUERY,               /* of k_up, a head's part: its queries */
    STATS_HEAD_LATENT,              /* of v_up, a head's part: what it has attended to */
    STATS_INPUT,                    /* of input_gate: the residual stream */
    STATS_INPUT_GATED,              /* of input_out */
};

/* An input. The layer of the output layer is the number of layers. */
struct stats_place {
    enum stats_input input;
    uint32_t layer;
    uint32_t part; /* the expert or head */
};

/* Returns the number of the record about an input of a layer, or of the output layer. */
static inline size_t stats_record(enum stats_input input, size_t layer)
{
    return layer * STATS_PER_LAYER + input % STATS_PER_LAYER;
}

/* The file starts with the header and its XXH3-64. Each record is followed by its digest. */
struct stats_header {
    uint8_t magic[STATS_MAGIC_SIZE];
    uint16_t major, minor;
    uint32_t kind;        /* enum stats_kind */
    uint64_t model_key;   /* identifies the model's weights, see smol_stats_key_start */
    uint64_t text_digest; /* XXH3-64 of the windows' lengths, then of all ids */
    uint64_t n_tokens;    /* that the sums cover */
    uint32_t n_windows;   /* sequences that the tokens were evaluated in */
    uint32_t n_layers;
    uint32_t widths[STATS_PER_LAYER]; /* of the inputs of: q, k and v; o; gate and up; down */
    /* from here on from minor 1 on, otherwise zero */
    uint32_t state_width; /* of the last matrix of a state; 0: there is none */
    uint32_t n_experts, expert_width;
    uint32_t shared_width;              /* of the fourth input of a layer with experts */
    uint8_t stateful[STATS_LAYERS / 8]; /* bit i % 8 of byte i / 8: layer i has a state, */
    uint8_t sparse[STATS_LAYERS / 8];   /* or experts */
    /* from here on from minor 3 on, otherwise zero */
    uint32_t n_heads;
    uint32_t query_rank;              /* of the input of q; 0: it is that of the layer */
    uint32_t query_dim, latent_width; /* of those of a head's parts of k_up and v_up */
    /* from here on from minor 4 on, otherwise zero */
    uint32_t second_width;            /* of the input of o, of layers in `second` */
    uint32_t first_shared;            /* from this layer on ... */
    uint32_t late_width;              /* ... that of down */
    uint32_t input_width;             /* of that of input_out; 0: there is none */
    uint8_t second[STATS_LAYERS / 8]; /* a set of layers */
    /* from here on from minor 5 on, otherwise zero */
    uint8_t no_mixer[STATS_LAYERS / 8]; /* sets of layers, whose first or last two inputs */
    uint8_t no_mlp[STATS_LAYERS / 8];   /* have a width of 0 */
};

_Static_assert(sizeof(struct stats_header) == 752, "header");

/* Returns the bytes of the header in the file. */
static inline size_t stats_header_size(const struct stats_header *header)
{
    if (header->minor == 0 || header->minor > STATS_MINOR)
        return offsetof(struct stats_header, state_width);
    return header->minor < STATS_LATENT    ? offsetof(struct stats_header, n_heads)
           : header->minor < STATS_VARIED  ? offsetof(struct stats_header, second_width)
           : header->minor < STATS_PARTIAL ? offsetof(struct stats_header, no_mixer)
                                           : sizeof *header;
}

/* Returns the input of the last matrix of a layer's state. */
static inline enum stats_input stats_state_input(const struct blob_model *model)
{
    return model->hybrid.parallel ? STATS_STATE : STATS_ATTENDED;
}

/* Sets the fields that depend on the model alone. model_key is not one of them. minor is the lowest
 * that suffices. */
void smol_stats_describe(const struct blob_model *model, struct stats_header *header);

/* Checks a header whose digest is right. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (not
 * such a file, another version). */
smol_status smol_stats_check(const struct stats_header *header, const char *path,
                             smol_error *error);

/* Returns the number of the record about the output layer's input, which follows the layers'. Then
 * come those of experts, two of each, or one for each state of a layer that attends too, or with
 * latent vectors those of queries and then of heads, two of each, or two of each layer that has an
 * input. */
static inline size_t stats_output(const struct stats_header *header)
{
    return stats_record(STATS_OUTPUT, header->n_layers);
}

/* Returns the number of records about queries, one for each layer. */
static inline size_t stats_queries(const struct stats_header *header)
{
    return header->query_rank > 0 ? header->n_layers : 0;
}

/* Returns the number of the experts of all layers. */
size_t smol_stats_experts(const struct stats_header *header);

/* Returns the number of the record about an input, and the layer that it is of. */
size_t smol_stats_record(const struct stats_header *header, struct stats_place place);
uint32_t smol_stats_layer(const struct stats_header *header, size_t record);

/* Returns the number of the last record, which has the sensitivities, and the place of a matrix, or
 * of this matrix of all experts, in it. */
size_t smol_stats_sensitivities(const struct stats_header *header);
size_t smol_stats_matrix(const struct stats_header *header, enum tensor_role role, uint32_t layer);

/* Returns whether a record is a triangle, not a line, of numbers. */
static inline bool stats_is_gram(const struct stats_header *header, size_t record)
{
    return header->kind == STATS_GRAM && record < smol_stats_sensitivities(header);
}

/* Return the number of records and, of one record, its width, which may be 0, its size in bytes
 * without its digest, and its offset. The offset of record smol_stats_count is the size of the
 * file. */
size_t smol_stats_count(const struct stats_header *header);
uint32_t smol_stats_width(const struct stats_header *header, size_t record);
uint64_t smol_stats_bytes(const struct stats_header *header, size_t record);
uint64_t smol_stats_offset(const struct stats_header *header, size_t record);

/* Returns the digest of a record: of the header's digest, its number and its bytes. */
uint64_t smol_stats_digest(const struct stats_header *header, size_t record, const void *data,
                           size_t size);

/* Rounds a group of at most GROUP_INPUTS weights, as to measure sensitivities. */
void smol_stats_round(float *values, size_t n);

/* The key of a model depends on its shape, all of its vectors, and the first TILE_ROWS rows of each
 * matrix, rounded to bf16: blobs of f32 and bf16 and the checkpoint have the same. Start with the
 * model, then add the rows of each tensor in the order of smol_tensor_next, a tied output excluded.
 * `rounded` has room for n values. */
uint64_t smol_stats_key_start(const struct blob_model *model);
uint64_t smol_stats_key_add(uint64_t key, const float *row, size_t n, uint16_t *rounded);

#endif
