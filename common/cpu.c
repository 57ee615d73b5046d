/* Processor features, see cpu.h. */
#include "common/cpu.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Asks Linux for the state of tiles, 8 KB of a thread that uses them. Returns whether it grants it.
 */
static bool may_use_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
#if defined(__linux__)
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static int ask(void)
{
    enum { YMM = 0x06, ZMM = 0xe6, TILES = 0x60000 }; /* bits of XCR0 */
    const unsigned for_avx2 = bit_AVX | bit_FMA | bit_F16C;
    const unsigned for_avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | (unsigned)bit_AVX512VL;
    const unsigned for_amx = 1u << 24 | 1u << 25; /* AMX-TILE, AMX-INT8 */
    const unsigned for_avxvnni = 1u << 4; /* EAX of subleaf 1; older headers lack its name */
    unsigned eax, basic, ebx = 0, ecx = 0, edx, seven_edx, more = 0, unused;
    int found = 0;
    if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx == signature_INTEL_ebx)
        found |= CPU_INTEL;
    if (!__get_cpuid(1, &eax, &ebx, &basic, &edx) ||
        !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &seven_edx))
        return found;
    if (eax >= 1) /* the last subleaf */
        __get_cpuid_count(7, 1, &more, &unused, &unused, &unused);
    unsigned kept = has(basic, bit_OSXSAVE) ? kept_state() : 0;
    if (has(basic, for_avx2) && has(ebx, bit_AVX2) && has(kept, YMM))
        found |= CPU_AVX2;
    if (has(found, CPU_AVX2) && has(ebx, for_avx512) && has(ecx, bit_AVX512VNNI) && has(kept, ZMM))
        found |= CPU_AVX512;
    if (has(found, CPU_AVX2) && has(more, for_avxvnni))
        found |= CPU_AVXVNNI;
    if (has(found, CPU_AVX512) && has(ecx, bit_AVX512VBMI))
        found |= CPU_AVX512VBMI;
    if (has(found, CPU_AVX512VBMI) && has(seven_edx, for_amx) && has(kept, TILES) &&
        may_use_tiles())
        found |= CPU_AMX;
    if (has(basic, bit_SSSE3) && has(ebx, bit_SHA))
        found |= CPU_SHA;
    return found;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

static int ask(void)
{
    unsigned long features = getauxval(AT_HWCAP);
    int found = features & HWCAP_SHA2 ? CPU_SHA : 0;
    if (features & HWCAP_ASIMDDP)
        found |= getauxval(AT_HWCAP2) & HWCAP2_I8MM ? CPU_DOTPROD | CPU_I8MM : CPU_DOTPROD;
    return found;
}
#else
static int ask(void)
{
    return 0;
}
#endif

/* Keeps the answer because CPUID takes microseconds in a virtual machine, where it traps, and the
 * digest of every chunk needs it. (The compiler's own builtins keep it too, but add 6 KB to
 * recognize every processor model.) */
bool smol_cpu_has(enum cpu_feature feature)
{
    enum { ASKED = 512 };
    static atomic_int known;
    int features = atomic_load_explicit(&known, memory_order_relaxed);
    if (!features) {
        features = ask() | ASKED;
        atomic_store_explicit(&known, features, memory_order_relaxed);
    }
    return (features & (int)feature) == (int)feature;
}
