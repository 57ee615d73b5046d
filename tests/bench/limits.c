/* Measures the machine's limits, see limits.h: the loops of limits_template.h for each instruction
 * set, run by several threads at once. */
#include "tests/bench/limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define UNKNOWN(x) __asm__ volatile("" : "+v"(x));
#elif defined(__aarch64__)
#include <arm_neon.h>
#define UNKNOWN(x) __asm__ volatile("" : "+w"(x));
#else
#error "limits.c knows x86-64 and aarch64"
#endif

/* Sums, each with a name of its own. */
#define EACH_OF_8(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define EACH_OF_12(DO) EACH_OF_8(DO) DO(8) DO(9) DO(10) DO(11)
#define STORE(i) sums[i] = sum##i;

enum {
    MAX_THREADS = 64,
    CHAINS = 12,          /* independent sums: at least latency times throughput on known cores */
    CHUNK = 1 << 20,      /* bytes that a thread claims at a time: enough for prefetching */
    ROUNDS = 500000,      /* of all chains, in an item that a thread claims */
    ITEMS_PER_THREAD = 8, /* some tens of milliseconds */
};

/* The loops of an instruction set; what they return only keeps them from being dropped. */
struct loops {
    const char *key; /* part of the names of the kernel sets that it stands for */
    const char *instructions;
    uint32_t (*read)(const uint8_t *data, size_t size); /* size: a multiple of 512 */
    uint32_t (*f32)(unsigned rounds);
    uint32_t (*int8)(unsigned rounds);
    unsigned f32_lanes, int8_lanes; /* multiply-adds in one step of one chain */
};

static uint32_t fold(const void *sums, size_t size)
{
    uint32_t total = 0, word;
    for (size_t i = 0; i < size; i += sizeof word) {
        memcpy(&word, (const char *)sums + i, sizeof word);
        total += word;
    }
    return total;
}

/* --- instruction sets, the weakest last --------------------------------------------------- */

#if defined(__x86_64__)

#define SET avx512
#define KEY "avx512"
#define INSTRUCTIONS "256-bit loads, 512-bit vfmadd and vpdpbusd"
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))
#define WORDS __m256i /* reads memory faster than 512 bits */
#define INTS __m512i
#define FLOATS __m512
#define INT8_LANES 64
#define LOAD(p) _mm256_loadu_si256(p)
#define ADD(a, b) _mm256_add_epi32(a, b)
#define MULTIPLY_ADD(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#define DOT(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#include "tests/bench/limits_template.h"

#define SET avxvnni
#define KEY "vnni"
#define INSTRUCTIONS "256-bit loads, vfmadd and vpdpbusd"
#define TARGET __attribute__((target("avx2,fma,avxvnni")))
#define WORDS __m256i
#define INTS __m256i
#define FLOATS __m256
#define INT8_LANES 32
#define LOAD(p) _mm256_loadu_si256(p)
#define ADD(a, b) _mm256_add_epi32(a, b)
#define MULTIPLY_ADD(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define DOT(sum, a, b) _mm256_dpbusd_avx_epi32(sum, a, b)
#include "tests/bench/limits_template.h"

#define SET avx2
#define KEY "avx2"
#define INSTRUCTIONS "256-bit loads, vfmadd, vpmaddubsw + vpmaddwd + vpaddd"
#define TARGET __attribute__((target("avx2,fma")))
#define WORDS __m256i
#define INTS __m256i
#define FLOATS __m256
#define INT8_LANES 32
#define LOAD(p) _mm256_loadu_si256(p)
#define ADD(a, b) _mm256_add_epi32(a, b)
#define MULTIPLY_ADD(sum, a, b) _mm256_fmadd_ps(a, b, sum)
#define DOT(sum, a, b)                                                                             \
    _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))
#include "tests/bench/limits_template.h"

#define SET sse2
#define KEY ""
#define INSTRUCTIONS "128-bit loads, mulps + addps, pmaddwd + paddd"
#define TARGET
#define WORDS __m128i
#define INTS __m128i
#define FLOATS __m128
#define INT8_LANES 8
#define LOAD(p) _mm_loadu_si128(p)
#define ADD(a, b) _mm_add_epi32(a, b)
#define MULTIPLY_ADD(sum, a, b) _mm_add_ps(sum, _mm_mul_ps(a, b))
#define DOT(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(a, b))
#include "tests/bench/limits_template.h"

static const struct loops *const all_loops[] = {&loops_avx512, &loops_avxvnni, &loops_avx2,
                                                &loops_sse2};

#else

#define WORDS int8x16_t
#define INTS int8x16_t
#define FLOATS float32x4_t
#define LOAD(p) vld1q_s8(p)
#define ADD(a, b) vaddq_s8(a, b)
#define MULTIPLY_ADD(sum, a, b) vfmaq_f32(sum, a, b)
#define SET dotprod
#define KEY "dot"
#define INSTRUCTIONS "128-bit loads, fmla, sdot"
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#define INT8_LANES 16
#define DOT(sum, a, b) vreinterpretq_s8_s32(vdotq_s32(vreinterpretq_s32_s8(sum), a, b))
#include "tests/bench/limits_template.h"

#define WORDS int8x16_t
#define INTS int8x16_t
#define FLOATS float32x4_t
#define LOAD(p) vld1q_s8(p)
#define ADD(a, b) vaddq_s8(a, b)
#define MULTIPLY_ADD(sum, a, b) vfmaq_f32(sum, a, b)
#define SET neon
#define KEY ""
#define INSTRUCTIONS "128-bit loads, fmla, smull + sadalp"
#define TARGET
#define INT8_LANES 8
#define DOT(sum, a, b)                                                                             \
    vreinterpretq_s8_s32(                                                                          \
        vpadalq_s16(vreinterpretq_s32_s8(sum), vmull_s8(vget_low_s8(a), vget_low_s8(b))))
#include "tests/bench/limits_template.h"

static const struct loops *const all_loops[] = {&loops_dotprod, &loops_neon};

#endif

static const struct loops *loops_for(const char *isa)
{
    size_t i = 0;
    while (!strstr(isa, all_loops[i]->key))
        i++; /* the last key is in every name */
    return all_loops[i];
}

const char *smol_limit_instructions(const char *isa)
{
    return loops_for(isa)->instructions;
}

/* --- threads ------------------------------------------------------------------------------ */

/* Threads claim items until none is left. */
struct job {
    void (*item)(struct job *job, size_t index);
    const struct loops *loops;
    const uint8_t *data; /* of a read */
    size_t size, n_chunks;
    size_t n_items;
    atomic_size_t claimed;
    atomic_uint ready, finished;
    atomic_bool go;
    atomic_uint result; /* so that nothing is dropped */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void work(struct job *job)
{
    size_t index;
    while ((index = atomic_fetch_add(&job->claimed, 1)) < job->n_items)
        job->item(job, index);
}

static void *thread_main(void *argument)
{
    struct job *job = argument;
    atomic_fetch_add(&job->ready, 1);
    while (!atomic_load(&job->go))
        ;
    work(job);
    atomic_fetch_add(&job->finished, 1);
    return NULL;
}

/* Seconds from the moment when all threads are ready until the last item is done, or 0. */
static double run(struct job *job, unsigned n_threads)
{
    pthread_t threads[MAX_THREADS];
    unsigned n_started = 0;
    while (n_started + 1 < n_threads && n_started < MAX_THREADS &&
           !pthread_create(&threads[n_started], NULL, thread_main, job))
        n_started++;
    while (atomic_load(&job->ready) < n_started)
        ;
    double start = now();
    atomic_store(&job->go, true);
    work(job);
    while (atomic_load(&job->finished) < n_started)
        ;
    double seconds = now() - start;
    for (unsigned i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    return n_started + 1 == n_threads ? seconds : 0;
}

/* --- what is measured --------------------------------------------------------------------- */

static void read_chunk(struct job *job, size_t index)
{
    size_t begin = index % job->n_chunks * CHUNK;
    size_t left = job->size - begin;
    atomic_fetch_add(&job->result,
                     job->loops->read(job->data + begin, left < CHUNK ? left : CHUNK));
}

double smol_limit_read(const char *isa, const void *data, size_t size, unsigned n_threads,
                       unsigned passes)
{
    struct job job = {
        .item = read_chunk, .loops = loops_for(isa), .data = data, .size = size / 512 * 512};
    job.n_chunks = (job.size + CHUNK - 1) / CHUNK;
    job.n_items = job.n_chunks * passes;
    return run(&job, n_threads) / passes;
}

static void multiply_f32(struct job *job, size_t index)
{
    (void)index;
    atomic_fetch_add(&job->result, job->loops->f32(ROUNDS));
}

static void multiply_int8(struct job *job, size_t index)
{
    (void)index;
    atomic_fetch_add(&job->result, job->loops->int8(ROUNDS));
}

/* Multiply-adds per second of `n_threads` threads. */
static double rate(struct job *job, unsigned lanes, unsigned n_threads)
{
    job->n_items = (size_t)n_threads * ITEMS_PER_THREAD;
    double seconds = run(job, n_threads);
    return seconds > 0 ? (double)job->n_items * ROUNDS * CHAINS * lanes / seconds : 0;
}

double smol_limit_f32(const char *isa, unsigned n_threads)
{
    struct job job = {.item = multiply_f32, .loops = loops_for(isa)};
    return rate(&job, job.loops->f32_lanes, n_threads);
}

double smol_limit_int8(const char *isa, unsigned n_threads)
{
    struct job job = {.item = multiply_int8, .loops = loops_for(isa)};
    return rate(&job, job.loops->int8_lanes, n_threads);
}
