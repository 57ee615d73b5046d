/* Selection of the kernels, see kernels.h. */
#include "runtime/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "common/cpu.h"

/* The ladder: of the sets that the machine can run, the last is preferred. */
static const struct rung {
    const struct kernels *kernels;
    enum cpu_feature needs;
} ladder[] = {
    {&smol_kernels_scalar, CPU_BASELINE},
#if defined(__x86_64__)
    {&smol_kernels_avx2, CPU_AVX2},       {&smol_kernels_avxvnni, CPU_AVXVNNI},
    {&smol_kernels_avx512, CPU_AVX512},   {&smol_kernels_avx512vbmi, CPU_AVX512VBMI},
    {&smol_kernels_avx512amx, CPU_AMX},
#elif defined(__aarch64__)
    {&smol_kernels_neon, CPU_BASELINE},
    {&smol_kernels_dotprod, CPU_DOTPROD},
    {&smol_kernels_i8mm, CPU_I8MM},
#endif
};
enum { LADDER_SIZE = sizeof ladder / sizeof ladder[0] };

const struct kernels *smol_kernels_at(size_t index, bool *runs)
{
    if (index >= LADDER_SIZE)
        return NULL;
    *runs = smol_cpu_has(ladder[index].needs);
    return ladder[index].kernels;
}

static smol_status select_named(const char *name, const struct kernels **kernels, smol_error *error)
{
    for (size_t i = 0; i < LADDER_SIZE; i++) {
        if (strcmp(name, ladder[i].kernels->name))
            continue;
        if (!smol_cpu_has(ladder[i].needs))
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "SMOL_ISA=%s: this machine cannot run it: unset it", name);
        *kernels = ladder[i].kernels;
        return SMOL_OK;
    }
    return smol_fail(error, SMOL_ERROR_USAGE, "SMOL_ISA=%.40s: no such kernels here: unset it",
                     name);
}

smol_status smol_kernels_select(const struct kernels **kernels, smol_error *error)
{
    const char *name = getenv("SMOL_ISA");
    if (name && name[0])
        return select_named(name, kernels, error);
    for (size_t i = 0; i < LADDER_SIZE; i++)
        if (smol_cpu_has(ladder[i].needs))
            *kernels = ladder[i].kernels;
    return SMOL_OK;
}
