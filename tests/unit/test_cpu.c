/* Tests of processor features: the detected ones are those that the kernel reports. */
#include <stdio.h>
#include <string.h>

#include "common/cpu.h"
#include "tests/unit/unit.h"

/* Returns whether /proc/cpuinfo contains each of `names`, with a space before and after it, in the
 * first line that starts with `key`. */
static bool kernel_says(const char *key, const char *const *names)
{
    static char line[1 << 14];
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        skip();
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, key, strlen(key)) == 0;
    fclose(file);
    assert_true(found);
    line[strcspn(line, "\n")] = ' ';
    for (; *names; names++)
        if (!strstr(line, *names))
            return false;
    return true;
}

TEST(features_are_the_kernels)
{
#if defined(__x86_64__)
    static const char *const avx2[] = {" avx2 ", " fma ", " f16c ", NULL};
    static const char *const avx512[] = {" avx512f ",  " avx512bw ",    " avx512dq ",
                                         " avx512vl ", " avx512_vnni ", NULL};
    static const char *const avxvnni[] = {" avx_vnni ", NULL};
    static const char *const vbmi[] = {" avx512vbmi ", NULL};
    static const char *const amx[] = {" amx_tile ", " amx_int8 ", NULL};
    static const char *const sha[] = {" ssse3 ", " sha_ni ", NULL};
    assert_int_equal(smol_cpu_has(CPU_AVX2), kernel_says("flags", avx2));
    assert_int_equal(smol_cpu_has(CPU_AVX512),
                     kernel_says("flags", avx2) && kernel_says("flags", avx512));
    assert_int_equal(smol_cpu_has(CPU_AVXVNNI),
                     kernel_says("flags", avx2) && kernel_says("flags", avxvnni));
    assert_int_equal(smol_cpu_has(CPU_AVX512VBMI),
                     smol_cpu_has(CPU_AVX512) && kernel_says("flags", vbmi));
    assert_int_equal(smol_cpu_has(CPU_AMX),
                     smol_cpu_has(CPU_AVX512VBMI) && kernel_says("flags", amx));
    assert_int_equal(smol_cpu_has(CPU_SHA), kernel_says("flags", sha));
#elif defined(__aarch64__)
    static const char *const dotprod[] = {" asimddp ", NULL};
    static const char *const i8mm[] = {" i8mm ", NULL};
    static const char *const sha[] = {" sha2 ", NULL};
    assert_int_equal(smol_cpu_has(CPU_DOTPROD), kernel_says("Features", dotprod));
    assert_int_equal(smol_cpu_has(CPU_I8MM),
                     kernel_says("Features", dotprod) && kernel_says("Features", i8mm));
    assert_int_equal(smol_cpu_has(CPU_SHA), kernel_says("Features", sha));
#else
    assert_false(smol_cpu_has(CPU_AVX2) || smol_cpu_has(CPU_AVXVNNI) || smol_cpu_has(CPU_AVX512) ||
                 smol_cpu_has(CPU_AVX512VBMI) || smol_cpu_has(CPU_AMX) ||
                 smol_cpu_has(CPU_DOTPROD) || smol_cpu_has(CPU_I8MM));
#endif
}

int main(void)
{
    return run_all_tests("cpu", NULL, NULL);
}
