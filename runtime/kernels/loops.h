/* Loops and functions that must become straight code, for the kernels that are written with
 * vectors. */
#ifndef SMOL_RUNTIME_KERNELS_LOOPS_H
#define SMOL_RUNTIME_KERNELS_LOOPS_H

#include <stddef.h>

#include "common/unrolled.h"

/* How far a set's kernels read ahead of weights and of the cache; 0: not at all. */
#ifndef PREFETCH_BYTES
#define PREFETCH_BYTES 0
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))
/* An unrolled loop whose count is a parameter of at most `limit`: clang unrolls before it inlines
 * and requires a constant. */
#define UNROLLED_UPTO(i, n, limit)                                                                 \
    UNROLLED (i, limit)                                                                            \
        if (i < (n))
/* A function that is large and called from several places: gcc would copy it for each. */
#if defined(__clang__)
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

/* Asks for the bytes that come PREFETCH_BYTES after p, which are read once. */
static ALWAYS_INLINE void prefetch(const void *p, size_t bytes)
{
    for (size_t i = 0; PREFETCH_BYTES > 0 && i < bytes; i += 64)
        __builtin_prefetch((const char *)p + PREFETCH_BYTES + i);
}

#endif
