/* Sets of code points, see pattern_set.h. */
#include "convert/tokenizer/pattern_set.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(struct code_set *set, size_t n_more)
{
    if (set->failed || n_more > SET_MAX_RANGES - set->n) {
        set->failed = true;
        return false;
    }
    if (set->n + n_more <= set->capacity)
        return true;
    size_t capacity = 2 * (set->n + n_more);
    struct code_range *ranges = realloc(set->ranges, capacity * sizeof *ranges);
    if (!ranges) {
        set->failed = set->no_memory = true;
        return false;
    }
    set->ranges = ranges;
    set->capacity = capacity;
    return true;
}

void smol_set_add(struct code_set *set, uint32_t first, uint32_t last)
{
    if (reserve(set, 1))
        set->ranges[set->n++] = (struct code_range){first, last};
}

void smol_set_add_all(struct code_set *set, const struct code_set *other)
{
    set->failed |= other->failed;
    set->no_memory |= other->no_memory;
    if (other->n > 0 && reserve(set, other->n)) {
        memcpy(set->ranges + set->n, other->ranges, other->n * sizeof *other->ranges);
        set->n += other->n;
    }
}

static int compare_ranges(const void *a, const void *b)
{
    const struct code_range *left = a, *right = b;
    return (left->first > right->first) - (left->first < right->first);
}

void smol_set_settle(struct code_set *set)
{
    if (set->n == 0)
        return;
    qsort(set->ranges, set->n, sizeof *set->ranges, compare_ranges);
    size_t n = 1;
    for (size_t i = 1; i < set->n; i++) {
        struct code_range *before = &set->ranges[n - 1], next = set->ranges[i];
        if (next.first > before->last + 1)
            set->ranges[n++] = next;
        else if (next.last > before->last)
            before->last = next.last;
    }
    set->n = n;
}

void smol_set_invert(struct code_set *set)
{
    if (!reserve(set, 1))
        return;
    size_t n = 0;
    uint32_t next = 0; /* the first code point that is not dealt with */
    for (size_t i = 0; i < set->n; i++) {
        struct code_range range = set->ranges[i];
        if (range.first > next)
            set->ranges[n++] = (struct code_range){next, range.first - 1};
        next = range.last + 1;
    }
    if (next <= LAST_CODE_POINT)
        set->ranges[n++] = (struct code_range){next, LAST_CODE_POINT};
    set->n = n;
}

void smol_set_intersect(struct code_set *set, struct code_set *other)
{
    smol_set_invert(set);
    smol_set_invert(other);
    smol_set_add_all(set, other);
    smol_set_settle(set);
    smol_set_invert(set);
}

bool smol_set_has(const struct code_set *set, uint32_t code_point)
{
    return code_ranges_have(set->ranges, set->n, code_point);
}

bool smol_set_equal(const struct code_set *a, const struct code_set *b)
{
    return a->n == b->n && (a->n == 0 || !memcmp(a->ranges, b->ranges, a->n * sizeof *a->ranges));
}

void smol_set_free(struct code_set *set)
{
    free(set->ranges);
    *set = (struct code_set){0};
}
