/* Where the bytes of a new blob come from: which of them an old blob has too, and where it has what
 * is likest to the others. */
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
    uint64_t old_offset, old_size; /* old_size 0: there is none */
    enum delta_method difference;  /* the method that takes differences between its numbers */
};

/* A run of NEW's bytes. */
struct delta_piece {
    uint64_t offset, size;
    uint64_t old_offset; /* what they would be compared with, if OLD's region reaches so far */
    bool same;           /* OLD has the same bytes there; otherwise size <= DELTA_MAX_NEW */
    struct delta_region region; /* that it starts in; one that is not `same` ends in it too */
};

struct delta_plan;

/* Both blobs are open and mapped, and outlive the plan. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_delta_plan_open(const struct blob *old_blob, const struct blob *new_blob,
                                 struct delta_plan **plan, smol_error *error);

/* The next piece; together they are NEW, in order. False after the last. */
bool smol_delta_plan_next(struct delta_plan *plan, struct delta_piece *piece);

/* NULL is fine. */
void smol_delta_plan_close(struct delta_plan *plan);

#endif
