/* A team of threads, see pool.h. A thread waits in two steps. It first spins for a moment, because
 * the next work usually arrives within microseconds, then sleeps on a condition variable, so that
 * idle threads and crowded machines use no processor time. */
#ifndef SMOL_NO_THREADS
#include "common/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/memory.h"

enum { SPIN_ROUNDS = 2000 };

/* Threads sleep here until a condition that they wait for may have changed. */
struct bell {
    atomic_uint sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
};

/* The state of runs in one word: the number of the run, whether workers may still join it, and how
 * many are in it. */
#define RUN_ONE ((uint64_t)1 << 32)
#define RUN_OPEN ((uint64_t)1 << 31)
#define RUN_INSIDE (RUN_OPEN - 1)

enum { CACHE_LINE = 64 };

/* The number of claimed items in a thread's share: stage << 32 | count. */
struct stage_cursor {
    _Alignas(CACHE_LINE) _Atomic uint64_t claimed;
};

struct pool {
    unsigned n_threads;
    unsigned n_started;   /* workers that exist */
    _Atomic uint64_t run; /* see RUN_ONE */
    atomic_uint stage;    /* number of the open stage */
    atomic_uint done;     /* finished items of that stage */
    atomic_bool stopping;
    struct stage_cursor *cursors; /* (n_threads) */
    struct bell start;            /* rung when a run opens or the pool ends */
    struct bell over;             /* rung when a stage is over or the last worker leaves a run */
    pool_work *work;
    void *argument;
    struct worker {
        struct pool *pool;
        unsigned index;
        pthread_t handle;
    } workers[];
};

/* --- waiting ------------------------------------------------------------------------------ */

static void bell_init(struct bell *bell)
{
    /* assigned by value, which cannot fail, unlike the init functions */
    const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    atomic_init(&bell->sleepers, 0);
    bell->mutex = mutex;
    bell->condition = condition;
}

static void bell_destroy(struct bell *bell)
{
    pthread_cond_destroy(&bell->condition);
    pthread_mutex_destroy(&bell->mutex);
}

/* Wakes the sleepers. Call it after the change. The change and the check for sleepers are
 * sequentially consistent, as is the sleeper's side: either this thread sees the sleeper, or the
 * sleeper sees the change. */
static void bell_ring(struct bell *bell)
{
    if (atomic_load(&bell->sleepers) == 0)
        return;
    pthread_mutex_lock(&bell->mutex);
    pthread_cond_broadcast(&bell->condition);
    pthread_mutex_unlock(&bell->mutex);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns when is_true(pool, value). Every change that can make it true must ring the bell. */
static void wait_until(struct pool *pool, struct bell *bell,
                       bool (*is_true)(struct pool *pool, uint32_t value), uint32_t value)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (is_true(pool, value))
            return;
        relax();
    }
    pthread_mutex_lock(&bell->mutex);
    atomic_fetch_add(&bell->sleepers, 1);
    while (!is_true(pool, value))
        pthread_cond_wait(&bell->condition, &bell->mutex);
    atomic_fetch_sub(&bell->sleepers, 1);
    pthread_mutex_unlock(&bell->mutex);
}

/* --- stages ------------------------------------------------------------------------------- */

static bool stage_is_over(struct pool *pool, uint32_t stage)
{
    return atomic_load(&pool->stage) != stage;
}

static void open_stage(struct pool *pool, uint32_t stage)
{
    atomic_store(&pool->done, 0);
    for (unsigned i = 0; i < pool->n_threads; i++)
        atomic_store(&pool->cursors[i].claimed, (uint64_t)stage << 32);
    atomic_store(&pool->stage, stage);
}

/* Claims the next item in the share of thread `owner`. Returns false if none is left. */
static bool claim_from(struct pool_stage *stage, unsigned owner)
{
    struct pool_thread *thread = stage->thread;
    _Atomic uint64_t *claimed = &thread->pool->cursors[owner].claimed;
    size_t begin, end;
    pool_share(stage->n, owner, thread->n_threads, &begin, &end);
    if (begin == end)
        return false; /* does not touch the owner's cache line */
    uint64_t now = atomic_load(claimed);
    while (now >> 32 == thread->stage && (uint32_t)now < end - begin) {
        if (!atomic_compare_exchange_weak(claimed, &now, now + 1))
            continue;
        stage->item = (uint32_t)begin + (uint32_t)now;
        stage->n_claimed++;
        return true;
    }
    return false;
}

/* Adds this thread's items to the finished ones, after all items are claimed. The thread that
 * completes the stage opens the next one. */
static void finish_stage(struct pool_stage *stage)
{
    struct pool *pool = stage->thread->pool;
    if (stage->n_claimed == 0 ||
        atomic_fetch_add(&pool->done, stage->n_claimed) + stage->n_claimed < stage->n)
        return;
    open_stage(pool, stage->thread->stage + 1);
    bell_ring(&pool->over);
}

bool smol_pool_claim(struct pool_stage *stage)
{
    struct pool_thread *thread = stage->thread;
    if (stage->n == 0)
        return false; /* no thread could open the next stage, so an empty stage has no number */
    for (unsigned i = 0; i < thread->n_threads; i++)
        if (claim_from(stage, (thread->index + i) % thread->n_threads))
            return true;
    finish_stage(stage);
    if (!stage_is_over(thread->pool, thread->stage))
        wait_until(thread->pool, &thread->pool->over, stage_is_over, thread->stage);
    thread->stage++;
    return false;
}

/* --- runs --------------------------------------------------------------------------------- */

/* Returns whether a run other than number `seen` is open, or the pool is ending. */
static bool has_news(struct pool *pool, uint32_t seen)
{
    uint64_t run = atomic_load(&pool->run);
    return ((run & RUN_OPEN) && (uint32_t)(run >> 32) != seen) || atomic_load(&pool->stopping);
}

/* Joins the run if it is still open, and sets *seen to its number. */
static bool enter(struct pool *pool, uint32_t *seen)
{
    uint64_t run = atomic_load(&pool->run);
    while (run & RUN_OPEN) {
        if (!atomic_compare_exchange_weak(&pool->run, &run, run + 1))
            continue;
        *seen = (uint32_t)(run >> 32);
        return true;
    }
    return false;
}

static void leave(struct pool *pool)
{
    if ((atomic_fetch_sub(&pool->run, 1) & RUN_INSIDE) == 1)
        bell_ring(&pool->over);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    uint32_t seen = 0;
    for (;;) {
        wait_until(pool, &pool->start, has_news, seen);
        if (atomic_load(&pool->stopping))
            return NULL;
        if (!enter(pool, &seen))
            continue;
        struct pool_thread thread = {pool, worker->index, pool->n_threads, 0};
        pool->work(pool->argument, &thread);
        leave(pool);
    }
}

static bool all_have_left(struct pool *pool, uint32_t unused)
{
    (void)unused;
    return (atomic_load(&pool->run) & RUN_INSIDE) == 0;
}

void smol_pool_run(struct pool *pool, pool_work *work, void *argument)
{
    struct pool_thread thread = {pool, 0, pool->n_threads, 0};
    pool->work = work;
    pool->argument = argument;
    open_stage(pool, 0);
    if (pool->n_threads == 1) {
        work(argument, &thread);
        return;
    }
    uint64_t next = (atomic_load(&pool->run) & ~(RUN_ONE - 1)) + RUN_ONE;
    atomic_store(&pool->run, next | RUN_OPEN);
    bell_ring(&pool->start);
    work(argument, &thread);
    atomic_fetch_and(&pool->run, ~RUN_OPEN);
    wait_until(pool, &pool->over, all_have_left, 0);
}

/* --- creation and destruction ------------------------------------------------------------ */

/* Starts a worker with all signals blocked except those that its own faults raise, which cannot be
 * blocked safely. Other signals belong to the program's threads, because the program may depend on
 * where its handlers run. */
static int start_thread(struct worker *worker)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t set, old;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&set, faults[i]);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    int failed = pthread_create(&worker->handle, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

smol_status smol_pool_create(unsigned n_threads, struct pool **out, smol_error *error)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > POOL_MAX_THREADS)
        return smol_fail(error, SMOL_ERROR_USAGE, "%u threads: must be from 1 to %d", n_threads,
                         POOL_MAX_THREADS);
    struct pool *pool = smol_calloc(1, sizeof *pool + (n_threads - 1) * sizeof pool->workers[0]);
    if (pool)
        pool->cursors = smol_aligned_alloc(CACHE_LINE, n_threads * sizeof pool->cursors[0]);
    if (!pool || !pool->cursors) {
        smol_free(pool);
        return smol_fail_memory(error, "threads");
    }
    pool->n_threads = n_threads;
    bell_init(&pool->start);
    bell_init(&pool->over);
    for (unsigned i = 0; i + 1 < n_threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->index = i + 1;
        if (start_thread(worker)) {
            smol_pool_destroy(pool);
            return smol_fail(error, SMOL_ERROR_MEMORY, "cannot start %u threads: use fewer",
                             n_threads);
        }
        pool->n_started++;
    }
    *out = pool;
    return SMOL_OK;
}

void smol_pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stopping, true);
    bell_ring(&pool->start);
    for (unsigned i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].handle, NULL);
    bell_destroy(&pool->start);
    bell_destroy(&pool->over);
    smol_free(pool->cursors);
    smol_free(pool);
}

unsigned smol_pool_size(const struct pool *pool)
{
    return pool->n_threads;
}

unsigned smol_cpu_count(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                        : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > POOL_MAX_THREADS ? POOL_MAX_THREADS : (unsigned)n;
}
#endif
