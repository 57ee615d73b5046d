/* Converts text to token ids and back, with the flat tables of a blob. */
#ifndef SMOL_RUNTIME_TOKENIZER_TOKENIZER_H
#define SMOL_RUNTIME_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/listener.h"
#include "format/tokenizer.h"
#include "runtime/tokenizer/added_automaton.h"

/* A growing list of token ids. Initialize it to zeros; free `ids` with smol_free. */
struct token_list {
    uint32_t *ids;
    size_t n, capacity;
};

/* Additional tokens to encode. */
enum encode_flag {
    ENCODE_SPECIAL = 1 << 0, /* special tokens in the text, such as <|im_end|>, become those tokens;
                                otherwise they are ordinary text */
    ENCODE_AROUND = 1 << 1,  /* adds the tokens before and after a whole text, such as bos */
};

struct encode_params {
    unsigned flags;                     /* enum encode_flag; ignored for mixed text */
    const struct added_automata *added; /* built from the tables; NULL: built for this call */
    const struct listener *listener;    /* or NULL; reports bytes of text */
};

/* Appends the ids of text[0..size). Ill-formed UTF-8 counts as U+FFFD (common/utf8.h). A character
 * without a token is omitted or becomes the model's unknown token, as in the reference. O(n log n).
 * Thread-safe. Errors: SMOL_ERROR_MEMORY, SMOL_ERROR_CANCELLED (both leave the list's contents
 * unchanged). */
smol_status smol_tokenizer_encode(const struct tokenizer_tables *tables, const char *text,
                                  size_t size, const struct encode_params *params,
                                  struct token_list *list, smol_error *error);

/* Text that a template assembled from its own text and from untrusted arguments. */
struct mixed_text {
    const char *text;         /* (size), well-formed UTF-8 */
    const uint8_t *arguments; /* (size): 1 for bytes of arguments */
    size_t size;
    const uint8_t *literals; /* (n_literals): all text that the template itself can write */
    size_t n_literals;
    const char *const *roles; /* ends with NULL; NULL: none. The template may compose a token around
                                 one of these: <|user|> from <|, user and |> */
};

/* Does the same for mixed text. Arguments cannot forge a token that steers the model: an added
 * token that contains a byte of an argument is ordinary text if it is special, or if the template
 * can write it and it is not white space. */
smol_status smol_tokenizer_encode_mixed(const struct tokenizer_tables *tables,
                                        const struct mixed_text *mixed,
                                        const struct encode_params *params, struct token_list *list,
                                        smol_error *error);

/* The bytes of a token. They may end within a character. */
struct token_text {
    const uint8_t *bytes;
    size_t length; /* 0 for ids without a token */
    bool special;
    bool exists;                 /* the id has a token, which may be empty */
    bool byte, plain, continues; /* flags of the token, see enum token_flag */
};
struct token_text smol_tokenizer_text(const struct tokenizer_tables *tables, uint32_t id);

#endif
