/* Loops and functions that must become straight code, for the kernels that are written with
 * vectors. */
#ifndef SMOL_RUNTIME_KERNELS_LOOPS_H
#define SMOL_RUNTIME_KERNELS_LOOPS_H

#include "common/unrolled.h"

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

#endif
