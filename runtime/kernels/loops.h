/* Loops and functions that must become straight code, for the kernels that are written with
 * vectors. */
#ifndef SMOL_RUNTIME_KERNELS_LOOPS_H
#define SMOL_RUNTIME_KERNELS_LOOPS_H

#include <stddef.h>

#include "common/cpu.h"
#include "common/unrolled.h"

/* How far a set's kernels read ahead of weights and of the cache, on other processors than Intel's;
 * 0: not at all. */
#ifndef READ_AHEAD
#define READ_AHEAD 0
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

/* Returns how far to read ahead. Intel's server cores (Emerald Rapids) read what they multiply by
 * one token 1.4 to 1.8 times as fast that way. */
static ALWAYS_INLINE size_t read_ahead(void)
{
    return smol_cpu_has(CPU_INTEL) ? 4096 : READ_AHEAD;
}

/* Asks for the bytes that come `ahead` after p, unless that is 0. */
static ALWAYS_INLINE void prefetch(const void *p, size_t bytes, size_t ahead)
{
    for (size_t i = 0; ahead > 0 && i < bytes; i += 64)
        __builtin_prefetch((const char *)p + ahead + i);
}

#endif
