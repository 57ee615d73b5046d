/* A team of one, see pool.h, for builds without threads (make THREADS=no). The caller is the only
 * thread and takes the items in order. */
#ifdef SMOL_NO_THREADS
#include "common/pool.h"

#include "common/memory.h"

struct pool {
    unsigned n_threads; /* 1 */
};

smol_status smol_pool_create(unsigned n_threads, struct pool **out, smol_error *error)
{
    *out = NULL;
    if (n_threads != 1)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%u threads: this build has no threads of its own: use 1", n_threads);
    struct pool *pool = smol_malloc(sizeof *pool);
    if (!pool)
        return smol_fail_memory(error, "threads");
    pool->n_threads = 1;
    *out = pool;
    return SMOL_OK;
}

void smol_pool_destroy(struct pool *pool)
{
    smol_free(pool);
}

unsigned smol_pool_size(const struct pool *pool)
{
    return pool->n_threads;
}

void smol_pool_run(struct pool *pool, pool_work *work, void *argument)
{
    struct pool_thread thread = {pool, 0, 1, 0};
    work(argument, &thread);
}

bool smol_pool_claim(struct pool_stage *stage)
{
    stage->item = stage->n_claimed;
    return stage->n_claimed++ < stage->n;
}

unsigned smol_cpu_count(void)
{
    return 1;
}
#endif
