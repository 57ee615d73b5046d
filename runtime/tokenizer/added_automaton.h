/* Finds the longest added token at each position of a text in linear time, for any set of tokens.
 *
 * The automaton is an Aho-Corasick automaton over the reversed tokens. It reads the text from the
 * end to the start. After it reads the byte at a position, its state represents the longest string
 * that starts there and is a suffix of some token. The longest token at the position is a prefix of
 * this string, or the whole string, and is stored in the state. */
#ifndef SMOL_RUNTIME_TOKENIZER_ADDED_AUTOMATON_H
#define SMOL_RUNTIME_TOKENIZER_ADDED_AUTOMATON_H

#include "common/error.h"
#include "format/tokenizer.h"

#define NO_ENTRY UINT32_MAX /* no entry of the table of added tokens */

struct added_state {
    uint32_t children; /* the first child; the others follow, in ascending order of `byte` */
    uint32_t failure;  /* the state of the longest proper prefix that has a state */
    uint32_t longest;  /* entry of the longest token that is a prefix of the string, or NO_ENTRY */
    uint16_t n_children;
    uint8_t byte; /* the first byte of the string */
};

/* The automaton for one kind of token: entries [first, end) of the table. */
struct added_automaton {
    uint32_t first, end;
    uint32_t longest_token;     /* bytes */
    struct added_state *states; /* state 0 is the empty string, then by length; NULL: no tokens */
    uint32_t *shorter;  /* (end - first): the longest token that is a proper prefix, or NO_ENTRY */
    uint32_t root[256]; /* the state of each single byte; 0: no token ends in it */
};

/* Kind 0 is found in the original text, kind 1 in the normalized text. */
enum { ADDED_KINDS = 2 };
struct added_automata {
    struct added_automaton kinds[ADDED_KINDS];
};

/* Builds the automata. Time and memory are proportional to the sum of the token lengths, which is
 * at most the section's size. Call smol_added_automata_free, also after an error. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_added_automata_build(const struct tokenizer_tables *tables,
                                      struct added_automata *automata, smol_error *error);
void smol_added_automata_free(struct added_automata *automata);

/* Returns the state after `byte`, which precedes the bytes already read. */
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
