/* Tests of the thread pool: every item is done once, stages order writes, and pools can be created
 * and freed repeatedly. The variables are plain and ordered only by the pool, so that the thread
 * sanitizer can check it. */
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
#include "tests/unit/unit.h"

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

TEST(shares_cover_every_item_once_in_order_and_evenly)
{
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

TEST(shares_of_huge_counts_do_not_overflow)
{
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

TEST(every_item_is_done_once_and_seen_in_the_next_stage)
{
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

TEST(the_caller_is_thread_0_and_nobody_takes_part_twice)
{
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

TEST(a_worker_that_never_comes_holds_up_nothing)
{
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

TEST(the_last_of_many_short_runs_is_as_good_as_the_first)
{
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

TEST(workers_that_slept_wake_for_the_next_run)
{
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

TEST(threads_sleep_while_they_wait_for_a_long_item)
{
    struct pool *pool = make_pool(4);
    for (int run = 0; run < 3; run++) {
        uint32_t value = 0;
        smol_pool_run(pool, dawdle, &value);
        assert_int_equal(value, 1);
    }
    smol_pool_destroy(pool);
}

/* ---- creating and freeing ---- */

TEST(teams_come_and_go_used_or_not)
{
    for (int round = 0; round < 60; round++) {
        struct pool *pool = make_pool(sizes[round % 4]);
        if (round % 3)
            run_relay(pool);
        smol_pool_destroy(pool);
    }
    smol_pool_destroy(NULL);
}

TEST(two_teams_do_not_disturb_each_other)
{
    struct pool *a = make_pool(3), *b = make_pool(2);
    for (int round = 0; round < 20; round++) {
        run_relay(a);
        run_relay(b);
    }
    smol_pool_destroy(a);
    run_relay(b);
    smol_pool_destroy(b);
}

TEST(refuses_no_threads_and_too_many)
{
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

TEST(a_team_that_the_system_refuses_leaves_no_threads_behind)
{
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
    return run_all_tests("pool", NULL, NULL);
}
