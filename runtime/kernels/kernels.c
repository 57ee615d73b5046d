/* Selection of the kernels, see kernels.h. */
#include "runtime/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "common/cpu.h"

static bool always(void)
{
    return true;
}

/* The ladder: of the sets that the machine can run, the last is preferred. */
static const struct rung {
    const struct kernels *kernels;
    bool (*runs)(void);
} ladder[] = {
    {&smol_kernels_scalar, always},
#if defined(__x86_64__)
    {&smol_kernels_avx2, smol_cpu_has_avx2},
    {&smol_kernels_avxvnni, smol_cpu_has_avxvnni},
    {&smol_kernels_avx512, smol_cpu_has_avx512},
    {&smol_kernels_avx512vbmi, smol_cpu_has_avx512vbmi},
#elif defined(__aarch64__)
    {&smol_kernels_neon, always},
    {&smol_kernels_dotprod, smol_cpu_has_dotprod},
    {&smol_kernels_i8mm, smol_cpu_has_i8mm},
#endif
};
enum { LADDER_SIZE = sizeof ladder / sizeof ladder[0] };

const struct kernels *smol_kernels_at(size_t index, bool *runs)
{
    if (index >= LADDER_SIZE)
        return NULL;
    *runs = ladder[index].runs();
    return ladder[index].kernels;
}

static smol_status select_named(const char *name, const struct kernels **kernels, smol_error *error)
{
    for (size_t i = 0; i < LADDER_SIZE; i++) {
        if (strcmp(name, ladder[i].kernels->name))
            continue;
        if (!ladder[i].runs())
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
        if (ladder[i].runs())
            *kernels = ladder[i].kernels;
    return SMOL_OK;
}
