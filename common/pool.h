/* A team of threads that go through the same stages of work together.
 *
 * A stage is a number of items that the threads claim one by one: each takes its own share of them,
 * neighbours in order, then what is left of the others' shares. A stage is over when all its items
 * are done by any thread: no thread waits for one that has no item. So a thread that the
 * system has taken off its processor, or that never woke, holds up nothing, and on a crowded
 * machine a team is as fast as the threads that really run. */
#ifndef SMOL_COMMON_POOL_H
#define SMOL_COMMON_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct pool;

#ifndef SMOL_NO_THREADS
enum { POOL_MAX_THREADS = 256 };
#else
enum { POOL_MAX_THREADS = 1 }; /* pool_alone.c */
#endif

/* A team of `n_threads` (1..POOL_MAX_THREADS), the caller of smol_pool_run included. Its threads
 * get no signals but those of their own faults. Errors: SMOL_ERROR_USAGE, SMOL_ERROR_MEMORY
 * (threads that the system refuses count as memory). */
smol_status smol_pool_create(unsigned n_threads, struct pool **pool, smol_error *error);

/* Ends the threads; NULL is fine. */
void smol_pool_destroy(struct pool *pool);

unsigned smol_pool_size(const struct pool *pool);

/* One thread's place in a run. */
struct pool_thread {
    struct pool *pool;
    unsigned index;     /* 0 is the caller of smol_pool_run */
    unsigned n_threads; /* of the team; fewer may take part in this run */
    uint32_t stage;     /* the one that this thread is at */
};

/* Runs work(argument, thread) on the caller and on every thread that turns up before the caller is
 * done, and returns when all of them are. `work` must go through the same stages on each
 * thread. One run at a time. */
typedef void pool_work(void *argument, struct pool_thread *thread);
void smol_pool_run(struct pool *pool, pool_work *work, void *argument);

/* A stage as one thread sees it:
 *
 *     struct pool_stage stage = pool_stage(thread, n);
 *     while (smol_pool_claim(&stage))
 *         do_item(stage.item);
 *
 * What was written in a stage is seen in the next. */
struct pool_stage {
    struct pool_thread *thread;
    uint32_t n;
    uint32_t item;      /* the last claimed one */
    uint32_t n_claimed; /* by this thread */
};

static inline struct pool_stage pool_stage(struct pool_thread *thread, uint32_t n)
{
    return (struct pool_stage){thread, n, 0, 0};
}

/* Claims an item; the one claimed before is done. When there is none, waits until the stage is over
 * and returns false. */
bool smol_pool_claim(struct pool_stage *stage);

/* The processors that this process may use, at least 1, at most POOL_MAX_THREADS. */
unsigned smol_cpu_count(void);

/* Part `part` of n things cut evenly into n_parts, in order: [*begin, *end). */
static inline void pool_share(size_t n, size_t part, size_t n_parts, size_t *begin, size_t *end)
{
    size_t each = n / n_parts, rest = n % n_parts;
    *begin = part * each + (part < rest ? part : rest);
    *end = *begin + each + (part < rest);
}

#endif
