/* XXH3, see hash.h, compiled for the baseline; hash_avx2.c has the other copy. */
#include "common/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/cpu.h"

uint64_t smol_digest(const void *data, size_t size)
{
#if defined(__x86_64__)
    if (smol_cpu_has(CPU_AVX2))
        return smol_digest_avx2(data, size);
#endif
    return XXH3_64bits(data, size);
}
