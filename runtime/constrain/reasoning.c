/* Reasoning before the text of a constraint, see front_ends.h. */
#include "runtime/constrain/front_ends.h"

#include <stdio.h>
#include <string.h>

#include "runtime/constrain/trie.h"

enum {
    MARKER_SIZE = 32,
    SPACES = 4, /* after the reasoning: a model that may go on with white space may never end it */
};

static term text_term(struct term_table *table, const char *text)
{
    return smol_term_literal(table, text, strlen(text));
}

/* Returns a marker, which may be a special token or begin with one. */
static term marker_term(struct term_table *table, const struct trie *vocabulary, const char *marker)
{
    char special[MARKER_SIZE + 3];
    for (size_t n = strlen(marker); n > 0; n--) {
        int size = snprintf(special, sizeof special, "%c%.*s%c", TRIE_SPECIAL, (int)n, marker,
                            TRIE_SPECIAL);
        if (smol_trie_find(vocabulary, (const uint8_t *)special, (size_t)size) != SMOL_NO_TOKEN)
            return smol_term_then(table, text_term(table, special), text_term(table, marker + n));
    }
    return text_term(table, marker);
}

/* Returns the texts that contain another. */
static term with_text(struct term_table *table, term any, const char *text)
{
    return smol_term_then(table, any, smol_term_then(table, text_term(table, text), any));
}

term smol_reasoning_term(struct term_table *table, const struct trie *vocabulary,
                         const struct reasoning_texts *texts, const struct answer_terms *answer)
{
    struct byte_set bytes = {0}, spaces = {0};
    byte_set_add(&bytes, 0, TRIE_SPECIAL - 1);
    byte_set_add(&spaces, '\t', '\n');
    byte_set_add(&spaces, '\r', '\r');
    byte_set_add(&spaces, ' ', ' ');
    term any = smol_term_repeat(table, smol_term_bytes(table, &bytes), 0, TERM_FOREVER);
    term space = smol_term_repeat(table, smol_term_bytes(table, &spaces), 0, SPACES);
    term reasoning = smol_term_without(table, any, with_text(table, any, texts->close));
    if (texts->call)
        reasoning = smol_term_without(table, reasoning, with_text(table, any, texts->call));
    term rest = smol_term_then(table, space, answer->whole);
    rest = smol_term_then(table, marker_term(table, vocabulary, texts->close), rest);
    rest = smol_term_either(table, rest, answer->calls);
    if (answer->may_be_cut)
        rest = smol_term_optional(table, rest);
    rest = smol_term_then(table, reasoning, rest);
    if (!texts->open)
        return rest;
    rest = smol_term_then(table, marker_term(table, vocabulary, texts->open), rest);
    return smol_term_either(table, answer->whole, rest);
}
