/* Text to token ids and back, by the flat tables of a blob. */
#ifndef SMOL_RUNTIME_TOKENIZER_H
#define SMOL_RUNTIME_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/listener.h"
#include "format/tokenizer.h"
#include "runtime/tokenizer/added_automaton.h"

/* A growing list of token ids; start from zeros, smol_free `ids`. */
struct token_list {
    uint32_t *ids;
    size_t n, capacity;
};

/* Tokens other than the text's own, ordinary ones. */
enum encode_flag {
    ENCODE_SPECIAL = 1 << 0, /* special tokens such as <|im_end|>, spelled out, become those tokens;
                                without, they are ordinary text */
    ENCODE_AROUND = 1 << 1,  /* the tokens that belong around a whole text, bos above all */
};

struct encode_params {
    unsigned flags;                     /* of enum encode_flag; not for mixed text */
    const struct added_automata *added; /* of the tables; NULL: built for this call */
    const struct listener *listener;    /* or NULL; told of the text's bytes */
};

/* Appends the ids of text[0..size). Ill-formed UTF-8 counts as U+FFFD (common/utf8.h). A character
 * without a token is left out, or becomes the model's unknown token, as in the reference.
 * O(n log n). Thread-safe. Errors: SMOL_ERROR_MEMORY, SMOL_ERROR_CANCELLED (the list is then as it
 * was). */
smol_status smol_tokenizer_encode(const struct tokenizer_tables *tables, const char *text,
                                  size_t size, const struct encode_params *params,
                                  struct token_list *list, smol_error *error);

/* Text that a template put together from its own words and from untrusted arguments. */
struct mixed_text {
    const char *text;         /* (size), well-formed UTF-8 */
    const uint8_t *arguments; /* (size): 1 for bytes of arguments */
    size_t size;
    const uint8_t *literals; /* (n_literals): all that the template itself can write */
    size_t n_literals;
    const char *const *roles; /* terminated by NULL, or NULL: the template may put a token together
                                 around one of these, <|user|> of <|, user and |> */
};

/* As above for mixed text, in which arguments cannot forge a token that steers the model: an added
 * token with any byte of an argument is ordinary text if it is special, or if the template writes
 * it too and it is not white space. */
smol_status smol_tokenizer_encode_mixed(const struct tokenizer_tables *tables,
                                        const struct mixed_text *mixed,
                                        const struct encode_params *params, struct token_list *list,
                                        smol_error *error);

/* The bytes of token `id`, possibly not whole characters. */
struct token_text {
    const uint8_t *bytes;
    size_t length; /* 0 for ids without a token */
    bool special;
    bool exists;      /* the id has a token, perhaps an empty one */
    bool byte, plain; /* its flags of these names, see enum token_flag */
};
struct token_text smol_tokenizer_text(const struct tokenizer_tables *tables, uint32_t id);

#endif
