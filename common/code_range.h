/* Tables of code points. */
#ifndef SMOL_COMMON_CODE_RANGE_H
#define SMOL_COMMON_CODE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_range {
    uint32_t first, last; /* inclusive */
};

/* Returns whether one of ranges (n), ascending and disjoint, contains a code point. */
static inline bool code_ranges_have(const struct code_range *ranges, size_t n, uint32_t code_point)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ranges[low].first <= code_point;
}

#endif
