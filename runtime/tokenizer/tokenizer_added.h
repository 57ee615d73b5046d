/* Finding added tokens, such as <|im_end|>, in a text. */
#ifndef SMOL_RUNTIME_TOKENIZER_ADDED_H
#define SMOL_RUNTIME_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"

/* One kind of added tokens, a stretch of their table. */
struct added_set {
    uint32_t first[257]; /* tokens that start with byte b: entries first[b] to first[b + 1] */
};

/* Whether a token steers the model where a template writes it, see smol_tokenizer_encode_mixed. */
bool smol_added_is_control(const struct tokenizer_tables *tables, const struct mixed_text *mixed,
                           const struct added_token *token);

/* The sets of all tokens: those found in the text as it is, those found in what was normalized. */
enum { ADDED_KINDS = 2 };
void smol_added_sets(const struct tokenizer_tables *tables, struct added_set sets[ADDED_KINDS]);

/* A walk through a text, from its first added token to its last. */
struct added_search {
    const struct tokenizer_tables *tables;
    const struct added_set *set;
    bool skip_special;              /* special tokens are text */
    const struct mixed_text *mixed; /* or NULL: all of the text can be trusted */
    const uint8_t
        *arguments; /* mixed: (size), those of its marks that belong to the text, or NULL */
    bool argument;  /* without them: whether all of the text is a stranger's */
    const uint8_t *text;
    size_t size;
    size_t at;          /* where the search goes on */
    size_t covered;     /* where the last token, with the space that it took, ended */
    size_t space_start; /* the run of white space seen last, which is not looked at again */
    size_t space_end;
};

/* The next token: it takes text[start, end), and what lies between the end of the one before and
 * `start` is not in any. `start` may lie before that end, where that one took white space in which
 * this one stands; nothing may then be left of it: `id` is NO_TOKEN, and the text goes on at `end`
 * all the same, as in the reference. False when there are no more. */
struct added_match {
    uint32_t id;
    size_t start, end;
};
bool smol_added_next(struct added_search *search, struct added_match *match);

#endif
