/* Tables of code points. */
#ifndef SMOL_COMMON_CODE_RANGE_H
#define SMOL_COMMON_CODE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
    uint32_t first, last; /* inclusive */
};

/* Returns the first of ranges (n), ascending and disjoint, that does not end before a code point,
 * or n. */
static inline size_t code_ranges_find(const struct code_range *ranges, size_t n,
                                      uint32_t code_point)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns whether one of the ranges contains a code point. */
static inline bool code_ranges_have(const struct code_range *ranges, size_t n, uint32_t code_point)
{
    size_t found = code_ranges_find(ranges, n, code_point);
    return found < n && ranges[found].first <= code_point;
}

/* Reads a number of a packed table and moves *at after it: seven bits in each byte, the lowest
 * first; all bytes but the last have the eighth bit. */
static inline uint32_t packed_number(const uint8_t **at)
{
    uint32_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
        const uint8_t byte = *(*at)++;
        number |= (uint32_t)(byte & 127) << shift;
        if (byte < 128)
            return number;
    }
}

/* A run of characters that have a value in common. */
struct packed_run {
    uint32_t first, last, value;
};

/* Reads the next run of a packed table of runs, ascending: the first and the last character, each
 * as the step from the number before, and the value. *run starts as zeros. Returns false at the
 * end. */
static inline bool packed_run_next(struct packed_run *run, const uint8_t **at, const uint8_t *end)
{
    if (*at == end)
        return false;
    run->first = run->last + packed_number(at);
    run->last = run->first + packed_number(at);
    run->value = packed_number(at);
    return true;
}

/* Returns whether one of the ranges in a packed table, which is not empty, contains a code point:
 * the first and the last code point of each, as the step from the number before. Reads the table up
 * to the code point. */
static inline bool packed_ranges_have(const uint8_t *table, size_t size, uint32_t code_point)
{
    uint32_t first = 0, last = 0;
    const uint8_t *at = table;
    do {
        first = last + packed_number(&at);
        last = first + packed_number(&at);
    } while (at < table + size && last < code_point);
    return first <= code_point && code_point <= last;
}

#endif
