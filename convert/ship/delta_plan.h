/* Plans the origin of a new blob's bytes: finds the bytes that an old blob also has, and the most
 * similar place in the old blob for the others. */
#ifndef SMOL_CONVERT_DELTA_PLAN_H
#define SMOL_CONVERT_DELTA_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "format/delta.h"
#include "format/reader.h"

/* Bytes of NEW and their counterpart in OLD: the front, the tokenizer, or a tensor. */
struct delta_region {
    uint64_t new_offset, new_size;
    uint64_t old_offset, old_size; /* old_size 0: no counterpart */
    enum delta_method difference;  /* the method for differences of its numbers */
};

/* A sequence of bytes of NEW. */
struct delta_piece {
    uint64_t offset, size;
    uint64_t old_offset; /* the place in OLD to compare with, if OLD's region covers it */
    bool same;           /* OLD has the same bytes at old_offset; otherwise size <= DELTA_MAX_NEW */
    struct delta_region region; /* that contains its start, and its end unless `same` is set */
};

struct delta_plan;

/* Opens a plan. Both blobs must be open and mapped, and outlive the plan. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_delta_plan_open(const struct blob *old_blob, const struct blob *new_blob,
                                 struct delta_plan **plan, smol_error *error);

/* Finds the next piece. The pieces cover NEW in order. Returns false after the last. */
bool smol_delta_plan_next(struct delta_plan *plan, struct delta_piece *piece);

/* Frees the plan. NULL is allowed. */
void smol_delta_plan_close(struct delta_plan *plan);

#endif
