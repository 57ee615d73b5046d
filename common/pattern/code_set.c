/* Sets of code points, see code_set.h. */
#include "common/pattern/code_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/pattern/unicode_sets.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* --- ranges --------------------------------------------------------------------------------- */

static bool reserve(struct code_set *set, size_t n_more)
{
    if (set->failed || n_more > SET_MAX_RANGES - set->n) {
        set->failed = true;
        return false;
    }
    if (set->n + n_more <= set->capacity)
        return true;
    size_t capacity = 2 * (set->n + n_more);
    if (!RESIZE(set->ranges, capacity)) {
        set->failed = set->no_memory = true;
        return false;
    }
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

/* Compares ranges for qsort. */
static int compare(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void smol_set_settle(struct code_set *set)
{
    if (set->n == 0)
        return;
    qsort(set->ranges, set->n, sizeof *set->ranges, compare);
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
    uint32_t next = 0; /* the first code point not yet processed */
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
    smol_free(set->ranges);
    *set = (struct code_set){0};
}

/* --- names ---------------------------------------------------------------------------------- */

static const struct named_set *find_name(const char *name)
{
    const char *other = set_names;
    for (size_t i = 0; i < LENGTH(named_sets); i++, other += strlen(other) + 1)
        if (strcmp(other, name) == 0)
            return &named_sets[i];
    return NULL;
}

static void add_categories(struct code_set *set, uint32_t categories)
{
    uint32_t first = 0;
    unsigned category = 0;
    for (const uint8_t *at = category_runs; at < category_runs + sizeof category_runs;) {
        const uint32_t run = packed_number(&at), next = first + (run >> 5);
        if (next > first && categories >> category & 1)
            smol_set_add(set, first, next - 1);
        first = next;
        category = run & 31;
    }
    if (categories >> category & 1)
        smol_set_add(set, first, LAST_CODE_POINT);
    smol_set_settle(set);
}

/* Replaces the set by its symmetric difference with n ranges of set_exceptions. */
static void differ(struct code_set *set, const uint8_t *exceptions, size_t n)
{
    struct code_set outside = {0}, common = {0};
    for (uint32_t last = 0; n > 0; n--) {
        uint32_t first = last + packed_number(&exceptions);
        last = first + packed_number(&exceptions);
        smol_set_add(&outside, first, last);
    }
    smol_set_add_all(&common, set);
    smol_set_add_all(set, &outside);
    smol_set_settle(set);
    smol_set_intersect(&common, &outside);
    smol_set_invert(&common);
    smol_set_intersect(set, &common);
    smol_set_free(&outside);
    smol_set_free(&common);
}

bool smol_unicode_set(const char *name, size_t size, struct code_set *set)
{
    char plain[48];
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (name[i] == ' ' || name[i] == '-' || name[i] == '_')
            continue;
        if (n == sizeof plain - 1)
            return false;
        plain[n++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    }
    plain[n] = 0;
    const struct named_set *found = find_name(plain);
    if (!found)
        return false;
    struct code_set named = {0};
    add_categories(&named, found->categories);
    differ(&named, set_exceptions + found->at, found->n);
    smol_set_add_all(set, &named);
    smol_set_free(&named);
    smol_set_settle(set);
    return true;
}

/* --- case ----------------------------------------------------------------------------------- */

/* Reads the next of fold_groups, whose first character replaces that of the group before in
 * group[0]. Returns the number of its characters, 0 at the end. */
static size_t next_group(const uint8_t **at, uint32_t group[LARGEST_GROUP])
{
    size_t n = 1;
    if (*at == fold_groups + sizeof fold_groups)
        return 0;
    group[0] += packed_number(at);
    for (uint32_t step; (step = packed_number(at)) > 0; n++)
        group[n] = group[n - 1] + step;
    return n;
}

void smol_unicode_fold(struct code_set *set)
{
    struct code_set more = {0};
    const uint8_t *at = fold_groups;
    uint32_t group[LARGEST_GROUP] = {0};
    for (size_t n; (n = next_group(&at, group)) > 0;) {
        bool found = false;
        for (size_t i = 0; i < n; i++)
            found |= smol_set_has(set, group[i]);
        for (size_t i = 0; found && i < n; i++)
            smol_set_add(&more, group[i], group[i]);
    }
    smol_set_add_all(set, &more);
    smol_set_settle(set);
    smol_set_free(&more);
}

bool smol_unicode_folds_to_many(const struct code_set *set)
{
    for (size_t i = 0; i < LENGTH(folds_to_many); i++)
        if (smol_set_has(set, folds_to_many[i]))
            return true;
    return false;
}

uint32_t smol_unicode_fold_one(uint32_t code_point)
{
    const uint8_t *at = fold_groups;
    uint32_t group[LARGEST_GROUP] = {0};
    for (size_t n; (n = next_group(&at, group)) > 0;)
        for (size_t i = 0; i < n; i++)
            if (group[i] == code_point)
                return group[0];
    return code_point;
}

bool smol_unicode_is_fold_of_one(const uint32_t *folds, size_t n)
{
    for (size_t i = 0; i < LENGTH(many_folds); i++) {
        size_t length = many_folds[i][2] ? 3 : 2;
        if (n >= length && memcmp(folds + n - length, many_folds[i], length * sizeof *folds) == 0)
            return true;
    }
    return false;
}
