/* The ends of names. */
#ifndef SMOL_CONVERT_BASE_ENDING_H
#define SMOL_CONVERT_BASE_ENDING_H

#include <stdbool.h>
#include <string.h>

static inline bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

#endif
