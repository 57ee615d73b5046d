/* The team of threads: every share is run once, barriers order writes, and teams come and go.
 * Written to be run under the thread sanitizer too: plain variables, ordered by the pool alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pool.h"

static const unsigned sizes[] = {1, 2, 3, 7, 64};
enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_ITEMS = 1000 };

static struct error error;

static struct pool *make_pool(unsigned n_threads)
{
    struct pool *pool;
    if (smol_pool_create(n_threads, &pool, &error))
        fail_msg("%s", error.message);
    return pool;
}

/* ---- shares ---- */

static void shares_cover_every_item_once_in_order_and_evenly(void **state)
{
    (void)state;
    for (size_t n = 0; n < 200; n++)
        for (unsigned n_threads = 1; n_threads <= 70; n_threads++) {
            size_t next = 0;
            for (unsigned thread = 0; thread < n_threads; thread++) {
                size_t begin, end;
                pool_share(n, thread, n_threads, &begin, &end);
                assert_int_equal(begin, next);
                assert_true(end - begin == n / n_threads || end - begin == n / n_threads + 1);
                next = end;
            }
            assert_int_equal(next, n);
        }
}

static void shares_of_huge_counts_do_not_overflow(void **state)
{
    (void)state;
    size_t begin, end;
    pool_share(SIZE_MAX, POOL_MAX_THREADS - 1, POOL_MAX_THREADS, &begin, &end);
    assert_true(end == SIZE_MAX);
    assert_true(end - begin == SIZE_MAX / POOL_MAX_THREADS);
}

/* ---- runs ---- */

struct count {
    unsigned n_threads;
    uint32_t calls[POOL_MAX_THREADS];
    uint32_t items[N_ITEMS];
    pthread_t handles[POOL_MAX_THREADS];
};

static void count_items(void *argument, unsigned thread, unsigned n_threads)
{
    struct count *count = argument;
    size_t begin, end;
    count->calls[thread]++;
    count->handles[thread] = pthread_self();
    if (n_threads != count->n_threads)
        return; /* the caller finds the items missing */
    pool_share(N_ITEMS, thread, n_threads, &begin, &end);
    for (size_t i = begin; i < end; i++)
        count->items[i]++;
}

static void every_thread_runs_once_per_run(void **state)
{
    (void)state;
    enum { RUNS = 30 };
    for (size_t s = 0; s < N_SIZES; s++) {
        struct pool *pool = make_pool(sizes[s]);
        struct count count = {.n_threads = sizes[s]};
        assert_int_equal(smol_pool_size(pool), sizes[s]);
        for (uint32_t run = 1; run <= RUNS; run++) {
            smol_pool_run(pool, count_items, &count);
            for (unsigned thread = 0; thread < sizes[s]; thread++)
                assert_int_equal(count.calls[thread], run);
            for (size_t i = 0; i < N_ITEMS; i++)
                assert_int_equal(count.items[i], run);
        }
        smol_pool_destroy(pool);
    }
}

static void thread_0_is_the_caller_and_the_others_are_not(void **state)
{
    (void)state;
    struct pool *pool = make_pool(7);
    struct count count = {.n_threads = 7};
    smol_pool_run(pool, count_items, &count);
    assert_true(pthread_equal(count.handles[0], pthread_self()));
    for (unsigned a = 0; a < 7; a++)
        for (unsigned b = 0; b < a; b++)
            assert_false(pthread_equal(count.handles[a], count.handles[b]));
    smol_pool_destroy(pool);
}

static void the_last_of_many_runs_is_as_good_as_the_first(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    struct pool *pool = make_pool(2);
    struct count count = {.n_threads = 2};
    for (uint32_t run = 1; run <= RUNS; run++)
        smol_pool_run(pool, count_items, &count);
    for (size_t i = 0; i < N_ITEMS; i++)
        assert_int_equal(count.items[i], RUNS);
    smol_pool_destroy(pool);
}

static void workers_that_slept_wake_for_the_next_run(void **state)
{
    (void)state;
    struct pool *pool = make_pool(4);
    struct count count = {.n_threads = 4};
    for (uint32_t run = 1; run <= 5; run++) {
        usleep(20000); /* far beyond the time that they spin */
        smol_pool_run(pool, count_items, &count);
        assert_int_equal(count.items[N_ITEMS - 1], run);
    }
    smol_pool_destroy(pool);
}

/* ---- barriers ---- */

enum { PHASES = 8 };

struct relay {
    struct pool *pool;
    uint32_t slots[POOL_MAX_THREADS]; /* plain: only the barrier orders them */
    uint32_t wrong[POOL_MAX_THREADS];
    unsigned slow; /* this thread dawdles before each barrier */
};

/* In each phase every thread writes its slot; after the barrier it must see everyone's. The second
 * barrier keeps the next phase's writes from overtaking this phase's reads. */
static void relay_work(void *argument, unsigned thread, unsigned n_threads)
{
    struct relay *relay = argument;
    for (uint32_t phase = 1; phase <= PHASES; phase++) {
        if (thread == relay->slow)
            sched_yield();
        relay->slots[thread] = phase;
        smol_pool_barrier(relay->pool);
        for (unsigned i = 0; i < n_threads; i++)
            relay->wrong[thread] += relay->slots[i] != phase;
        smol_pool_barrier(relay->pool);
    }
}

static void run_relay(struct pool *pool)
{
    struct relay relay = {.pool = pool, .slow = smol_pool_size(pool) / 2};
    smol_pool_run(pool, relay_work, &relay);
    for (unsigned i = 0; i < smol_pool_size(pool); i++) {
        assert_int_equal(relay.slots[i], PHASES);
        assert_int_equal(relay.wrong[i], 0);
    }
}

static void after_a_barrier_every_write_before_it_is_seen(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) {
        struct pool *pool = make_pool(sizes[s]);
        for (int run = 0; run < 3; run++)
            run_relay(pool);
        smol_pool_destroy(pool);
    }
}

static void works_when_threads_outnumber_the_processors(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(smol_cpu_count(), 1);
    struct pool *pool = make_pool(7); /* its threads inherit the one processor */
    for (int run = 0; run < 5; run++)
        run_relay(pool);
    smol_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(smol_cpu_count(), CPU_COUNT(&before));
}

/* ---- coming and going ---- */

static void teams_come_and_go_used_or_not(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct pool *pool = make_pool(sizes[round % 4]);
        if (round % 3)
            run_relay(pool);
        smol_pool_destroy(pool);
    }
    smol_pool_destroy(NULL);
}

static void two_teams_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct pool *a = make_pool(3), *b = make_pool(2);
    for (int round = 0; round < 20; round++) {
        run_relay(a);
        run_relay(b);
    }
    smol_pool_destroy(a);
    run_relay(b);
    smol_pool_destroy(b);
}

static void refuses_no_threads_and_too_many(void **state)
{
    (void)state;
    struct pool *pool = (struct pool *)&error;
    assert_int_equal(smol_pool_create(0, &pool, &error), STATUS_USAGE);
    assert_null(pool);
    assert_int_equal(smol_pool_create(POOL_MAX_THREADS + 1, &pool, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "257 threads"));
}

/* In a child: a team that the system refuses must be taken apart again. */
static int create_without_memory_for_stacks(void)
{
    struct pool *pool;
    struct rlimit limit = {256 << 20, 256 << 20}; /* room for some stacks of 8 MiB, not for 256 */
    if (setrlimit(RLIMIT_AS, &limit))
        return 1;
    if (smol_pool_create(POOL_MAX_THREADS, &pool, &error) != STATUS_MEMORY || pool)
        return 2;
    return smol_pool_create(2, &pool, &error) ? 3 : (smol_pool_destroy(pool), 0);
}

static void a_team_that_the_system_refuses_leaves_no_threads_behind(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    enum { SANITIZED = 1 };
#elif defined(__has_feature)
    enum { SANITIZED = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) };
#else
    enum { SANITIZED = 0 };
#endif
    if (SANITIZED) {
        print_message("SKIPPED: sanitizers need more address space than this test leaves\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0)
        _exit(create_without_memory_for_stacks());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_cover_every_item_once_in_order_and_evenly),
        cmocka_unit_test(shares_of_huge_counts_do_not_overflow),
        cmocka_unit_test(every_thread_runs_once_per_run),
        cmocka_unit_test(thread_0_is_the_caller_and_the_others_are_not),
        cmocka_unit_test(the_last_of_many_runs_is_as_good_as_the_first),
        cmocka_unit_test(workers_that_slept_wake_for_the_next_run),
        cmocka_unit_test(after_a_barrier_every_write_before_it_is_seen),
        cmocka_unit_test(works_when_threads_outnumber_the_processors),
        cmocka_unit_test(teams_come_and_go_used_or_not),
        cmocka_unit_test(two_teams_do_not_disturb_each_other),
        cmocka_unit_test(refuses_no_threads_and_too_many),
        cmocka_unit_test(a_team_that_the_system_refuses_leaves_no_threads_behind),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
