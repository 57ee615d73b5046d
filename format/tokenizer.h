/* The tokenizer section of a blob as typed pointers, after every structural rule has been
 * checked. */
#ifndef SMOL_FORMAT_TOKENIZER_H
#define SMOL_FORMAT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/checked.h"
#include "common/error.h"
#include "format/format.h"
#include "format/scanner.h"
#include "format/text.h"

/* The header is a copy; all pointers point into the section, which must outlive the struct. */
struct tokenizer_tables {
    struct blob_tokenizer header;
    const struct token_span *spans;   /* (n_tokens) */
    const uint8_t *text;              /* (n_text_bytes) */
    const uint32_t *byte_tokens;      /* (256) */
    const struct token_merge *merges; /* (n_merge_slots) */
    const struct added_token *added;  /* (n_added) */
    const uint16_t *class_index;      /* (CLASS_INDEX_SIZE) */
    const uint8_t *class_blocks;      /* (n_class_blocks, 256) */
    struct scanner_tables scanner;    /* of the scanner section; set by the caller */
    struct text_tables rules;         /* of the text section, or text_tables_none */
};

/* Checks the section data[0..size), aligned to 64 bytes, and fills *tables. On success every rule
 * of FORMAT.md holds: no offset, id or index in the tables is out of bounds. `vocab_size` bounds
 * n_tokens; `text` is the blob's text section, or NULL. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_tokenizer_tables_open(const uint8_t *data, size_t size, uint32_t vocab_size,
                                       const struct text_tables *text,
                                       struct tokenizer_tables *tables, smol_error *error);

/* Lookups. The section may be in a mapped file, which another process can change, or a failing disk
 * can replace with zeros, at any moment. Each value that leads to an address is therefore read once
 * and then checked, although the section was valid at open. Whatever the tables contain, returned
 * ids are below n_tokens and reads stay in bounds. */

static inline uint32_t tokenizer_read(const uint32_t *field)
{
    return *(const volatile uint32_t *)field;
}

/* Returns the text of token `id`, or all zeros for an id without a token or an invalid entry. */
static inline struct token_span tokenizer_span(const struct tokenizer_tables *tables, uint32_t id)
{
    if (id >= tables->header.n_tokens)
        return (struct token_span){0};
    const volatile struct token_span *place = &tables->spans[id];
    struct token_span span = {place->start, place->length, place->flags};
    bool within = range_within(span.start, span.length, tables->header.n_text_bytes);
    return within ? span : (struct token_span){0};
}

/* Returns the token of a single byte, or NO_TOKEN. */
static inline uint32_t tokenizer_byte(const struct tokenizer_tables *tables, uint8_t byte)
{
    uint32_t id = tokenizer_read(&tables->byte_tokens[byte]);
    return id < tables->header.n_tokens ? id : NO_TOKEN;
}

/* Returns entry `index`, below n_added, of the added tokens, or all zeros if it is invalid. */
static inline struct added_token tokenizer_added(const struct tokenizer_tables *tables,
                                                 uint32_t index)
{
    const volatile struct added_token *place = &tables->added[index];
    struct added_token added = {place->id, place->start, place->length, place->flags};
    bool valid = added.id < tables->header.n_tokens && added.length <= ADDED_TOKEN_MAX &&
                 range_within(added.start, added.length, tables->header.n_text_bytes);
    return valid ? added : (struct added_token){0};
}

/* Returns the classes of a code point of at most U+10FFFF: bits of enum char_class. */
static inline unsigned tokenizer_classes(const struct tokenizer_tables *tables, uint32_t code_point)
{
    size_t block = *(const volatile uint16_t *)&tables->class_index[code_point / 256];
    return block < tables->header.n_class_blocks
               ? *(const volatile uint8_t *)&tables->class_blocks[block * 256 + code_point % 256]
               : 0;
}

/* The result of merging two neighbouring tokens. */
struct merge {
    uint32_t rank; /* or NO_RANK: they do not merge */
    uint32_t merged;
};
#define NO_RANK UINT32_MAX
#define NO_SLOT UINT32_MAX

/* Returns the slot of the merge of two neighbours, or NO_SLOT. The search starts at the pair's home
 * slot and ends at an empty slot or after max_probe slots. `left` must not be NO_TOKEN. */
static inline uint32_t tokenizer_slot(const struct tokenizer_tables *tables, uint32_t left,
                                      uint32_t right)
{
    uint32_t mask = tables->header.n_merge_slots - 1;
    uint32_t slot = merge_hash(left, right) & mask;
    for (uint32_t n = tables->header.max_probe; n > 0; n--, slot = (slot + 1) & mask) {
        uint32_t found = tokenizer_read(&tables->merges[slot].left);
        if (found == left && tokenizer_read(&tables->merges[slot].right) == right)
            return slot;
        if (found == NO_TOKEN)
            break;
    }
    return NO_SLOT;
}

static inline struct merge tokenizer_merge(const struct tokenizer_tables *tables, uint32_t left,
                                           uint32_t right)
{
    uint32_t slot = tokenizer_slot(tables, left, right);
    if (slot == NO_SLOT)
        return (struct merge){NO_RANK, 0};
    struct merge merge = {tokenizer_read(&tables->merges[slot].rank),
                          tokenizer_read(&tables->merges[slot].merged)};
    return merge.merged < tables->header.n_tokens ? merge : (struct merge){NO_RANK, 0};
}

#endif
