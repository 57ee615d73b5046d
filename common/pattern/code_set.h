/* Sets of code points for the classes of patterns. Named sets and case folding follow the
 * reference's pattern engine. */
#ifndef SMOL_COMMON_CODE_SET_H
#define SMOL_COMMON_CODE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/code_range.h"

enum { LAST_CODE_POINT = 0x10ffff };

/* A set of code points; zeros are the empty set. In a settled set, the ranges are ascending,
 * disjoint and not adjacent. */
struct code_set {
    struct code_range *ranges; /* (n), owned */
    size_t n, capacity;
    bool failed;    /* out of memory or SET_MAX_RANGES reached: ranges are missing */
    bool no_memory; /* out of memory */
};
enum { SET_MAX_RANGES = 1 << 20 };

/* Add ranges in any order. Call smol_set_settle before any other use of the set. */
void smol_set_add(struct code_set *set, uint32_t first, uint32_t last);
void smol_set_add_all(struct code_set *set, const struct code_set *other);
void smol_set_settle(struct code_set *set);

/* Replaces the set by its complement. */
void smol_set_invert(struct code_set *set);

/* Removes the code points that are not in `other`; may change `other`. */
void smol_set_intersect(struct code_set *set, struct code_set *other);

bool smol_set_has(const struct code_set *set, uint32_t code_point);

bool smol_set_equal(const struct code_set *a, const struct code_set *b);

/* Frees the set's memory and makes it empty. */
void smol_set_free(struct code_set *set);

/* --- Unicode's sets ------------------------------------------------------------------------- */

/* Adds the characters with the property name[0..size), as in \p{...}. Ignores case, spaces, hyphens
 * and underscores. Returns false if the name is unknown. Other names start with a character that no
 * property has: "\w" is the set that \w matches outside of classes, "[word" that of [:word:], and
 * \w within classes; names with ":" are sets that other parts of the reference use. */
bool smol_unicode_set(const char *name, size_t size, struct code_set *set);

/* Adds the characters that differ from one in the set only in case. The set is settled before and
 * after. */
void smol_unicode_fold(struct code_set *set);

/* Returns whether a character of the set equals several characters if case is ignored, as U+00DF
 * equals "ss". */
bool smol_unicode_folds_to_many(const struct code_set *set);

/* Returns whether the last two or three of folds[0..n) equal a single character if case is ignored.
 * A fold is a result of smol_unicode_fold_one. */
bool smol_unicode_is_fold_of_one(const uint32_t *folds, size_t n);

/* Returns the representative of all characters that differ from this one only in case. */
uint32_t smol_unicode_fold_one(uint32_t code_point);

#endif
