/* Reads the merges of a tokenizer.json into the hash table of the tokenizer section. */
#ifndef SMOL_CONVERT_MERGES_H
#define SMOL_CONVERT_MERGES_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

/* Initialize to zeros. */
struct merge_table {
    struct token_merge *slots; /* (n_slots), allocated */
    uint32_t n_slots, max_probe;
};

/* Reads the merges of `root`, whose vocabulary has been read. Call smol_merge_table_free, also
 * after an error. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_merge_table_read(const json_t *root, const char *path, struct merge_table *table,
                                  smol_error *error);

/* Makes a table without merges. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_merge_table_empty(struct merge_table *table, smol_error *error);

void smol_merge_table_free(struct merge_table *table);

#endif
