/* Tests of the sandbox: what smolrun can and cannot do in it. A process cannot leave the sandbox,
 * so each test enters it in its own. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cli/sandbox.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

enum { LANDLOCK_CREATE_RULESET = 444, MAX_TRIALS = 64 };

static char model[512], other[512], folder[80], output[90], draft[100];
static int model_fd; /* opened before the sandbox is entered */

/* ---- trials ---- */

/* An attempt in the sandbox: returns a result, or below 0 with errno. */
struct trial {
    const char *name;
    long (*run)(void);
    int error; /* expected errno; 0: it succeeds */
};

/* A call whose arguments do no harm if it is executed. */
#define CALL(name, ...)                                                                            \
    static long try_##name(void)                                                                   \
    {                                                                                              \
        return syscall(SYS_##name, __VA_ARGS__);                                                   \
    }
#define REFUSED(name)                                                                              \
    {                                                                                              \
#name, try_##name, ENOSYS                                                                  \
    }

static char *const no_words[] = {NULL};

CALL(socket, AF_INET, SOCK_STREAM, 0)
CALL(connect, -1, NULL, 0)
CALL(bind, -1, NULL, 0)
CALL(listen, -1, 0)
CALL(accept4, -1, NULL, NULL, 0)
CALL(sendto, -1, NULL, 0, 0, NULL, 0)
CALL(sendmsg, -1, NULL, 0)
CALL(recvmsg, -1, NULL, 0)
CALL(execve, "/bin/true", no_words, no_words)
CALL(execveat, AT_FDCWD, "/bin/true", no_words, no_words, 0)
CALL(clone3, NULL, 0)
CALL(kill, getppid(), 0)
CALL(tkill, getppid(), 0)
CALL(ptrace, PTRACE_TRACEME, 0, NULL, NULL)
CALL(process_vm_readv, getppid(), NULL, 0, NULL, 0, 0)
CALL(process_vm_writev, getppid(), NULL, 0, NULL, 0, 0)
CALL(prctl, PR_SET_DUMPABLE, 1, 0, 0, 0)
CALL(seccomp, 0, 0, NULL)
CALL(personality, 0xffffffff)
CALL(memfd_create, "", 0)
CALL(pkey_mprotect, NULL, 0, 0, 0)
CALL(remap_file_pages, NULL, 0, 0, 0, 0)
CALL(shmget, 0, 0, 0)
CALL(userfaultfd, 0)
CALL(bpf, 0, NULL, 0)
CALL(perf_event_open, NULL, 0, 0, 0, 0)
CALL(unshare, 0)
CALL(setns, -1, 0)
CALL(chroot, "/")
CALL(mount, NULL, NULL, NULL, 0, NULL)
CALL(setuid, getuid())
CALL(keyctl, 0, 0, 0, 0, 0)
CALL(mkdirat, AT_FDCWD, "x", 0)
CALL(symlinkat, "x", AT_FDCWD, "y")
CALL(truncate, other, 0)
CALL(fchmod, 0, 0600)
CALL(fchownat, AT_FDCWD, other, 0, 0, 0)
CALL(unlinkat, AT_FDCWD, other, 0)
CALL(renameat2, AT_FDCWD, other, AT_FDCWD, other, 0)
CALL(pwrite64, 1, NULL, 0, 0)
CALL(dup, 0)

static long fork_a_process(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}

static long map_to_execute(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? -1 : 0;
}

static long make_executable(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? 0 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static long type_into_the_terminal(void)
{
    return ioctl(0, TIOCSTI, "x");
}

static long signal_another_process(void)
{
    return syscall(SYS_tgkill, getppid(), getppid(), 0);
}

static long ask_for_signals(void)
{
    return fcntl(0, F_SETOWN, getpid());
}

static long write_to_the_model(void)
{
    return open(model, O_WRONLY);
}

static long write_and_read_the_model(void)
{
    return open(model, O_RDWR);
}

static long empty_the_model(void)
{
    return open(model, O_RDONLY | O_TRUNC);
}

static long create_a_file(void)
{
    return open(output, O_WRONLY | O_CREAT | O_EXCL, 0600);
}

static long open_the_model_again(void)
{
    return open(model, O_RDONLY);
}

static long read_another_file(void)
{
    return open(other, O_RDONLY);
}

static long read_own_memory(void)
{
    return open("/proc/self/mem", O_RDONLY);
}

static long list_a_folder(void)
{
    return open(folder, O_RDONLY | O_DIRECTORY);
}

static const struct trial refused[] = {
    REFUSED(socket),
    REFUSED(connect),
    REFUSED(bind),
    REFUSED(listen),
    REFUSED(accept4),
    REFUSED(sendto),
    REFUSED(sendmsg),
    REFUSED(recvmsg),
    REFUSED(execve),
    REFUSED(execveat),
    REFUSED(clone3),
    REFUSED(kill),
    REFUSED(ptrace),
    REFUSED(process_vm_readv),
    REFUSED(process_vm_writev),
    REFUSED(prctl),
    REFUSED(seccomp),
    REFUSED(personality),
    REFUSED(memfd_create),
    REFUSED(pkey_mprotect),
    REFUSED(remap_file_pages),
    REFUSED(shmget),
    REFUSED(userfaultfd),
    REFUSED(bpf),
    REFUSED(perf_event_open),
    REFUSED(unshare),
    REFUSED(setns),
    REFUSED(chroot),
    REFUSED(mount),
    REFUSED(setuid),
    REFUSED(keyctl),
    REFUSED(mkdirat),
    REFUSED(symlinkat),
    REFUSED(truncate),
    REFUSED(fchmod),
    REFUSED(fchownat),
    REFUSED(unlinkat),
    REFUSED(renameat2),
    REFUSED(pwrite64),
    REFUSED(dup),
    {"tkill of another", try_tkill, EPERM},
    {"fork", fork_a_process, EPERM},
    {"mmap to execute", map_to_execute, EPERM},
    {"mprotect to execute", make_executable, EPERM},
    {"TIOCSTI", type_into_the_terminal, EPERM},
    {"tgkill of another", signal_another_process, EPERM},
    {"F_SETOWN", ask_for_signals, EPERM},
    {"open for writing", write_to_the_model, EPERM},
    {"open for both", write_and_read_the_model, EPERM},
    {"open and empty", empty_the_model, EPERM},
    {"create", create_a_file, EPERM},
};

/* These trials need Landlock. */
static const struct trial hidden[] = {
    {"the model", open_the_model_again, EACCES},
    {"another file", read_another_file, EACCES},
    {"own memory", read_own_memory, EACCES},
    {"a folder", list_a_folder, EACCES},
};

/* ---- child processes ---- */

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static long results[MAX_TRIALS];

/* Runs `body` in a process of its own and returns its wait status; `shared` receives its
 * `results`. */
static int run_apart(void (*body)(void), long shared[MAX_TRIALS])
{
    long *page =
        mmap(NULL, sizeof results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) {
        body();
        memcpy(page, results, sizeof results);
        _exit(0);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        fail_msg("cannot fork");
    memcpy(shared, page, sizeof results);
    munmap(page, sizeof results);
    return status;
}

static struct sandbox sandbox;

static smol_status enter(enum sandbox_mode mode, const char *out, smol_error *error)
{
    return smol_sandbox_enter(mode, out, 0, &sandbox, error);
}

static void enter_with(const char *out)
{
    smol_error error;
    if (enter(SANDBOX_ON, out, &error))
        _exit(100);
}

static void try_all(const struct trial *trials, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        errno = 0;
        results[i] = trials[i].run() < 0 ? errno : 0;
    }
}

static void expect(const struct trial *trials, size_t n, void (*body)(void))
{
    long found[MAX_TRIALS];
    assert_true(n <= MAX_TRIALS);
    assert_int_equal(run_apart(body, found), 0);
    for (size_t i = 0; i < n; i++)
        if (found[i] != trials[i].error)
            fail_msg("%s: %s, not %s", trials[i].name, strerror((int)found[i]),
                     strerror(trials[i].error));
}

/* Returns whether the kernel has the tested feature; reports a skip otherwise. */
static bool has_filter(void)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
        return true;
    print_message("SKIPPED: this kernel lets nobody filter system calls\n");
    return false;
}

static bool has_landlock(void)
{
    if (syscall(LANDLOCK_CREATE_RULESET, NULL, 0, 1) >= 1)
        return true;
    print_message("SKIPPED: this kernel has no Landlock\n");
    return false;
}

/* ---- without an output ---- */

static void try_refused(void)
{
    enter_with(NULL);
    try_all(refused, COUNT(refused));
}

TEST(what_is_not_needed_is_refused)
{
    if (has_filter())
        expect(refused, COUNT(refused), try_refused);
}

static void try_hidden(void)
{
    enter_with(NULL);
    try_all(hidden, COUNT(hidden));
}

TEST(other_files_cannot_be_read)
{
    if (has_landlock())
        expect(hidden, COUNT(hidden), try_hidden);
}

#if defined(__x86_64__)
/* In the system calls of 32-bit programs and of x32, the same operations have other numbers. */
static void try_other_ways_in(void)
{
    enum { I386_GETPID = 20, X32_GETPID = 0x40000000 + SYS_getpid };
    long result;
    enter_with(NULL);
    results[0] = syscall(X32_GETPID) < 0 ? errno : 0;
    results[1] = ENOSYS; /* a kernel without 32-bit calls ends the process here */
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(I386_GETPID) : "memory");
    results[1] = -result;
}

TEST(calls_of_other_architectures_are_refused)
{
    long found[MAX_TRIALS];
    if (!has_filter())
        return;
    int status = run_apart(try_other_ways_in, found);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGSEGV);
        return;
    }
    assert_int_equal(status, 0);
    assert_int_equal(found[0], ENOSYS);
    assert_int_equal(found[1], ENOSYS);
}
#endif

/* ---- operations that remain possible ---- */

static volatile sig_atomic_t caught;

static void catch_signal(int signal)
{
    caught = signal;
}

static void *answer(void *argument)
{
    void *memory = malloc(64 << 20); /* threads get memory of their own */
    *(int *)argument = memory ? 42 : 0;
    free(memory);
    return argument;
}

static long start_a_thread(void)
{
    pthread_t thread;
    int said = 0;
    return pthread_create(&thread, NULL, answer, &said) || pthread_join(thread, NULL) || said != 42
               ? -1
               : 0;
}

static long map_the_model(void)
{
    char read_bytes[9];
    int fd = fcntl(model_fd, F_DUPFD_CLOEXEC, 0); /* as smol_model_open_fd does */
    char *data = mmap(NULL, 9, PROT_READ, MAP_SHARED, fd, 0);
    bool same = data != MAP_FAILED && read(fd, read_bytes, 9) == 9 && !memcmp(data, read_bytes, 9);
    return same && memcmp(data, "the model", 9) == 0 ? close(fd) : -1;
}

static long raise_a_signal(void)
{
    signal(SIGUSR1, catch_signal);
    return raise(SIGUSR1) || caught != SIGUSR1 ? -1 : 0;
}

static long read_the_clock(void)
{
    struct timespec now;
    return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
}

static long ask_for_usage(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage);
}

static long count_processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set);
}

static const struct trial allowed[] = {
    {"a thread", start_a_thread, 0}, {"the model", map_the_model, 0},
    {"a signal", raise_a_signal, 0}, {"the clock", read_the_clock, 0},
    {"getrusage", ask_for_usage, 0}, {"affinity", count_processors, 0},
};

static void try_allowed(void)
{
    enter_with(NULL);
    try_all(allowed, COUNT(allowed));
}

TEST(what_is_needed_is_allowed)
{
    expect(allowed, COUNT(allowed), try_allowed);
}

static void run_out_of_luck(void)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    enter_with(NULL);
    abort();
}

TEST(abort_ends_the_process)
{
    long found[MAX_TRIALS];
    int status = run_apart(run_out_of_luck, found);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- with an output ---- */

static long make_a_draft(void)
{
    int fd = open(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 || pwrite(fd, "x", 1, 0) != 1 || fsync(fd) || close(fd) ? -1 : 0;
}

static long rename_the_draft(void)
{
    return rename(draft, output);
}

static long sync_the_folder(void)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? -1 : fsync(fd);
}

static long remove_the_output(void)
{
    return unlink(output);
}

static long create_elsewhere(void)
{
    char path[520];
    snprintf(path, sizeof path, "%s.new", other);
    return open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
}

static long write_over_the_output(void)
{
    return open(output, O_WRONLY);
}

static long remove_elsewhere(void)
{
    return unlink(other);
}

static long make_a_folder(void)
{
    char path[520];
    snprintf(path, sizeof path, "%s/deeper", folder);
    return mkdir(path, 0700);
}

static const struct trial writing[] = {
    {"a draft", make_a_draft, 0},
    {"its renaming", rename_the_draft, 0},
    {"the folder's sync", sync_the_folder, 0},
    {"writing over a file", write_over_the_output, EPERM},
    {"removing", remove_the_output, 0},
    {"a folder", make_a_folder, ENOSYS},
    {"a socket", try_socket, ENOSYS},
    {"to execute", map_to_execute, EPERM},
    {"creating elsewhere", create_elsewhere, EACCES},
    {"removing elsewhere", remove_elsewhere, EACCES},
    {"reading elsewhere", read_another_file, EACCES},
};

static void try_writing(void)
{
    enter_with(output);
    try_all(writing, COUNT(writing));
}

TEST(files_are_made_and_replaced_in_the_output_s_folder_alone)
{
    if (has_filter() && has_landlock())
        expect(writing, COUNT(writing), try_writing);
}

/* ---- disabled or unavailable ---- */

static const struct trial open_world[] = {{"a socket", try_socket, 0},
                                          {"a file", read_another_file, 0}};

static void try_switched_off(void)
{
    smol_error error;
    if (enter(SANDBOX_OFF, NULL, &error))
        _exit(100);
    try_all(open_world, COUNT(open_world));
}

TEST(it_can_be_switched_off)
{
    expect(open_world, COUNT(open_world), try_switched_off);
}

TEST(the_environment_can_switch_it_off)
{
    smol_error error;
    enum sandbox_mode mode;
    const struct {
        const char *word;
        enum sandbox_mode mode;
    } words[] = {{"off", SANDBOX_OFF}, {"", SANDBOX_ON}};
    for (size_t i = 0; i < COUNT(words); i++) {
        setenv("SMOL_SANDBOX", words[i].word, 1);
        assert_int_equal(smol_sandbox_from_environment(&mode, &error), SMOL_OK);
        assert_int_equal(mode, words[i].mode);
    }
    setenv("SMOL_SANDBOX", "false", 1);
    assert_int_equal(smol_sandbox_from_environment(&mode, &error), SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "SMOL_SANDBOX=false"));
    unsetenv("SMOL_SANDBOX");
    assert_int_equal(smol_sandbox_from_environment(&mode, &error), SMOL_OK);
    assert_int_equal(mode, SANDBOX_ON);
}

/* Simulates a container that refuses these calls, or an old kernel without them. */
static void refuse_filters_with(uint32_t number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LANDLOCK_CREATE_RULESET, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | number),
    };
    struct sock_fprog program = {COUNT(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(101);
}

static void expect_missing(int reason)
{
    char state[200];
    smol_error error;
    refuse_filters_with((uint32_t)reason);
    if (enter(SANDBOX_ON, NULL, &error) || sandbox.files != reason || sandbox.calls != reason ||
        smol_sandbox_is_weak(&sandbox) != (reason == EMFILE))
        _exit(100);
    smol_sandbox_describe(&sandbox, state, sizeof state);
    if (!strstr(state, "Landlock: ") || !strstr(state, strerror(reason)))
        _exit(101);
    if (enter(SANDBOX_REQUIRE, NULL, &error) != SMOL_ERROR_UNSUPPORTED ||
        !strstr(error.message, "--sandbox require: files are not restricted (Landlock: ") ||
        !strstr(error.message, "seccomp: "))
        _exit(102);
    try_all(open_world, COUNT(open_world));
}

static void try_without_support(void)
{
    expect_missing(ENOSYS);
}

static void try_with_support_refused(void)
{
    expect_missing(EPERM);
}

static void try_without_descriptors(void)
{
    expect_missing(EMFILE);
}

TEST(what_is_missing_is_told_and_an_error_only_where_all_is_required)
{
    if (!has_filter())
        return;
    expect(open_world, COUNT(open_world), try_without_support);
    expect(open_world, COUNT(open_world), try_with_support_refused);
    expect(open_world, COUNT(open_world), try_without_descriptors);
}

/* Landlock exists, but no descriptor is left for the rule. */
static void try_without_a_descriptor_for_the_rule(void)
{
    smol_error error;
    const struct rlimit few = {(rlim_t)model_fd + 2, (rlim_t)model_fd + 2};
    setrlimit(RLIMIT_NOFILE, &few);
    results[0] = enter(SANDBOX_ON, output, &error);
    results[1] = sandbox.files;
}

TEST(a_rule_that_cannot_be_added_is_told)
{
    long found[MAX_TRIALS];
    if (!has_landlock())
        return;
    assert_int_equal(run_apart(try_without_a_descriptor_for_the_rule, found), 0);
    assert_int_equal(found[0], SMOL_OK);
    assert_int_equal(found[1], EMFILE);
}

/* ---- */

static int set_up(void **state)
{
    int failed = temporary_set_up(state);
    unsetenv("SMOL_SANDBOX");
    strcpy(model, temporary_write_text(&temporary, "model", "the model"));
    strcpy(other, temporary_write_text(&temporary, "other", "another file"));
    snprintf(folder, sizeof folder, "%s/out", temporary.folder);
    snprintf(output, sizeof output, "%s/output", folder);
    snprintf(draft, sizeof draft, "%s.draft", output);
    model_fd = open(model, O_RDONLY | O_CLOEXEC);
    return failed || model_fd < 0 || mkdir(folder, 0700);
}

int main(void)
{
    if (SANITIZED) {
        puts("# SKIPPED: sanitizers need what the sandbox refuses");
        return 0;
    }
    return run_all_tests("sandbox", set_up, temporary_tear_down);
}
