/* Sets of code points, for the classes of patterns; the sets that patterns name, and case folding,
 * both as the reference's pattern engine has them. */
#ifndef SMOL_CONVERT_CODE_SET_H
#define SMOL_CONVERT_CODE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/code_range.h"

enum { LAST_CODE_POINT = 0x10ffff };

/* Zeroed: empty. The ranges are ascending, disjoint and not neighbours, but while they are being
 * added. */
struct code_set {
    struct code_range *ranges; /* (n), owned */
    size_t n, capacity;
    bool failed;    /* there was no room: ranges are missing */
    bool no_memory; /* and not because of SET_MAX_RANGES */
};
enum { SET_MAX_RANGES = 1 << 20 };

/* Adds ranges in any order; smol_set_settle follows before anything else is done with the set. */
void smol_set_add(struct code_set *set, uint32_t first, uint32_t last);
void smol_set_add_all(struct code_set *set, const struct code_set *other);
void smol_set_settle(struct code_set *set);

/* The set becomes its complement. */
void smol_set_invert(struct code_set *set);

/* The set keeps what `other` has too; `other` may change. */
void smol_set_intersect(struct code_set *set, struct code_set *other);

bool smol_set_has(const struct code_set *set, uint32_t code_point);

bool smol_set_equal(const struct code_set *a, const struct code_set *b);

/* Gives the memory back; the set is empty then. */
void smol_set_free(struct code_set *set);

/* --- Unicode's sets ------------------------------------------------------------------------- */

/* Adds the characters with the property name[0..size), as in \p{...}, where case, spaces, hyphens
 * and underscores do not matter; false when the name is not known. Names with a "\" are those of
 * escapes: "\w" is what \w matches; with a ":", of what other parts of the reference go by. */
bool smol_unicode_set(const char *name, size_t size, struct code_set *set);

/* Adds to the set, which is settled before and after, what equals one of its characters but for
 * case. */
void smol_unicode_fold(struct code_set *set);

/* Whether a character of the set equals several others but for case, as U+00DF does "ss". */
bool smol_unicode_folds_to_many(const struct code_set *set);

/* Whether the last two or three of folds[0..n) are what a single character equals but for case; a
 * fold is what smol_unicode_fold_one gives. */
bool smol_unicode_is_fold_of_one(const uint32_t *folds, size_t n);

/* The character that stands for all that equal this one but for case. */
uint32_t smol_unicode_fold_one(uint32_t code_point);

#endif
