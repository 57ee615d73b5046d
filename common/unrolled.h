/* A fully unrolled loop, whose count must be constant after inlining, so that the arrays that it
 * indexes can be kept in registers. */
#ifndef SMOL_COMMON_UNROLLED_H
#define SMOL_COMMON_UNROLLED_H

#if defined(__clang__)
#define UNROLLED(i, n) _Pragma("unroll") for (size_t i = 0; i < (n); i++)
#else
#define UNROLLED(i, n) _Pragma("GCC unroll 32") for (size_t i = 0; i < (n); i++)
#endif

#endif
