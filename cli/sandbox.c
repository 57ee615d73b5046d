/* The sandbox, see sandbox.h. The structures and numbers belong to the kernel and never change.
 * They are repeated here because musl does not include the kernel's headers. */
#include "cli/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "common/file.h"

/* --- files: Landlock (linux/landlock.h) --------------------------------------------------- */

enum { LANDLOCK_CREATE_RULESET = 444, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF };
enum { LANDLOCK_VERSION = 1, LANDLOCK_PATH_BENEATH = 1 };
enum {
    MAY_WRITE_FILE = 1 << 1,
    MAY_READ_FILE = 1 << 2,
    MAY_READ_FOLDER = 1 << 3,
    MAY_REMOVE_FILE = 1 << 5,
    MAY_MAKE_FILE = 1 << 8,
};

/* The number of access kinds in each version of Landlock, from version 1. */
static const int landlock_kinds[] = {13, 14, 15, 15, 16};
enum { LANDLOCK_VERSIONS = sizeof landlock_kinds / sizeof landlock_kinds[0] };

struct landlock_rule {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

/* Permits access to the files in `folder`. Permits nothing if the folder does not exist or cannot
 * be reached. Returns 0 or errno. */
static int permit_folder(int ruleset, const char *folder)
{
    int fd = open(folder, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : errno;
    const struct landlock_rule rule = {
        MAY_READ_FILE | MAY_READ_FOLDER | MAY_WRITE_FILE | MAY_MAKE_FILE | MAY_REMOVE_FILE, fd};
    int failed = syscall(LANDLOCK_ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0) ? errno : 0;
    close(fd);
    return failed;
}

/* Restricts file access. `folder` is the output's folder, or NULL. Returns 0 or errno. */
static int restrict_files(const char *folder)
{
    long version = syscall(LANDLOCK_CREATE_RULESET, NULL, 0, LANDLOCK_VERSION);
    if (version < 1)
        return version < 0 ? errno : ENOSYS;
    if (version > LANDLOCK_VERSIONS)
        version = LANDLOCK_VERSIONS;
    const uint64_t handled = ((uint64_t)1 << landlock_kinds[version - 1]) - 1;
    int ruleset = (int)syscall(LANDLOCK_CREATE_RULESET, &handled, sizeof handled, 0);
    if (ruleset < 0)
        return errno;
    int failed = folder ? permit_folder(ruleset, folder) : 0;
    if (!failed && syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0))
        failed = errno;
    close(ruleset);
    return failed;
}

/* --- system calls: seccomp (linux/seccomp.h, linux/filter.h) ------------------------------ */

#if defined(__x86_64__) || defined(__aarch64__)

/* A system call that is allowed if (argument & mask) == value; a mask of 0 always allows it. */
struct rule {
    uint32_t call;
    uint32_t argument, mask, value;
};

/* The calls that the commands and the C libraries (glibc, musl) need after the command line was
 * read. */
static const struct rule rules[] = {
    {SYS_futex, 0, 0, 0}, /* threads; new processes are refused */
    {SYS_clone, 0, CLONE_THREAD, CLONE_THREAD},
    {SYS_set_robust_list, 0, 0, 0},
    {SYS_rseq, 0, 0, 0},
    {SYS_sched_getaffinity, 0, 0, 0},
    {SYS_sched_yield, 0, 0, 0},
    {SYS_gettid, 0, 0, 0},
    {SYS_getpid, 0, 0, 0},
    {SYS_exit, 0, 0, 0},
    {SYS_exit_group, 0, 0, 0},
    {SYS_mmap, 2, PROT_EXEC, 0}, /* memory */
    {SYS_mprotect, 2, PROT_EXEC, 0},
    {SYS_munmap, 0, 0, 0},
    {SYS_mremap, 0, 0, 0},
    {SYS_madvise, 0, 0, 0},
    {SYS_brk, 0, 0, 0},
    {SYS_read, 0, 0, 0}, /* files; existing files cannot be opened for writing */
    {SYS_pread64, 0, 0, 0},
    {SYS_readv, 0, 0, 0},
    {SYS_ppoll, 0, 0, 0}, /* checks for more input */
    {SYS_write, 0, 0, 0},
    {SYS_writev, 0, 0, 0},
    {SYS_openat, 2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY},
    {SYS_close, 0, 0, 0},
    {SYS_lseek, 0, 0, 0},
    {SYS_fstat, 0, 0, 0},
    {SYS_newfstatat, 0, 0, 0},
    {SYS_statx, 0, 0, 0},
    {SYS_fcntl, 1, UINT32_MAX, F_SETFD},
    {SYS_fcntl, 1, UINT32_MAX, F_DUPFD_CLOEXEC}, /* smol_model_open_fd */
    {SYS_ioctl, 1, UINT32_MAX, TCGETS}, /* checks for a terminal; typing into it is refused */
    {SYS_ioctl, 1, UINT32_MAX, TIOCGWINSZ},
    {SYS_rt_sigaction, 0, 0, 0}, /* signals */
    {SYS_rt_sigprocmask, 0, 0, 0},
    {SYS_rt_sigreturn, 0, 0, 0},
    {SYS_sigaltstack, 0, 0, 0},
    {SYS_restart_syscall, 0, 0, 0},
    {SYS_clock_gettime, 0, 0, 0}, /* time, random numbers and statistics */
    {SYS_gettimeofday, 0, 0, 0},
    {SYS_getrandom, 0, 0, 0},
    {SYS_getrusage, 0, 0, 0},
    {SYS_sysinfo, 0, 0, 0},
#if defined(__x86_64__)
    {SYS_arch_prctl, 0, UINT32_MAX, 0x1023},                /* ARCH_REQ_XCOMP_PERM: tiles of AMX */
    {SYS_open, 1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY}, /* calls that aarch64 does not have */
    {SYS_poll, 0, 0, 0},
    {SYS_stat, 0, 0, 0},
    {SYS_lstat, 0, 0, 0},
#endif
};

/* Additional calls for an output file (cli/output.h). */
static const struct rule output_rules[] = {
    {SYS_openat, 2, O_CREAT | O_EXCL, O_CREAT | O_EXCL},
    {SYS_pwrite64, 0, 0, 0},
    {SYS_fsync, 0, 0, 0},
    {SYS_ftruncate, 0, 0, 0},
    {SYS_flock, 0, 0, 0},
    {SYS_renameat, 0, 0, 0},
    {SYS_renameat2, 0, 0, 0},
    {SYS_linkat, 0, 0, 0},
    {SYS_unlinkat, 0, 0, 0},
#if defined(__x86_64__)
    {SYS_open, 1, O_CREAT | O_EXCL, O_CREAT | O_EXCL},
    {SYS_rename, 0, 0, 0},
    {SYS_link, 0, 0, 0},
    {SYS_unlink, 0, 0, 0},
#endif
};

/* Additional calls for line editing (libedit). Typing into the terminal stays refused. */
static const struct rule terminal_rules[] = {
    {SYS_ioctl, 1, UINT32_MAX, TCSETS},
    {SYS_ioctl, 1, UINT32_MAX, TCSETSW},
    {SYS_ioctl, 1, UINT32_MAX, TCSETSF},
    {SYS_ioctl, 1, UINT32_MAX, FIONREAD},
};

/* Additional calls for a server (libmicrohttpd), which has its listening socket. */
static const struct rule server_rules[] = {
    {SYS_accept4, 0, 0, 0},
    {SYS_recvfrom, 0, 0, 0},
    {SYS_sendto, 0, 0, 0},
    {SYS_sendmsg, 0, 0, 0},
    {SYS_recvmsg, 0, 0, 0}, /* files from smolserve's watcher */
    {SYS_shutdown, 0, 0, 0},
    {SYS_getsockname, 0, 0, 0},
    {SYS_setsockopt, 0, 0, 0},
    {SYS_getsockopt, 0, 0, 0},
    {SYS_epoll_create1, 0, 0, 0},
    {SYS_epoll_ctl, 0, 0, 0},
    {SYS_epoll_pwait, 0, 0, 0},
    {SYS_eventfd2, 0, 0, 0},
    {SYS_fcntl, 1, UINT32_MAX, F_GETFL},
    {SYS_fcntl, 1, UINT32_MAX, F_SETFL},
    {SYS_rt_sigtimedwait, 0, 0, 0},
    {SYS_rt_sigpending, 0, 0, 0},
    {SYS_clock_nanosleep, 0, 0, 0},
#if defined(__x86_64__)
    {SYS_epoll_wait, 0, 0, 0},
#endif
};

enum {
    N_SERVER_RULES = sizeof server_rules / sizeof server_rules[0],
    N_TERMINAL_RULES = sizeof terminal_rules / sizeof terminal_rules[0],
    N_RULES = sizeof rules / sizeof rules[0],
    N_OUTPUT_RULES = sizeof output_rules / sizeof output_rules[0],
    MAX_INSTRUCTIONS = 8 * (N_RULES + N_OUTPUT_RULES + N_TERMINAL_RULES + N_SERVER_RULES + 2) + 8,
};

/* The filter: a program for the kernel's packet filter machine, which runs it for each call. */
struct program {
    unsigned short n;
    struct instruction {
        uint16_t code;
        uint8_t skip_if_true, skip_if_false;
        uint32_t value;
    } * instructions;
};

enum { LOAD = 0x20, AND = 0x54, IF_EQUAL = 0x15, RETURN = 0x06 };
enum { CALL = 0, ARCHITECTURE = 4, FIRST_ARGUMENT = 16 }; /* offsets in struct seccomp_data */
#define ALLOW UINT32_C(0x7fff0000)
#define FAIL_WITH(number) (UINT32_C(0x00050000) | (number))

static void add(struct program *program, uint16_t code, uint32_t value, uint8_t skip_if_false)
{
    program->instructions[program->n++] = (struct instruction){code, 0, skip_if_false, value};
}

/* Appends code that allows a call. The register holds the call's number before and after. */
static void allow(struct program *program, const struct rule *rule)
{
    add(program, IF_EQUAL, rule->call, rule->mask ? 5 : 1);
    if (rule->mask) {
        add(program, LOAD, FIRST_ARGUMENT + 8 * rule->argument, 0); /* its lower half */
        add(program, AND, rule->mask, 0);
        add(program, IF_EQUAL, rule->value, 1);
    }
    add(program, RETURN, ALLOW, 0);
    if (rule->mask)
        add(program, LOAD, CALL, 0);
}

/* Appends code that refuses a call whose arguments no rule allows. */
static void refuse(struct program *program, const struct rule *rule)
{
    if (!rule->mask)
        return;
    add(program, IF_EQUAL, rule->call, 1);
    add(program, RETURN, FAIL_WITH(EPERM), 0);
}

/* Writes the filter. Calls that are not on the list fail as they would on a kernel without them,
 * and do not kill the process: newer C libraries try newer calls first (clone3 for threads) and
 * then fall back. Continuing does not help an attacker, and an attacker who only wants to end the
 * process can do that anyway. */
static void write_program(struct program *program, bool with_output, unsigned rights)
{
#if defined(__x86_64__)
    const uint32_t architecture = 0xc000003e;
#else
    const uint32_t architecture = 0xc00000b7;
#endif
    /* abort and raise; musl calls tkill from the main thread, whose id is the process's */
    const struct rule own[] = {{SYS_tgkill, 0, UINT32_MAX, (uint32_t)getpid()},
                               {SYS_tkill, 0, UINT32_MAX, (uint32_t)getpid()}};
    const struct {
        const struct rule *rules;
        size_t n;
    } lists[] = {{rules, N_RULES},
                 {own, 2},
                 {output_rules, with_output ? N_OUTPUT_RULES : 0},
                 {terminal_rules, rights & SANDBOX_TERMINAL ? N_TERMINAL_RULES : 0},
                 {server_rules, rights & SANDBOX_SERVER ? N_SERVER_RULES : 0}};
    add(program, LOAD, ARCHITECTURE, 0);
    program->instructions[program->n++] = (struct instruction){IF_EQUAL, 1, 0, architecture};
    add(program, RETURN, FAIL_WITH(ENOSYS), 0);
    add(program, LOAD, CALL, 0);
    void (*const steps[])(struct program *, const struct rule *) = {allow, refuse};
    for (int step = 0; step < 2; step++)
        for (int i = 0; i < 5; i++)
            for (size_t j = 0; j < lists[i].n; j++)
                steps[step](program, &lists[i].rules[j]);
    add(program, RETURN, FAIL_WITH(ENOSYS), 0);
}

/* Restricts system calls. Returns 0 or errno. */
static int restrict_calls(bool with_output, unsigned rights)
{
    enum { SET_FILTER = 1, KEEP_SPECULATION = 4 };
    struct instruction instructions[MAX_INSTRUCTIONS];
    struct program program = {0, instructions};
    write_program(&program, with_output, rights);
    /* Without the flag, kernels before 5.16 slow down every process that has a filter, to protect
     * parts of it that do not trust each other against speculation. Kernels accept the flag since
     * 4.17. */
    if (syscall(SYS_seccomp, SET_FILTER, KEEP_SPECULATION, &program) == 0)
        return 0;
    return errno == EINVAL && syscall(SYS_seccomp, SET_FILTER, 0, &program) == 0 ? 0 : errno;
}
#else
static int restrict_calls(bool with_output, unsigned rights)
{
    (void)with_output, (void)rights;
    return ENOSYS; /* no list for this architecture */
}
#endif

/* --- the sandbox -------------------------------------------------------------------------- */

smol_status smol_sandbox_from_environment(enum sandbox_mode *mode, smol_error *error)
{
    const char *wish = getenv("SMOL_SANDBOX");
    bool off = wish && strcmp(wish, "off") == 0;
    *mode = off ? SANDBOX_OFF : SANDBOX_ON;
    if (off || !wish || !wish[0])
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_USAGE, "SMOL_SANDBOX=%.40s: must be off, or unset", wish);
}

void smol_sandbox_describe(const struct sandbox *sandbox, char *text, size_t size)
{
    char files[80] = "", calls[80] = "";
    if (sandbox->mode == SANDBOX_OFF) {
        snprintf(text, size, "off");
        return;
    }
    if (sandbox->files)
        snprintf(files, sizeof files, "; files are not restricted (Landlock: %s)",
                 strerror(sandbox->files));
    if (sandbox->calls)
        snprintf(calls, sizeof calls, "; system calls are not restricted (seccomp: %s)",
                 strerror(sandbox->calls));
    snprintf(text, size, "on%s%s", files, calls);
}

/* Returns whether the reason is a common one. Old kernels and containers lack Landlock or seccomp,
 * or refuse them. */
static bool is_common(int reason)
{
    return reason == 0 || reason == ENOSYS || reason == EOPNOTSUPP || reason == EPERM ||
           reason == EACCES || reason == EINVAL;
}

bool smol_sandbox_is_weak(const struct sandbox *sandbox)
{
    return !is_common(sandbox->files) || !is_common(sandbox->calls);
}

smol_status smol_sandbox_enter(enum sandbox_mode mode, const char *output, unsigned rights,
                               struct sandbox *sandbox, smol_error *error)
{
    *sandbox = (struct sandbox){.mode = mode};
    if (mode == SANDBOX_OFF)
        return SMOL_OK;
    char *folder = output ? smol_path_folder(output) : NULL;
    if (output && !folder)
        return smol_fail_memory(error, "a file name");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) { /* both need it */
        sandbox->files = sandbox->calls = errno;
    } else {
        sandbox->files = restrict_files(folder);
        sandbox->calls = restrict_calls(output != NULL, rights);
    }
    free(folder);
    if (mode != SANDBOX_REQUIRE || (!sandbox->files && !sandbox->calls))
        return SMOL_OK;
    char state[200];
    smol_sandbox_describe(sandbox, state, sizeof state);
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "--sandbox require: %s: use --sandbox on to run nevertheless", state + 4);
}

smol_status smol_sandbox_start(const char *program, int chosen, const char *output, unsigned rights,
                               struct sandbox *sandbox, smol_error *error)
{
    enum sandbox_mode mode = (enum sandbox_mode)(chosen ? chosen - 1 : SANDBOX_ON);
    smol_status status = chosen ? SMOL_OK : smol_sandbox_from_environment(&mode, error);
    if (!status)
        status = smol_sandbox_enter(mode, output, rights, sandbox, error);
    if (!status && smol_sandbox_is_weak(sandbox)) {
        char state[200];
        smol_sandbox_describe(sandbox, state, sizeof state);
        fprintf(stderr, "%s: warning: sandbox: %s\n", program, state);
    }
    return status;
}
