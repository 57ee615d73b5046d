/* Tests of the guard: a process whose mapped files become unreadable. Signal handlers apply to a
 * whole process, so each test runs in its own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/file.h"
#include "common/pool.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

/* --- child processes ------------------------------------------------------------------------ */

/* Returns the exit status of a child, or minus the signal that ended it. */
static int run_child(void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGBUS, SIG_DFL); /* a sanitizer's handler would change the test */
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* For children, because cmocka's assertions work only in the parent. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            _exit(99);                                                                             \
        }                                                                                          \
    } while (0)

/* --- files that become unreadable -------------------------------------------------------- */

enum { PAGES = 8 };

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

struct file {
    char path[512];
    struct file_view view;
};

/* Makes a file of PAGES pages and 100 bytes, all ones, and maps it. */
static struct file map_new_file(const char *name)
{
    struct file file;
    smol_error error;
    size_t size = PAGES * page_size() + 100;
    char *bytes = malloc(size);
    memset(bytes, 1, size);
    snprintf(file.path, sizeof file.path, "%s", temporary_write(&temporary, name, bytes, size));
    free(bytes);
    EXPECT(smol_file_map(file.path, &file.view, &error) == SMOL_OK);
    return file;
}

static void shorten(const struct file *file, size_t size)
{
    EXPECT(truncate(file->path, (off_t)size) == 0);
}

/* Hidden from the thread sanitizer, which would report the tested behaviour as a race: another
 * thread's fault replaces the page while this one reads it. */
__attribute__((no_sanitize("thread"))) static int byte_at(const struct file *file, size_t offset)
{
    return *(const volatile uint8_t *)&file->view.data[offset];
}

/* Sends a SIGBUS as the kernel does, for causes that a test cannot produce. */
static void fake_fault(int code, const struct file *file, size_t offset)
{
    siginfo_t info = {.si_signo = SIGBUS, .si_code = code};
    info.si_addr = (void *)(uintptr_t)(file->view.data + offset);
    EXPECT(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGBUS, &info) == 0);
}

static bool complains(const struct file *file, const char *part)
{
    smol_error error = {0};
    return smol_file_check(&file->view, "x.smol", &error) == SMOL_ERROR_FILE &&
           error.status == SMOL_ERROR_FILE && strstr(error.message, "x.smol: ") &&
           strstr(error.message, part);
}

static bool complains_of(const struct file *file, size_t offset, const char *reason)
{
    char part[128];
    snprintf(part, sizeof part, "can no longer be read at offset %zu (%s)", offset, reason);
    return complains(file, part);
}

static const char shorter[] = "it was truncated", failing[] = "the disk or the network failed";

static bool is_well(const struct file *file)
{
    smol_error untouched = {.status = SMOL_ERROR_MISMATCH};
    return smol_file_check(&file->view, "x.smol", &untouched) == SMOL_OK &&
           untouched.status == SMOL_ERROR_MISMATCH;
}

/* --- guarded files -------------------------------------------------------------------------- */

static void read_after_the_end(void)
{
    struct file file = map_new_file("file"), other = map_new_file("other");
    size_t end = file.view.size - 1, offset = 3 * page_size() + 17;
    smol_mapping_guard();
    EXPECT(byte_at(&file, end) == 1 && is_well(&file));
    shorten(&file, 2 * page_size());
    errno = 12345;
    EXPECT(byte_at(&file, offset) == 0);
    EXPECT(errno == 12345);
    EXPECT(byte_at(&file, end) == 0 && byte_at(&file, 5 * page_size()) == 0);
    EXPECT(complains_of(&file, offset, shorter) && complains_of(&file, offset, shorter));
    EXPECT(byte_at(&other, end) == 1 && is_well(&other));
}

TEST(a_file_that_gives_way_is_zeros_and_an_error)
{
    assert_int_equal(run_child(read_after_the_end), 0);
}

/* Within the last page nothing faults, so only the file's size reveals the change. */
static void shorten_within_the_last_page(void)
{
    smol_mapping_guard();
    for (size_t cut = 1; cut < 100; cut += 49) {
        struct file file = map_new_file("file");
        shorten(&file, file.view.size - cut);
        EXPECT(byte_at(&file, file.view.size - 1) == 0);
        EXPECT(complains_of(&file, file.view.size - cut, shorter));
        smol_file_close(&file.view);
    }
}

TEST(a_lost_byte_that_is_never_read_is_an_error_too)
{
    assert_int_equal(run_child(shorten_within_the_last_page), 0);
}

static void change_files(void)
{
    static const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct file touched = map_new_file("touched"), grown = map_new_file("grown"),
                renamed = map_new_file("renamed"), removed = map_new_file("removed");
    smol_mapping_guard();
    EXPECT(utimensat(AT_FDCWD, touched.path, long_ago, 0) == 0);
    EXPECT(complains(&touched, "was modified while in use"));
    shorten(&grown, grown.view.size + 1);
    EXPECT(complains(&grown, "was modified while in use"));
    EXPECT(rename(touched.path, renamed.path) == 0 && is_well(&renamed));
    EXPECT(unlink(removed.path) == 0 && chmod(grown.path, 0400) == 0 && is_well(&removed));
}

TEST(a_file_that_is_written_to_is_an_error_but_a_replaced_one_is_not)
{
    assert_int_equal(run_child(change_files), 0);
}

static void fail_by_disk(void)
{
    struct file file = map_new_file("file");
    smol_mapping_guard();
    fake_fault(BUS_ADRERR, &file, 5);
    fake_fault(BUS_MCEERR_AR, &file, 7);
    EXPECT(byte_at(&file, 5) == 0 && byte_at(&file, file.view.size - 1) == 0);
    EXPECT(complains_of(&file, 5, failing));
}

TEST(a_disk_that_fails_is_named_and_the_first_place_is_kept)
{
    assert_int_equal(run_child(fail_by_disk), 0);
}

/* --- without the guard ---------------------------------------------------------------------- */

static void read_unguarded(void)
{
    struct file file = map_new_file("file");
    shorten(&file, 100);
    EXPECT(byte_at(&file, 99) == 1 && is_well(&file));
    byte_at(&file, page_size());
}

TEST(without_the_guard_the_process_dies)
{
    assert_int_equal(run_child(read_unguarded), -SIGBUS);
}

/* --- many files, many threads ---------------------------------------------------------------- */

enum { MANY = 600 };

static void map_many(void)
{
    static struct file files[MANY];
    smol_mapping_guard();
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < MANY; i += round + 1) { /* replaces some, keeps the others */
            char name[32];
            snprintf(name, sizeof name, "%d", i);
            smol_file_close(&files[i].view);
            files[i] = map_new_file(name);
        }
    }
    for (int i = 0; i < MANY; i += 7)
        shorten(&files[i], 0);
    for (int i = 0; i < MANY; i++)
        EXPECT(byte_at(&files[i], (size_t)i) == (i % 7 != 0));
    for (int i = 0; i < MANY; i++)
        EXPECT(i % 7 ? is_well(&files[i]) : complains_of(&files[i], (size_t)i, shorter));
}

TEST(any_number_of_files_is_guarded)
{
    assert_int_equal(run_child(map_many), 0);
}

static void close_one(void)
{
    struct file file = map_new_file("file"), closed = file;
    smol_mapping_guard();
    smol_file_close(&file.view);
    fake_fault(BUS_ADRERR, &closed, 0);
}

TEST(a_closed_file_is_guarded_no_more)
{
    assert_int_equal(run_child(close_one), -SIGBUS);
}

/* Threads claim and read pages one at a time. */
static void sum_pages(void *argument, struct pool_thread *thread)
{
    const struct file *file = argument;
    struct pool_stage stage = pool_stage(thread, PAGES);
    while (smol_pool_claim(&stage))
        EXPECT(byte_at(file, stage.item * page_size()) == 0);
}

static void fault_in_threads(void)
{
    struct pool *pool;
    smol_error error;
    smol_mapping_guard();
    for (unsigned n_threads = 1; n_threads <= 4; n_threads++) {
        EXPECT(smol_pool_create(n_threads, &pool, &error) == SMOL_OK);
        for (int round = 0; round < 20; round++) {
            struct file file = map_new_file("file");
            shorten(&file, 0);
            smol_pool_run(pool, sum_pages, &file);
            EXPECT(complains(&file, shorter));
            smol_file_close(&file.view);
        }
        smol_pool_destroy(pool);
    }
}

TEST(faults_may_come_on_any_thread)
{
    assert_int_equal(run_child(fault_in_threads), 0);
}

/* Maps and closes files, so that entries of the list are constantly taken and released. */
static void *come_and_go(void *argument)
{
    const char *path = argument;
    smol_error error;
    for (int i = 0; i < 2000; i++) {
        struct file_view view;
        EXPECT(smol_file_map(path, &view, &error) == SMOL_OK);
        smol_file_close(&view);
    }
    return NULL;
}

static void fault_meanwhile(void)
{
    enum { OTHERS = 3 };
    pthread_t others[OTHERS];
    struct file calm = map_new_file("calm");
    smol_mapping_guard();
    for (int i = 0; i < OTHERS; i++)
        EXPECT(pthread_create(&others[i], NULL, come_and_go, calm.path) == 0);
    for (int round = 0; round < 300; round++) {
        struct file file = map_new_file("file");
        shorten(&file, 0);
        EXPECT(byte_at(&file, 4321) == 0 && complains_of(&file, 4321, shorter));
        smol_file_close(&file.view);
    }
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    EXPECT(byte_at(&calm, 4321) == 1 && is_well(&calm));
}

TEST(files_may_come_and_go_meanwhile)
{
    assert_int_equal(run_child(fault_meanwhile), 0);
}

/* --- faults outside the guarded files ---------------------------------------------------- */

/* Maps an empty file that is not on the guard's list. */
static volatile const uint8_t *map_by_hand(void)
{
    FILE *file = tmpfile();
    EXPECT(file);
    const uint8_t *data = mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fileno(file), 0);
    EXPECT(data != MAP_FAILED);
    return data;
}

static void fault_elsewhere(void)
{
    smol_mapping_guard();
    *map_by_hand();
}

static void fault_elsewhere_when_ignored(void)
{
    signal(SIGBUS, SIG_IGN);
    fault_elsewhere();
}

static void send(void)
{
    smol_mapping_guard();
    kill(getpid(), SIGBUS);
    pause();
}

static void fault_by_misalignment(void)
{
    struct file file = map_new_file("file");
    smol_mapping_guard();
    fake_fault(BUS_ADRALN, &file, 1);
}

TEST(any_other_sigbus_ends_the_process)
{
    assert_int_equal(run_child(fault_elsewhere), -SIGBUS);
    assert_int_equal(run_child(fault_elsewhere_when_ignored), -SIGBUS);
    assert_int_equal(run_child(send), -SIGBUS);
    assert_int_equal(run_child(fault_by_misalignment), -SIGBUS);
}

static void send_ignored(void)
{
    struct file file = map_new_file("file");
    signal(SIGBUS, SIG_IGN);
    smol_mapping_guard();
    EXPECT(kill(getpid(), SIGBUS) == 0);
    shorten(&file, 0);
    EXPECT(byte_at(&file, 0) == 0 && complains_of(&file, 0, shorter));
}

TEST(a_sigbus_that_was_ignored_stays_ignored)
{
    assert_int_equal(run_child(send_ignored), 0);
}

static sigjmp_buf escape;
static volatile const void *seen_address;
static volatile sig_atomic_t seen;

static void detailed_handler(int signal, siginfo_t *info, void *context)
{
    seen_address = info->si_addr;
    seen = context ? signal : 0;
    siglongjmp(escape, 1);
}

static void plain_handler(int signal)
{
    seen = signal;
    siglongjmp(escape, 1);
}

/* Installs a handler before the guard: it must receive exactly the faults that are not the
 * guard's. */
static void expect_chain(const struct sigaction *action, bool detailed)
{
    EXPECT(sigaction(SIGBUS, action, NULL) == 0);
    struct file file = map_new_file("file");
    volatile const uint8_t *elsewhere = map_by_hand();
    smol_mapping_guard();
    smol_mapping_guard();
    for (int round = 0; round < 2; round++) {
        seen = 0;
        if (sigsetjmp(escape, 1) == 0)
            *elsewhere;
        EXPECT(seen == SIGBUS && (!detailed || seen_address == elsewhere));
    }
    seen = 0;
    shorten(&file, 0);
    EXPECT(byte_at(&file, 0) == 0 && complains_of(&file, 0, shorter));
    EXPECT(seen == 0);
}

static void chain_to_detailed(void)
{
    expect_chain(&(struct sigaction){.sa_sigaction = detailed_handler, .sa_flags = SA_SIGINFO},
                 true);
}

static void chain_to_plain(void)
{
    expect_chain(&(struct sigaction){.sa_handler = plain_handler}, false);
}

TEST(an_earlier_handler_gets_what_is_not_ours)
{
    assert_int_equal(run_child(chain_to_detailed), 0);
    assert_int_equal(run_child(chain_to_plain), 0);
}

int main(void)
{
    return run_all_tests("mapping", temporary_set_up, temporary_tear_down);
}
