/* The longest added token at each place of a text, in time proportional to the text, whatever the
 * tokens are.
 *
 * An Aho-Corasick automaton over the tokens' bytes from last to first reads the text from its end
 * to its start. After the byte at a place its state stands for the longest string that starts
 * there and is the end of a token; the longest token at the place is a prefix of that string, or
 * the string itself, and the state knows it. */
#ifndef SMOL_RUNTIME_TOKENIZER_ADDED_AUTOMATON_H
#define SMOL_RUNTIME_TOKENIZER_ADDED_AUTOMATON_H

#include "common/error.h"
#include "format/tokenizer.h"

#define NO_ENTRY UINT32_MAX /* where an entry of the table of added tokens could stand */

struct added_state {
    uint32_t children; /* the first; the others follow it, ascending by byte */
    uint32_t failure;  /* the state of the longest proper prefix that has one */
    uint32_t longest;  /* entry of the longest token that the string starts with, or NO_ENTRY */
    uint16_t n_children;
    uint8_t byte; /* that the string starts with */
};

/* The automaton of one kind of tokens, entries [first, end) of their table. */
struct added_automaton {
    uint32_t first, end;
    uint32_t longest_token;     /* bytes */
    struct added_state *states; /* number 0 for the empty string, then by length; NULL: no tokens */
    uint32_t *shorter;  /* (end - first): the longest entry that is a proper prefix, or NO_ENTRY */
    uint32_t root[256]; /* the state of each byte by itself; 0: no token ends in it */
};

/* Tokens that are found in the text as it is, and those that are found in what was normalized. */
enum { ADDED_KINDS = 2 };
struct added_automata {
    struct added_automaton kinds[ADDED_KINDS];
};

/* Builds the automata, in time and memory proportional to the tokens' bytes, which are no more than
 * the section's. Free them, also after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_added_automata_build(const struct tokenizer_tables *tables,
                                      struct added_automata *automata, smol_error *error);
void smol_added_automata_free(struct added_automata *automata);

/* The state after `byte`, read before what led to `state`. */
static inline uint32_t added_step(const struct added_automaton *automaton, uint32_t state,
                                  uint8_t byte)
{
    const struct added_state *states = automaton->states;
    for (; state > 0; state = states[state].failure) {
        uint32_t low = states[state].children, high = low + states[state].n_children;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (states[middle].byte == byte)
                return middle;
            if (states[middle].byte < byte)
                low = middle + 1;
            else
                high = middle;
        }
    }
    return automaton->root[byte];
}

#endif
