/* Tests of the thread pool: every item is done once, stages order writes, and pools can be created
 * and freed repeatedly. The variables are plain and ordered only by the pool, so that the thread
 * sanitizer can check it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/pool.h"
#include "tests/unit/sanitized.h"

static const unsigned sizes[] = {1, 2, 3, 7, 64};
enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_ITEMS = 1000 };

static smol_error error;

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

/* ---- stages ---- */

enum { STAGES = 8 };

/* Each stage writes the number of the stage before it plus one into every slot; a thread that finds
 * a slot of an older stage has started too early. */
struct relay {
    uint32_t slots[N_ITEMS];
    uint32_t wrong[POOL_MAX_THREADS];
    uint32_t claimed[POOL_MAX_THREADS];
    unsigned slow; /* this thread spends additional time on each item */
};

static void relay_work(void *argument, struct pool_thread *thread)
{
    struct relay *relay = argument;
    for (uint32_t s = 0; s < STAGES; s++) {
        struct pool_stage stage = pool_stage(thread, N_ITEMS);
        while (smol_pool_claim(&stage)) {
            if (thread->index == relay->slow && stage.item % 100 == 0)
                sched_yield();
            /* the next item: in most cases done by another thread in the stage before */
            uint32_t *slot = &relay->slots[(stage.item + s) % N_ITEMS];
            relay->wrong[thread->index] += *slot != s;
            *slot = s + 1;
            relay->claimed[thread->index]++;
        }
        struct pool_stage nothing = pool_stage(thread, 0);
        relay->wrong[thread->index] += smol_pool_claim(&nothing);
    }
}

static void run_relay(struct pool *pool)
{
    static struct relay relay;
    relay = (struct relay){.slow = smol_pool_size(pool) / 2};
    smol_pool_run(pool, relay_work, &relay);
    uint32_t claimed = 0;
    for (unsigned i = 0; i < POOL_MAX_THREADS; i++) {
        assert_int_equal(relay.wrong[i], 0);
        claimed += relay.claimed[i];
        assert_true(i < smol_pool_size(pool) || relay.claimed[i] == 0);
    }
    assert_int_equal(claimed, STAGES * N_ITEMS);
    for (size_t i = 0; i < N_ITEMS; i++)
        assert_int_equal(relay.slots[i], STAGES);
}

static void every_item_is_done_once_and_seen_in_the_next_stage(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SIZES; s++) {
        struct pool *pool = make_pool(sizes[s]);
        assert_int_equal(smol_pool_size(pool), sizes[s]);
        for (int run = 0; run < 5; run++)
            run_relay(pool);
        smol_pool_destroy(pool);
    }
}

/* The threads of a run. */
struct roll {
    pthread_t handles[POOL_MAX_THREADS];
    uint32_t calls[POOL_MAX_THREADS];
    unsigned n_threads;
};

static void call_roll(void *argument, struct pool_thread *thread)
{
    struct roll *roll = argument;
    roll->handles[thread->index] = pthread_self();
    roll->calls[thread->index]++;
    if (thread->index == 0)
        roll->n_threads = thread->n_threads;
}

static void the_caller_is_thread_0_and_nobody_takes_part_twice(void **state)
{
    (void)state;
    enum { RUNS = 200 };
    struct pool *pool = make_pool(7);
    struct roll roll = {.n_threads = 0};
    for (uint32_t run = 1; run <= RUNS; run++) {
        smol_pool_run(pool, call_roll, &roll);
        assert_int_equal(roll.calls[0], run);
        assert_true(pthread_equal(roll.handles[0], pthread_self()));
        for (unsigned i = 1; i < 7; i++)
            assert_true(roll.calls[i] <= run);
    }
    assert_int_equal(roll.n_threads, 7);
    smol_pool_destroy(pool);
}

static void a_worker_that_never_comes_holds_up_nothing(void **state)
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
    struct pool *pool = make_pool(64); /* its threads inherit the one processor */
    for (int run = 0; run < 20; run++)
        run_relay(pool);
    smol_pool_destroy(pool);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(smol_cpu_count(), CPU_COUNT(&before));
}

struct sum {
    uint64_t parts[POOL_MAX_THREADS];
};

static void add_one(void *argument, struct pool_thread *thread)
{
    struct sum *sum = argument;
    struct pool_stage stage = pool_stage(thread, 3);
    while (smol_pool_claim(&stage))
        sum->parts[thread->index]++;
}

static void the_last_of_many_short_runs_is_as_good_as_the_first(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    struct pool *pool = make_pool(3);
    struct sum sum = {{0}};
    for (int run = 0; run < RUNS; run++)
        smol_pool_run(pool, add_one, &sum);
    assert_int_equal(sum.parts[0] + sum.parts[1] + sum.parts[2], 3 * RUNS);
    smol_pool_destroy(pool);
}

/* Returns whether thread `tid` of this process sleeps, from the letter after its name in /proc. */
static bool sleeps(const char *tid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", tid);
    FILE *file = fopen(path, "r");
    const char *name_end = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    if (file)
        fclose(file);
    return !name_end || name_end[2] == 'S';
}

/* Waits until all other threads have stopped spinning. */
static void wait_until_others_sleep(void)
{
    char own[16];
    snprintf(own, sizeof own, "%d", gettid());
    for (bool awake = true; awake; sched_yield()) {
        DIR *tasks = opendir("/proc/self/task");
        awake = false;
        for (struct dirent *task; (task = readdir(tasks));)
            if (task->d_name[0] != '.' && strcmp(task->d_name, own) != 0)
                awake = awake || !sleeps(task->d_name);
        closedir(tasks);
    }
}

static void workers_that_slept_wake_for_the_next_run(void **state)
{
    (void)state;
    struct pool *pool = make_pool(4);
    for (uint32_t run = 1; run <= 5; run++) {
        wait_until_others_sleep();
        run_relay(pool);
    }
    smol_pool_destroy(pool);
}

/* The only item of a stage lasts until another thread waits for it. */
static void dawdle(void *argument, struct pool_thread *thread)
{
    uint32_t *value = argument;
    struct pool_stage stage = pool_stage(thread, 1);
    while (smol_pool_claim(&stage)) {
        wait_until_others_sleep();
        *value = 1;
    }
    struct pool_stage next = pool_stage(thread, 4);
    while (smol_pool_claim(&next))
        if (*value != 1)
            abort();
}

static void threads_sleep_while_they_wait_for_a_long_item(void **state)
{
    (void)state;
    struct pool *pool = make_pool(4);
    for (int run = 0; run < 3; run++) {
        uint32_t value = 0;
        smol_pool_run(pool, dawdle, &value);
        assert_int_equal(value, 1);
    }
    smol_pool_destroy(pool);
}

/* ---- creating and freeing ---- */

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
    assert_int_equal(smol_pool_create(0, &pool, &error), SMOL_ERROR_USAGE);
    assert_null(pool);
    assert_int_equal(smol_pool_create(POOL_MAX_THREADS + 1, &pool, &error), SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "257 threads"));
}

/* Runs in a child: a pool whose threads the system refuses must be freed again. */
static int create_without_memory_for_stacks(void)
{
    struct pool *pool;
    struct rlimit limit = {256 << 20, 256 << 20}; /* enough for some stacks of 8 MiB, not for 256 */
    if (setrlimit(RLIMIT_AS, &limit))
        return 1;
    if (smol_pool_create(POOL_MAX_THREADS, &pool, &error) != SMOL_ERROR_MEMORY || pool)
        return 2;
    return smol_pool_create(2, &pool, &error) ? 3 : (smol_pool_destroy(pool), 0);
}

static void a_team_that_the_system_refuses_leaves_no_threads_behind(void **state)
{
    (void)state;
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
        cmocka_unit_test(every_item_is_done_once_and_seen_in_the_next_stage),
        cmocka_unit_test(the_caller_is_thread_0_and_nobody_takes_part_twice),
        cmocka_unit_test(a_worker_that_never_comes_holds_up_nothing),
        cmocka_unit_test(the_last_of_many_short_runs_is_as_good_as_the_first),
        cmocka_unit_test(workers_that_slept_wake_for_the_next_run),
        cmocka_unit_test(threads_sleep_while_they_wait_for_a_long_item),
        cmocka_unit_test(teams_come_and_go_used_or_not),
        cmocka_unit_test(two_teams_do_not_disturb_each_other),
        cmocka_unit_test(refuses_no_threads_and_too_many),
        cmocka_unit_test(a_team_that_the_system_refuses_leaves_no_threads_behind),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
