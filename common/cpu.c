/* Processor features, see cpu.h. */
#include "common/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

/* The features below, as bits of `known`. They are cached because CPUID takes microseconds in a
 * virtual machine, where it traps, and the digest of every chunk needs them. (The compiler's own
 * builtins cache them too, but add 6 KB to recognize every processor model.) */
enum { ASKED = 1, AVX2 = 2, AVX512 = 4, SHA = 8, AVXVNNI = 16, AVX512VBMI = 32 };

/* Returns XCR0, the parts of a thread's state that the operating system saves. */
static unsigned kept_state(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

static int ask(void)
{
    enum { YMM = 0x06, ZMM = 0xe6 }; /* bits of XCR0 */
    const unsigned for_avx2 = bit_AVX | bit_FMA | bit_F16C;
    const unsigned for_avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | (unsigned)bit_AVX512VL;
    const unsigned for_avxvnni = 1u << 4; /* EAX of subleaf 1; older headers lack its name */
    unsigned eax, basic, ebx = 0, ecx = 0, edx, more = 0, unused;
    int found = ASKED;
    if (!__get_cpuid(1, &eax, &ebx, &basic, &edx) ||
        !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return found;
    if (eax >= 1) /* the last subleaf */
        __get_cpuid_count(7, 1, &more, &unused, &unused, &unused);
    unsigned kept = has(basic, bit_OSXSAVE) ? kept_state() : 0;
    if (has(basic, for_avx2) && has(ebx, bit_AVX2) && has(kept, YMM))
        found |= AVX2;
    if (has(found, AVX2) && has(ebx, for_avx512) && has(ecx, bit_AVX512VNNI) && has(kept, ZMM))
        found |= AVX512;
    if (has(found, AVX2) && has(more, for_avxvnni))
        found |= AVXVNNI;
    if (has(found, AVX512) && has(ecx, bit_AVX512VBMI))
        found |= AVX512VBMI;
    if (has(basic, bit_SSSE3) && has(ebx, bit_SHA))
        found |= SHA;
    return found;
}

static bool knows(int feature)
{
    static atomic_int known;
    int features = atomic_load_explicit(&known, memory_order_relaxed);
    if (!features) {
        features = ask();
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return features & feature;
}

bool smol_cpu_has_avx2(void)
{
    return knows(AVX2);
}

bool smol_cpu_has_avx512(void)
{
    return knows(AVX512);
}

bool smol_cpu_has_avxvnni(void)
{
    return knows(AVXVNNI);
}

bool smol_cpu_has_avx512vbmi(void)
{
    return knows(AVX512VBMI);
}

bool smol_cpu_has_sha(void)
{
    return knows(SHA);
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

bool smol_cpu_has_avxvnni(void)
{
    return false;
}

bool smol_cpu_has_avx512vbmi(void)
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

bool smol_cpu_has_i8mm(void)
{
    return smol_cpu_has_dotprod() && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
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

bool smol_cpu_has_i8mm(void)
{
    return false;
}
#endif
