/* Loops and copies that keep small arrays of vectors in registers.
 *
 * UNROLLED is a fully unrolled loop, whose count must be constant after inlining, so that the
 * arrays that it indexes can be kept in registers. LOAD_VECTORS and STORE_VECTORS copy n vectors
 * one by one: of a whole array, gcc makes a copy on the stack in halves, whose reloads wait for the
 * stores. */
#ifndef SMOL_COMMON_UNROLLED_H
#define SMOL_COMMON_UNROLLED_H

#include <string.h>

#if defined(__clang__)
#define UNROLLED(i, n) _Pragma("unroll") for (size_t i = 0; i < (n); i++)
#else
#define UNROLLED(i, n) _Pragma("GCC unroll 32") for (size_t i = 0; i < (n); i++)
#endif

#define LOAD_VECTORS(vectors, n, from)                                                             \
    UNROLLED (v_, n)                                                                               \
    memcpy(&(vectors)[v_], (const char *)(from) + v_ * sizeof *(vectors), sizeof *(vectors))
#define STORE_VECTORS(to, vectors, n)                                                              \
    UNROLLED (v_, n)                                                                               \
    memcpy((char *)(to) + v_ * sizeof *(vectors), &(vectors)[v_], sizeof *(vectors))

#endif
