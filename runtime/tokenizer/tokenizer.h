/* Text to token ids and back, over the flat tables of a blob. */
#ifndef SMOL_RUNTIME_TOKENIZER_H
#define SMOL_RUNTIME_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/tokenizer.h"

/* A growing list of token ids; start from zeros, smol_free `ids`. */
struct token_list {
    uint32_t *ids;
    size_t n, capacity;
};

/* What is more than the text's own, ordinary tokens. */
enum encode_flag {
    ENCODE_SPECIAL = 1 << 0, /* special tokens such as <|im_end|>, spelled out, become those tokens;
                                without, they are ordinary text */
    ENCODE_AROUND = 1 << 1,  /* the tokens that belong around a whole text, bos above all */
};

/* Appends the ids of text[0..size), with `flags` of enum encode_flag. Ill-formed UTF-8 counts as
 * U+FFFD (common/utf8.h). What has no token is left out, or becomes the model's unknown token, as
 * in the reference. O(n log n). Thread-safe. Errors: SMOL_ERROR_MEMORY (the list is then as it
 * was). */
smol_status smol_tokenizer_encode(const struct tokenizer_tables *tables, const char *text,
                                  size_t size, unsigned flags, struct token_list *list,
                                  smol_error *error);

/* Text that was put together from a template and from what strangers wrote. */
struct mixed_text {
    const char *text;         /* (size), well-formed UTF-8 */
    const uint8_t *arguments; /* (size): 1 for bytes that strangers wrote */
    size_t size;
    const uint8_t *literals; /* (n_literals): all that the template itself can write */
    size_t n_literals;
};

/* The ids of mixed text, in which added tokens are found, but not where they could steer the model
 * on a stranger's behalf: a token of which any byte is a stranger's is ordinary text if it is
 * special, or if the template writes it too and it is not white space. Errors: SMOL_ERROR_MEMORY.
 */
smol_status smol_tokenizer_encode_mixed(const struct tokenizer_tables *tables,
                                        const struct mixed_text *mixed, struct token_list *list,
                                        smol_error *error);

/* The bytes of token `id`, possibly not whole characters. */
struct token_text {
    const uint8_t *bytes;
    size_t length; /* 0 for ids without a token */
    bool special;
    bool exists;      /* there is such a token, perhaps an empty one */
    bool byte, plain; /* its flags of these names, see enum token_flag */
};
struct token_text smol_tokenizer_text(const struct tokenizer_tables *tables, uint32_t id);

#endif
