/* Builds the trie of a model's names. */
#ifndef SMOL_CONVERT_NAME_TRIE_H
#define SMOL_CONVERT_NAME_TRIE_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

/* Initialize to zeros. */
struct name_array {
    struct name_node *nodes; /* (n), owned (free) */
    uint32_t n;
};

/* Builds the trie of `vocab`, an object: token -> id. An empty name, which no text starts with, is
 * omitted. Errors: SMOL_ERROR_UNSUPPORTED (too many nodes), SMOL_ERROR_MEMORY. */
smol_status smol_name_trie_build(const json_t *vocab, const char *path, struct name_array *trie,
                                 smol_error *error);

#endif
