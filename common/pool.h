/* A fixed team of threads that run one function together. */
#ifndef SMOL_COMMON_POOL_H
#define SMOL_COMMON_POOL_H

#include <stddef.h>

#include "common/error.h"

struct pool;

/* A team of `n_threads` (1..POOL_MAX_THREADS), the caller of smol_pool_run included.
 * Errors: STATUS_MEMORY (threads that the system refuses count as memory). */
enum { POOL_MAX_THREADS = 256 };
enum status smol_pool_create(unsigned n_threads, struct pool **pool, struct error *error);

/* Ends the threads; NULL is fine. */
void smol_pool_destroy(struct pool *pool);

unsigned smol_pool_size(const struct pool *pool);

/* Runs work(argument, thread, n_threads) once on every thread, thread = 0 being the caller, and
 * returns when all are done. One run at a time. */
typedef void pool_work(void *argument, unsigned thread, unsigned n_threads);
void smol_pool_run(struct pool *pool, pool_work *work, void *argument);

/* Within a run: waits until every thread of the team has come here. What was written before is
 * seen after. */
void smol_pool_barrier(struct pool *pool);

/* The processors that this process may use, at least 1, at most POOL_MAX_THREADS. */
unsigned smol_cpu_count(void);

/* The part of `n` items that belongs to `thread`: [*begin, *end), in order and evenly. */
static inline void pool_share(size_t n, unsigned thread, unsigned n_threads, size_t *begin,
                              size_t *end)
{
    size_t each = n / n_threads, rest = n % n_threads;
    *begin = thread * each + (thread < rest ? thread : rest);
    *end = *begin + each + (thread < rest);
}

#endif
