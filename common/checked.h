/* Checks of numbers and bytes from files. */
#ifndef SMOL_COMMON_CHECKED_H
#define SMOL_COMMON_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Sets *out = a * b. Returns false if the product does not fit. */
static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Sets *out = a + b. Returns false if the sum does not fit. */
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Returns whether [offset, offset + size) lies within [0, limit). */
static inline bool range_within(uint64_t offset, uint64_t size, uint64_t limit)
{
    return offset <= limit && size <= limit - offset;
}

/* Returns whether an object can have this many bytes. With a 32-bit size_t, sums and products of
 * valid sizes may be too large. */
static inline bool fits_memory(uint64_t size)
{
    return size <= SIZE_MAX / 2;
}

/* Returns whether all bytes are zero: the first byte is 0, and each byte equals the next. memcmp
 * compares many at a time. */
static inline bool all_zero(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Returns `value` rounded up to a multiple of `unit`. The result must fit. */
static inline uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

#endif
