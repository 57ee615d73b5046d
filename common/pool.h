/* A team of threads that pass through the same stages of work together.
 *
 * A stage is a number of items that the threads claim one by one: each takes the items of its own
 * share in order, then the remaining ones of other shares. A stage is over when all its items are
 * done, by any thread; no thread waits for one that has no item. A thread that the system has
 * suspended, or that has not started yet, therefore delays nothing, and on a crowded machine a team
 * is as fast as the threads that actually run. */
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

/* Creates a team of `n_threads` (1..POOL_MAX_THREADS), including the caller of smol_pool_run. Its
 * threads receive no signals except those of their own faults. Errors: SMOL_ERROR_USAGE,
 * SMOL_ERROR_MEMORY (also if the system refuses to create a thread). */
smol_status smol_pool_create(unsigned n_threads, struct pool **pool, smol_error *error);

/* Ends the threads. NULL is allowed. */
void smol_pool_destroy(struct pool *pool);

unsigned smol_pool_size(const struct pool *pool);

/* One thread's state in a run. */
struct pool_thread {
    struct pool *pool;
    unsigned index;     /* 0 is the caller of smol_pool_run */
    unsigned n_threads; /* in the team; fewer may take part in this run */
    uint32_t stage;     /* number of this thread's current stage */
};

/* Runs work(argument, thread) on the caller and on every thread that joins before the caller is
 * done, and returns when all of them are done. `work` must pass through the same stages on each
 * thread. A thread may come late, to stages that the others completed: which stages there are, and
 * which of them have items, must not depend on what stages write. Only one run may be active. */
typedef void pool_work(void *argument, struct pool_thread *thread);
void smol_pool_run(struct pool *pool, pool_work *work, void *argument);

/* A stage from the point of view of one thread:
 *
 *     struct pool_stage stage = pool_stage(thread, n);
 *     while (smol_pool_claim(&stage))
 *         do_item(stage.item);
 *
 * Data written in one stage is visible in the next. */
struct pool_stage {
    struct pool_thread *thread;
    uint32_t n;
    uint32_t item;      /* the last claimed item */
    uint32_t n_claimed; /* items claimed by this thread */
};

static inline struct pool_stage pool_stage(struct pool_thread *thread, uint32_t n)
{
    return (struct pool_stage){thread, n, 0, 0};
}

/* Claims an item; the previously claimed one counts as done. If none is left, waits until the stage
 * is over and returns false. */
bool smol_pool_claim(struct pool_stage *stage);

/* Returns the number of processors that this process may use, from 1 to POOL_MAX_THREADS. */
unsigned smol_cpu_count(void);

/* Sets [*begin, *end) to part `part` of n things divided evenly into n_parts, in order. */
static inline void pool_share(size_t n, size_t part, size_t n_parts, size_t *begin, size_t *end)
{
    size_t each = n / n_parts, rest = n % n_parts;
    *begin = part * each + (part < rest ? part : rest);
    *end = *begin + each + (part < rest);
}

#endif
