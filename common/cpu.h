/* The instruction sets of the processor that this code can use. */
#ifndef SMOL_COMMON_CPU_H
#define SMOL_COMMON_CPU_H

#include <stdbool.h>

/* AVX2 together with FMA and F16C, enabled by the operating system: every AVX2 processor that
 * was ever sold in numbers has all three, so they are one step of the ladder. */
bool smol_cpu_has_avx2(void);

/* AVX-512 F, BW, DQ, VL and VNNI, enabled by the operating system, and AVX2 as above. */
bool smol_cpu_has_avx512(void);

/* The dot products of bytes that Armv8.2 added (SDOT and UDOT), enabled by the operating system. */
bool smol_cpu_has_dotprod(void);

/* The instructions for SHA-256: SHA with SSSE3 on x86-64, SHA2 on aarch64. */
bool smol_cpu_has_sha(void);

#endif
