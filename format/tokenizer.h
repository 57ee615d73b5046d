/* The tokenizer section of a blob as typed pointers, after every structural rule was checked. */
#ifndef SMOL_FORMAT_TOKENIZER_H
#define SMOL_FORMAT_TOKENIZER_H

#include <stddef.h>

#include "common/error.h"
#include "format/format.h"

/* All pointers point into the section, which must outlive this. */
struct tokenizer_tables {
    const struct blob_tokenizer *header;
    const struct token_span *spans;   /* (n_tokens) */
    const uint8_t *text;              /* (n_text_bytes) */
    const uint32_t *byte_tokens;      /* (256) */
    const struct token_merge *merges; /* (n_merge_slots) */
    const struct added_token *added;  /* (n_added) */
    const uint16_t *class_index;      /* (CLASS_INDEX_SIZE) */
    const uint8_t *class_blocks;      /* (n_class_blocks, 256) */
};

/* Checks the section data[0..size), aligned to 64 bytes, and fills *tables. Afterwards every
 * rule of FORMAT.md holds: no offset, id or index in the tables leads out of bounds.
 * `vocab_size` bounds n_tokens. Errors: STATUS_DAMAGED. */
enum status smol_tokenizer_tables_open(const uint8_t *data, size_t size, uint32_t vocab_size,
                                       struct tokenizer_tables *tables, struct error *error);

/* The merge of two neighbours, or NULL. The search starts at the pair's home slot and ends with
 * an empty slot or after max_probe slots. `left` is not NO_TOKEN. */
static inline const struct token_merge *find_merge(const struct tokenizer_tables *tables,
                                                   uint32_t left, uint32_t right)
{
    uint32_t mask = tables->header->n_merge_slots - 1;
    uint32_t slot = merge_hash(left, right) & mask;
    for (uint32_t n = tables->header->max_probe; n > 0; n--, slot = (slot + 1) & mask) {
        const struct token_merge *merge = &tables->merges[slot];
        if (merge->left == left && merge->right == right)
            return merge;
        if (merge->left == NO_TOKEN)
            return NULL;
    }
    return NULL;
}

#endif
