/* Finding added tokens, such as <|im_end|>, in a text. */
#ifndef SMOL_RUNTIME_TOKENIZER_ADDED_H
#define SMOL_RUNTIME_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/watch.h"

/* Whether a token steers the model where a template writes it, see smol_tokenizer_encode_mixed. */
bool smol_added_is_control(const struct tokenizer_tables *tables, const struct mixed_text *mixed,
                           const struct added_token *token);

enum { ADDED_BLOCK = 512 }; /* bytes of the text whose tokens are looked up together */

/* A walk through a text, from its first added token to its last. Start with the fields up to
 * `watch`, and zeros. */
struct added_search {
    const struct tokenizer_tables *tables;
    const struct added_automaton *automaton;
    const uint8_t *text;
    size_t size;
    bool skip_special;              /* special tokens are text */
    const struct mixed_text *mixed; /* or NULL: all of the text can be trusted */
    const uint8_t *arguments;       /* mixed: (size), those of its marks for `text`, or NULL */
    bool argument;                  /* without them: whether all of the text is an argument */
    uint32_t *harmless; /* mixed: (n_added), see added.c; zeros before the first search */
    struct encode_watch *watch;
    size_t at;          /* where the search continues */
    size_t covered;     /* where the last token, with the space that it took, ended */
    size_t space_start; /* the run of white space seen last, which is not looked at again */
    size_t space_end;
    size_t block, block_end;       /* the block looked up last */
    uint32_t longest[ADDED_BLOCK]; /* the entry of the longest token at each place, or NO_ENTRY */
};

/* The next token: it takes text[start, end); the text between the end of the token before and
 * `start` is in none. `start` may lie before that end, where that token took white space in which
 * this one stands; if nothing is left of it then, `id` is NO_TOKEN, and the text continues at `end`
 * all the same, as in the reference. False when there are no more, or the watch ended the search.
 */
struct added_match {
    uint32_t id;
    size_t start, end;
};
bool smol_added_next(struct added_search *search, struct added_match *match);

#endif
