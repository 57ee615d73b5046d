/* Reads the tokens of a tokenizer.json by id, the model's vocabulary and the added tokens, and the
 * merges of the model. */
#ifndef SMOL_CONVERT_VOCABULARY_H
#define SMOL_CONVERT_VOCABULARY_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

/* The tables of the tokenizer section, each allocated. Initialize to zeros. */
struct vocabulary {
    uint32_t n_tokens, n_text_bytes, n_added;
    struct token_span *spans;  /* (n_tokens) */
    uint8_t *text;             /* (n_text_bytes) */
    struct added_token *added; /* (n_added) */
    uint32_t byte_tokens[256];
};

struct text_rules;

/* Reads the vocabulary of `root`, whose rules have been checked. Every id must be below
 * `vocab_size`. `rules` specify how tokens are decoded and how added tokens are normalized. Call
 * smol_vocabulary_free, also after an error. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_vocabulary_read(const json_t *root, const char *path, uint32_t vocab_size,
                                 const struct text_rules *rules, struct vocabulary *vocabulary,
                                 smol_error *error);

void smol_vocabulary_free(struct vocabulary *vocabulary);

/* merges.c: the hash table of merges. Initialize to zeros. */
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
