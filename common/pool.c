/* A team of threads, see pool.h. Both the start of a run and the barrier wait in two steps:
 * spin for a moment, because the next piece of work usually comes within microseconds, then
 * sleep on a condition variable, so that idle threads and crowded machines cost nothing. */
#include "common/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPIN_ROUNDS = 4000 };

/* A counter that threads wait on until it leaves a known value. */
struct signal {
    _Atomic unsigned value;
    _Atomic unsigned sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
};

struct pool {
    unsigned n_threads;
    unsigned n_started;    /* workers that exist */
    struct signal start;   /* one step for each run */
    struct signal barrier; /* one step for each barrier passed */
    _Atomic unsigned arrived;
    bool stopping;
    pool_work *work;
    void *argument;
    struct worker {
        struct pool *pool;
        unsigned thread;
        pthread_t handle;
    } workers[];
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void signal_init(struct signal *signal)
{
    atomic_init(&signal->value, 0);
    atomic_init(&signal->sleepers, 0);
    pthread_mutex_init(&signal->mutex, NULL);
    pthread_cond_init(&signal->condition, NULL);
}

static void signal_destroy(struct signal *signal)
{
    pthread_cond_destroy(&signal->condition);
    pthread_mutex_destroy(&signal->mutex);
}

/* Steps the counter and wakes whoever sleeps. Sequentially consistent, as is the sleeper's
 * side: either we see the sleeper, or it sees the new value. */
static void signal_step(struct signal *signal)
{
    atomic_fetch_add(&signal->value, 1);
    if (atomic_load(&signal->sleepers) == 0)
        return;
    pthread_mutex_lock(&signal->mutex);
    pthread_cond_broadcast(&signal->condition);
    pthread_mutex_unlock(&signal->mutex);
}

static void signal_wait(struct signal *signal, unsigned old)
{
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&signal->value, memory_order_acquire) != old)
            return;
        relax();
    }
    pthread_mutex_lock(&signal->mutex);
    atomic_fetch_add(&signal->sleepers, 1);
    while (atomic_load(&signal->value) == old)
        pthread_cond_wait(&signal->condition, &signal->mutex);
    atomic_fetch_sub(&signal->sleepers, 1);
    pthread_mutex_unlock(&signal->mutex);
}

void smol_pool_barrier(struct pool *pool)
{
    if (pool->n_threads == 1)
        return;
    unsigned old = atomic_load(&pool->barrier.value);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 < pool->n_threads) {
        signal_wait(&pool->barrier, old);
        return;
    }
    atomic_store(&pool->arrived, 0);
    signal_step(&pool->barrier);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    for (unsigned run = 0;; run++) {
        signal_wait(&pool->start, run);
        if (pool->stopping)
            return NULL;
        pool->work(pool->argument, worker->thread, pool->n_threads);
        smol_pool_barrier(pool);
    }
}

enum status smol_pool_create(unsigned n_threads, struct pool **out, struct error *error)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > POOL_MAX_THREADS)
        return smol_fail(error, STATUS_USAGE, "%u threads: use 1 to %d", n_threads,
                         POOL_MAX_THREADS);
    struct pool *pool = calloc(1, sizeof *pool + (n_threads - 1) * sizeof pool->workers[0]);
    if (!pool)
        return smol_fail_memory(error, "threads");
    pool->n_threads = n_threads;
    signal_init(&pool->start);
    signal_init(&pool->barrier);
    for (unsigned i = 0; i + 1 < n_threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->thread = i + 1;
        if (pthread_create(&worker->handle, NULL, worker_main, worker)) {
            smol_pool_destroy(pool);
            return smol_fail(error, STATUS_MEMORY, "cannot start %u threads: use fewer", n_threads);
        }
        pool->n_started++;
    }
    *out = pool;
    return STATUS_OK;
}

void smol_pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pool->stopping = true;
    signal_step(&pool->start);
    for (unsigned i = 0; i < pool->n_started; i++)
        pthread_join(pool->workers[i].handle, NULL);
    signal_destroy(&pool->start);
    signal_destroy(&pool->barrier);
    free(pool);
}

unsigned smol_pool_size(const struct pool *pool)
{
    return pool->n_threads;
}

void smol_pool_run(struct pool *pool, pool_work *work, void *argument)
{
    pool->work = work;
    pool->argument = argument;
    if (pool->n_threads > 1)
        signal_step(&pool->start);
    work(argument, 0, pool->n_threads);
    smol_pool_barrier(pool);
}

unsigned smol_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        return n < 1 ? 1 : n > POOL_MAX_THREADS ? POOL_MAX_THREADS : (unsigned)n;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > POOL_MAX_THREADS ? POOL_MAX_THREADS : (unsigned)n;
}
