/* The instruction sets of the processor that this code can use. */
#ifndef SMOL_COMMON_CPU_H
#define SMOL_COMMON_CPU_H

#include <stdbool.h>

/* Returns whether AVX2, FMA and F16C are present and enabled by the operating system. Every
 * widespread AVX2 processor has all three, so they are one step of the ladder. */
bool smol_cpu_has_avx2(void);

/* Returns whether AVX-512 F, BW, DQ, VL and VNNI, and AVX2 as above, are present and enabled by the
 * operating system. */
bool smol_cpu_has_avx512(void);

/* Returns whether AVX-VNNI (dot products of bytes in 256-bit vectors), and AVX2 as above, are
 * present and enabled by the operating system. */
bool smol_cpu_has_avxvnni(void);

/* Returns whether AVX-512 VBMI, and AVX-512 as above, are present and enabled by the operating
 * system. */
bool smol_cpu_has_avx512vbmi(void);

/* The best version of a function that is compiled for several instruction sets: name_avx512,
 * name_avx2 (on x86-64) and name_baseline. */
#if defined(__x86_64__)
#define CPU_BEST(name)                                                                             \
    (smol_cpu_has_avx512() ? name##_avx512 : smol_cpu_has_avx2() ? name##_avx2 : name##_baseline)
#else
#define CPU_BEST(name) name##_baseline
#endif

/* Returns whether the dot products of bytes from Armv8.2 (SDOT and UDOT) are present and enabled by
 * the operating system. */
bool smol_cpu_has_dotprod(void);

/* Returns whether the products of matrices of bytes from Armv8.6 (SMMLA), and dot products as
 * above, are present and enabled by the operating system. */
bool smol_cpu_has_i8mm(void);

/* Returns whether the instructions for SHA-256 are present: SHA with SSSE3 on x86-64, SHA2 on
 * aarch64. */
bool smol_cpu_has_sha(void);

#endif
