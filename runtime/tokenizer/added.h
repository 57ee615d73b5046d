/* Finds added tokens, such as <|im_end|>, in a text. */
#ifndef SMOL_RUNTIME_TOKENIZER_ADDED_H
#define SMOL_RUNTIME_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/words.h"

/* Returns whether a token steers the model: it is special, or the template can write it and it is
 * not white space. See smol_tokenizer_encode_mixed. */
bool smol_added_is_control(const struct tokenizer_tables *tables, const struct mixed_text *mixed,
                           const struct added_token *token);

/* Returns whether no token depends on mixed->roles, because all are special. */
bool smol_added_all_special(const struct tokenizer_tables *tables);

enum { ADDED_BLOCK = 512 }; /* bytes of text that are looked up together */

/* A search from the first added token of a text to the last. Set the fields up to `watch`, and the
 * others to zero. */
struct added_search {
    const struct tokenizer_tables *tables;
    const struct added_automaton *automaton;
    const uint8_t *text;
    size_t size;
    bool skip_special;              /* treat special tokens as text */
    const struct mixed_text *mixed; /* NULL: the whole text is trusted */
    const uint8_t *arguments;       /* mixed: (size), the marks of `text`, or NULL */
    bool argument;      /* mixed, if `arguments` is NULL: the whole text is an argument */
    uint32_t *harmless; /* mixed: (n_added), see added.c; zeros at the start */
    struct encode_watch *watch;
    size_t at;          /* where the search continues */
    size_t covered;     /* end of the last token and of the space that it took */
    size_t space_start; /* the last run of white space scanned */
    size_t space_end;
    size_t block, block_end;       /* the last block looked up */
    uint32_t longest[ADDED_BLOCK]; /* the longest token at each position, or NO_ENTRY */
};

/* The token at text[start, end). The text between the end of the previous token and `start` belongs
 * to no token. `start` may lie before that end if the previous token took white space that contains
 * this token. If none of the token is left, `id` is NO_TOKEN and the text still continues at `end`,
 * as in the reference. */
struct added_match {
    uint32_t id;
    size_t start, end;
};
bool smol_added_next(struct added_search *search, struct added_match *match);

#endif
