/* Sets of code points, for the classes of patterns. */
#ifndef SMOL_CONVERT_PATTERN_SET_H
#define SMOL_CONVERT_PATTERN_SET_H

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

/* The set becomes what it is not. */
void smol_set_invert(struct code_set *set);

/* What is in both; `other` may change too. */
void smol_set_intersect(struct code_set *set, struct code_set *other);

bool smol_set_has(const struct code_set *set, uint32_t code_point);

bool smol_set_equal(const struct code_set *a, const struct code_set *b);

/* Gives the memory back; the set is empty then. */
void smol_set_free(struct code_set *set);

#endif
