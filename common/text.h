/* Small questions about texts. */
#ifndef SMOL_COMMON_TEXT_H
#define SMOL_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool is_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

/* Returns the value of a hexadecimal digit, or -1. */
static inline int hex_value(uint32_t c)
{
    uint32_t lower = c | 0x20;
    return is_digit(c)                    ? (int)(c - '0')
           : lower >= 'a' && lower <= 'f' ? (int)(lower - 'a' + 10)
                                          : -1;
}

static inline bool bytes_end_with(const char *bytes, size_t n, const char *end)
{
    size_t n_end = strlen(end);
    return n >= n_end && memcmp(bytes + n - n_end, end, n_end) == 0;
}

static inline bool ends_with(const char *text, const char *end)
{
    return bytes_end_with(text, strlen(text), end);
}

static inline bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Orders texts by their bytes; the beginning of another one comes before it. */
static inline int compare_texts(const void *a, size_t n_a, const void *b, size_t n_b)
{
    size_t n = n_a < n_b ? n_a : n_b;
    int order = n > 0 ? memcmp(a, b, n) : 0;
    return order ? order : (n_a > n_b) - (n_a < n_b);
}

#endif
