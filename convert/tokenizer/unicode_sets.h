/* Sets of characters by the names that patterns have for them, and case folding, both as the
 * reference's pattern engine has them. */
#ifndef SMOL_CONVERT_UNICODE_SETS_H
#define SMOL_CONVERT_UNICODE_SETS_H

#include <stdbool.h>
#include <stddef.h>

#include "convert/tokenizer/pattern_set.h"

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
