/* The instruction sets of the processor that this code can use. */
#ifndef SMOL_COMMON_CPU_H
#define SMOL_COMMON_CPU_H

#include <stdbool.h>

/* A feature is present if the operating system has enabled it too. */
enum cpu_feature {
    CPU_BASELINE = 0,
    /* x86-64. Every widespread AVX2 processor has the first three, so they are one step of the
     * ladder. */
    CPU_AVX2 = 1,       /* AVX2, FMA and F16C */
    CPU_AVX512 = 2,     /* AVX-512 F, BW, DQ, VL and VNNI, and AVX2 as above */
    CPU_AVXVNNI = 4,    /* dot products of bytes in 256-bit vectors, and AVX2 as above */
    CPU_AVX512VBMI = 8, /* and AVX-512 as above */
    CPU_INTEL = 128,    /* made by Intel */
    CPU_AMX = 256,      /* products of tiles of bytes, and AVX-512 with VBMI as above */
    /* aarch64 */
    CPU_DOTPROD = 16, /* dot products of bytes from Armv8.2 (SDOT and UDOT) */
    CPU_I8MM = 32,    /* products of matrices of bytes from Armv8.6 (SMMLA), and dot products */
    /* both: the instructions for SHA-256, SHA with SSSE3 or SHA2 */
    CPU_SHA = 64,
};

bool smol_cpu_has(enum cpu_feature feature);

/* The best version of a function that is compiled for several instruction sets: name_avx512,
 * name_avx2 (on x86-64) and name_baseline. */
#if defined(__x86_64__)
#define CPU_BEST(name)                                                                             \
    (smol_cpu_has(CPU_AVX512) ? name##_avx512                                                      \
     : smol_cpu_has(CPU_AVX2) ? name##_avx2                                                        \
                              : name##_baseline)
#else
#define CPU_BEST(name) name##_baseline
#endif

#endif
