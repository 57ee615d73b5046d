/* Processor features, see cpu.h. */
#include "common/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

/* Asked once: CPUID takes microseconds in a virtual machine, where it traps, and every digest of
 * a chunk asks. (The builtins below remember their answers; not all compilers have one for this.)
 */
static bool has_f16c(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int known = UNKNOWN;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        unsigned eax, ebx, ecx, edx;
        answer = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

bool smol_cpu_has_avx2(void)
{
    /* the builtin asks the operating system for YMM state too */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool smol_cpu_has_avx512(void)
{
    return smol_cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

bool smol_cpu_has_sha(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("ssse3") && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (ebx & bit_SHA);
}
#else
bool smol_cpu_has_avx2(void)
{
    return false;
}

bool smol_cpu_has_avx512(void)
{
    return false;
}
#endif

#if defined(__aarch64__)
#include <sys/auxv.h>

bool smol_cpu_has_dotprod(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}

bool smol_cpu_has_sha(void)
{
    return getauxval(AT_HWCAP) & HWCAP_SHA2;
}
#else
bool smol_cpu_has_dotprod(void)
{
    return false;
}
#endif
