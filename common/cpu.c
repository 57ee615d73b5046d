/* Processor features, see cpu.h. */
#include "common/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
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
