/* Terms: sets of byte strings, as expressions.
 *
 * A constraint is a term: the set of texts that it allows. What may follow a part of a text is
 * again a term, the derivative (Brzozowski, Derivatives of regular expressions, 1964). Equal terms
 * are the same number, so terms are the states of an automaton whose transitions are computed when
 * they are first needed and kept. Rules may refer to themselves, so the automaton may be infinite:
 * a term then is a stack of what remains in each rule.
 *
 * A table is built in two steps: constructors describe the term, then smol_terms_finish settles it.
 * Only then derivatives exist. The text is bytes; the caller encodes characters. */
#ifndef SMOL_RUNTIME_TERM_H
#define SMOL_RUNTIME_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A term, a number in its table. */
typedef uint32_t term;

enum {
    TERM_NOTHING = 0, /* the empty set: there is no such text */
    TERM_EMPTY = 1,   /* only the empty string */
};

struct byte_set {
    uint64_t bits[4];
};

static inline void byte_set_add(struct byte_set *set, unsigned first, unsigned last)
{
    for (unsigned b = first; b <= last; b++)
        set->bits[b / 64] |= (uint64_t)1 << b % 64;
}

static inline bool byte_set_has(const struct byte_set *set, uint8_t byte)
{
    return set->bits[byte / 64] >> byte % 64 & 1;
}

struct term_table;

/* Errors: SMOL_ERROR_MEMORY. */
smol_status smol_terms_create(struct term_table **table, smol_error *error);
void smol_terms_free(struct term_table *table);

/* Returns the bytes of memory that the table takes. */
size_t smol_terms_bytes(const struct term_table *table);

/* Returns how many terms the table has: as many as it took work to make and to settle. */
size_t smol_terms_count(const struct term_table *table);

/* --- constructors, before smol_terms_finish ------------------------------------------------ */

/* After an error (memory, or a limit) constructors return TERM_NOTHING, and smol_terms_finish
 * returns the error. So callers check once, at the end. */

#define TERM_FOREVER UINT32_MAX

term smol_term_bytes(struct term_table *table, const struct byte_set *set);    /* one byte */
term smol_term_literal(struct term_table *table, const void *bytes, size_t n); /* these bytes */
term smol_term_then(struct term_table *table, term first, term second);        /* in sequence */
term smol_term_either(struct term_table *table, term a, term b);               /* a or b */
term smol_term_any_of(struct term_table *table, const term *terms, size_t n);  /* one of n */
term smol_term_optional(struct term_table *table, term a);                     /* a or empty */
term smol_term_repeat(struct term_table *table, term a, uint32_t min,
                      uint32_t max); /* max may be
                                      TERM_FOREVER */

/* Intersection and difference. The operands, and all terms within, must be regular: contain no
 * rule. */
term smol_term_both(struct term_table *table, term a, term b);
term smol_term_without(struct term_table *table, term a, term b);

/* Returns all strings of bytes but those of a regular term. */
term smol_term_not(struct term_table *table, term a);

/* Returns the same set as a, marked as a unit of the language, such as a string or a
 * number: which tokens of a vocabulary fit into it is found once, whatever follows it. Units should
 * be regular, and as large as what a language calls a token. */
term smol_term_unit(struct term_table *table, term a);

/* A rule, to be defined later, exactly once. Rules may refer to themselves and each other. */
term smol_term_rule(struct term_table *table);
void smol_term_define(struct term_table *table, term rule, term body);

/* Settles the table with `root` as the whole term. Errors: SMOL_ERROR_UNSUPPORTED (a rule can begin
 * with itself; there is no text that the term allows; limits), SMOL_ERROR_MEMORY. */
smol_status smol_terms_finish(struct term_table *table, term root, smol_error *error);

/* --- after smol_terms_finish --------------------------------------------------------------- */

term smol_terms_root(const struct term_table *table);

/* Returns what may follow `byte` in the texts of a, TERM_NOTHING if nothing does: no text of a
 * starts with this byte. So every other term can be completed. */
term smol_term_after(struct term_table *table, term a, uint8_t byte);

/* Returns whether a contains the empty string: the text may end here. */
bool smol_term_may_end(const struct term_table *table, term a);

/* Returns whether exactly one byte may come next, and the text may not end. Sets *byte to it. */
bool smol_term_forced(struct term_table *table, term a, uint8_t *byte);

/* Returns the error that ended the work of smol_term_after, or SMOL_OK: memory, or a limit. */
smol_status smol_terms_status(const struct term_table *table, smol_error *error);

/* Lets the work end with SMOL_ERROR_CANCELLED after n more steps; UINT64_MAX: never. It may be
 * resumed, and then starts from what has been found. */
void smol_terms_limit(struct term_table *table, uint64_t n);

/* Returns the number of steps so far. */
uint64_t smol_terms_steps(const struct term_table *table);

/* Clears the error SMOL_ERROR_CANCELLED. Returns whether it was that. */
bool smol_terms_resume(struct term_table *table);

/* Forgets the error, and all terms that were added after smol_terms_finish: their numbers have no
 * meaning any more. The same texts lead to the same sets again. */
void smol_terms_forget(struct term_table *table);

#endif
