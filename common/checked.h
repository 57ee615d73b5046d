/* Arithmetic on sizes that come from files: every operation says whether it overflowed. */
#ifndef SMOL_COMMON_CHECKED_H
#define SMOL_COMMON_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* *out = a * b; false when the product does not fit. */
static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = a + b; false when the sum does not fit. */
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Whether [offset, offset + size) lies within [0, limit). */
static inline bool range_within(uint64_t offset, uint64_t size, uint64_t limit)
{
    return offset <= limit && size <= limit - offset;
}

/* Whether there can be so many bytes in one piece: where size_t has 32 bits, sums and products of
 * sizes that are sound by themselves may be more than that. */
static inline bool fits_memory(uint64_t size)
{
    return size <= SIZE_MAX / 2;
}

/* `value` rounded up to a multiple of `unit`; the caller knows that the result fits. */
static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

#endif
