/* Text to token ids and back, over the flat tables of a blob. */
#ifndef SMOL_RUNTIME_TOKENIZER_H
#define SMOL_RUNTIME_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/tokenizer.h"

/* A growing list of token ids; start from zeros, free `ids`. */
struct token_list {
    uint32_t *ids;
    size_t n, capacity;
};

/* Appends the ids of text[0..size). Ill-formed UTF-8 counts as U+FFFD (common/utf8.h). With
 * `parse_added`, added tokens such as <|im_end|> are found in the text; without, they are
 * ordinary text. Bytes without a token are dropped, as the reference does. O(n log n).
 * Thread-safe. Errors: STATUS_MEMORY (the list is then as it was). */
enum status smol_tokenizer_encode(const struct tokenizer_tables *tables, const char *text,
                                  size_t size, bool parse_added, struct token_list *list,
                                  struct error *error);

/* The bytes of token `id`, possibly not whole characters; length 0 for ids without a token. */
struct token_text {
    const uint8_t *bytes;
    size_t length;
    bool special;
};
struct token_text smol_tokenizer_text(const struct tokenizer_tables *tables, uint32_t id);

#endif
