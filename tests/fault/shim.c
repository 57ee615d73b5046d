/* Makes the k-th call of a group of calls fail, in a program that knows nothing of it.
 *
 * System calls are caught where they are made, in libc, by a seccomp filter that turns them into
 * SIGSYS: so those within stdio, malloc and thread creation count too. Allocations and pthread
 * calls are taken over by name: preloaded (LD_PRELOAD) in an ordinary build, linked with --wrap
 * and FAULT_WRAP defined where a sanitizer owns malloc.
 *
 *     SMOL_FAULT="GROUP ACTION K FROM_ON"
 *         ACTION: an errno; 0: half of what was asked for (read and write); negative: a signal,
 *         before the call. K 0: only count. FROM_ON 1: all from the k-th on.
 *     SMOL_FAULT_REPORT=FILE
 *         gets struct report, whatever becomes of the process, and may change K while it runs
 *
 * x86-64 only: it takes apart the registers of a system call. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the shim knows the registers of x86-64 only"
#endif

/* --- what is to fail ---------------------------------------------------------------------- */

enum { MAX_CALLS = 8 };

/* Groups of calls that fail for the same reasons. The first two have no system calls. */
static const struct group {
    const char *name;
    int calls[MAX_CALLS];
    size_t n_calls;
} groups[] = {
    {"memory", {0}, 0},
    {"thread", {0}, 0},
    {"map", {SYS_mmap}, 1},
    {"open", {SYS_open, SYS_openat}, 2},
    {"stat", {SYS_stat, SYS_fstat, SYS_lstat, SYS_newfstatat, SYS_statx}, 5},
    {"read", {SYS_read, SYS_pread64, SYS_readv}, 3},
    {"write", {SYS_write, SYS_pwrite64, SYS_writev}, 3},
    {"sync", {SYS_fsync, SYS_fdatasync}, 2},
    {"close", {SYS_close}, 1},
    {"rename", {SYS_rename, SYS_renameat, SYS_renameat2, SYS_link, SYS_linkat}, 5},
    {"exclusive", {SYS_renameat2, SYS_link, SYS_linkat}, 3}, /* that do not replace */
    {"truncate", {SYS_ftruncate, SYS_fallocate}, 2},
    {"remove", {SYS_unlink, SYS_unlinkat}, 2},
    {"seek", {SYS_lseek}, 1},
    {"lock", {SYS_flock, SYS_fcntl}, 2},
};
enum { N_GROUPS = sizeof groups / sizeof groups[0], MEMORY = 0, THREAD };

struct report {
    _Atomic uint64_t counted; /* calls of the group */
    _Atomic uint64_t struck;  /* of them made to fail */
    int64_t call, argument;   /* the last of those: system call (or -1) and its first argument */
    _Atomic uint64_t first;   /* K; another process may change it, and `counted`, at any time */
};

static struct report nowhere, *report = &nowhere;
static int chosen = -1; /* a group, N_GROUPS: every system call of them */
static int action;
static int from_on;

/* Counts a call of the chosen group; whether it is to fail. */
static int strikes(int64_t call, int64_t argument)
{
    uint64_t number = ++report->counted, first = report->first;
    if (first == 0 || (from_on ? number < first : number != first))
        return 0;
    report->struck++;
    report->call = call;
    report->argument = argument;
    return 1;
}

/* --- system calls ------------------------------------------------------------------------- */

static long system_call(long number, const long *a)
{
    long result;
    register long d __asm__("r10") = a[3], e __asm__("r8") = a[4], f __asm__("r9") = a[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(d), "r"(e), "r"(f)
                     : "rcx", "r11", "memory");
    return result;
}

static long fail(long number, long *a)
{
    if (action < 0) {
        const long arguments[6] = {getpid(), getpid(), -action}; /* smolrun's sandbox allows this */
        system_call(SYS_tgkill, arguments);
        return system_call(number, a);
    }
    if (action == 0) {
        a[2] = a[2] > 1 ? a[2] / 2 : a[2];
        return system_call(number, a);
    }
    if (number == SYS_close) /* it is closed all the same */
        system_call(number, a);
    return -action;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    long a[6] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    int number = info->si_syscall;
    /* where nothing can be written any more, the complaint still can */
    int spared = from_on && number == SYS_write && a[0] == STDERR_FILENO;
    r[REG_RAX] = !spared && strikes(number, a[0]) ? fail(number, a) : system_call(number, a);
}

/* The text of libc, where its system calls are. */
struct range {
    uintptr_t base, start, end;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct range *libc = argument;
    if (info->dlpi_addr != libc->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            libc->start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            libc->end = libc->start + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static void give_up(const char *why)
{
    fprintf(stderr, "fault: %s\n", why);
    _exit(125);
}

static struct range find_libc(void)
{
    Dl_info info;
    struct range libc = {0};
    void *function = dlsym(RTLD_NEXT, "fsync");
    if (!function || !dladdr(function, &info))
        give_up("libc not found");
    libc.base = (uintptr_t)info.dli_fbase;
    dl_iterate_phdr(find_text, &libc);
    if (!libc.end || libc.start >> 32 != libc.end >> 32)
        give_up("libc lies across 4 GiB: run it again");
    return libc;
}

/* Appends one jump for each call of a group: equal means the trap, which comes last. */
static size_t add_calls(struct sock_filter *filter, size_t n, const struct group *group)
{
    for (size_t i = 0; i < group->n_calls; i++)
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                   (uint32_t)group->calls[i], 0, 0);
    return n;
}

static void trap_calls(void)
{
    enum { HEAD = 6, MAX_FILTER = HEAD + N_GROUPS * MAX_CALLS + 2 };
    struct range libc = find_libc();
    const uint32_t ip = offsetof(struct seccomp_data, instruction_pointer);
    struct sock_filter filter[MAX_FILTER] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(libc.start >> 32), 0, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ip),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)libc.start, 0, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)libc.end, 0, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    size_t n = HEAD;
    for (int i = 0; i < N_GROUPS; i++)
        if (chosen == i || chosen == N_GROUPS)
            n = add_calls(filter, n, &groups[i]);
    size_t allow = n, trap = n + 1; /* jumps count from the next instruction */
    filter[1].jf = (uint8_t)(allow - 2);
    filter[3].jf = (uint8_t)(allow - 4);
    filter[4].jt = (uint8_t)(allow - 5);
    for (size_t i = HEAD; i < n; i++)
        filter[i].jt = (uint8_t)(trap - i - 1);
    filter[allow] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[trap] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);

    /* not deferred: a handler that a signal starts within this one makes system calls too */
    struct sigaction on_sys = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const struct sock_fprog program = {.len = (unsigned short)(n + 2), .filter = filter};
    if (sigaction(SIGSYS, &on_sys, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        give_up("no seccomp filter");
}

/* --- starting ----------------------------------------------------------------------------- */

static void open_report(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, sizeof *report))
        give_up("no report");
    void *map = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        give_up("no report");
    close(fd);
    report = map;
}

__attribute__((constructor)) static void start(void)
{
    char name[16];
    int group = 0;
    unsigned long first;
    const char *plan = getenv("SMOL_FAULT"), *path = getenv("SMOL_FAULT_REPORT");
    if (!plan)
        return;
    if (sscanf(plan, "%15s %d %lu %d", name, &action, &first, &from_on) != 4 || !path)
        give_up("SMOL_FAULT or SMOL_FAULT_REPORT makes no sense");
    while (group < N_GROUPS && strcmp(groups[group].name, name) != 0)
        group++;
    if (group == N_GROUPS && strcmp(name, "all") != 0)
        give_up("no such group");
    open_report(path);
    report->first = first;
    chosen = group;
    if (group == N_GROUPS || groups[group].n_calls)
        trap_calls();
}

/* --- allocations and threads -------------------------------------------------------------- */

#ifdef FAULT_WRAP
#define NAME(function) __wrap_##function
#define REAL(function) __real_##function
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
#else
#define NAME(function) function
#define REAL(function) __libc_##function
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
#endif

#pragma GCC visibility push(default)

static int no_memory(void)
{
    if (chosen != MEMORY || !strikes(-1, 0))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *NAME(malloc)(size_t size)
{
    return no_memory() ? NULL : REAL(malloc)(size);
}

void *NAME(calloc)(size_t n, size_t size)
{
    return no_memory() ? NULL : REAL(calloc)(n, size);
}

void *NAME(realloc)(void *old, size_t size)
{
    return no_memory() ? NULL : REAL(realloc)(old, size);
}

#ifdef FAULT_WRAP
void *NAME(aligned_alloc)(size_t alignment, size_t size)
{
    return no_memory() ? NULL : REAL(aligned_alloc)(alignment, size);
}

int NAME(posix_memalign)(void **out, size_t alignment, size_t size)
{
    return no_memory() ? ENOMEM : REAL(posix_memalign)(out, alignment, size);
}

char *NAME(strdup)(const char *text)
{
    return no_memory() ? NULL : REAL(strdup)(text);
}

char *NAME(strndup)(const char *text, size_t n)
{
    return no_memory() ? NULL : REAL(strndup)(text, n);
}

#define REAL_PTHREAD(function, ...) __real_##function(__VA_ARGS__)
#else
void *aligned_alloc(size_t alignment, size_t size)
{
    return no_memory() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *memory = no_memory() ? NULL : __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}

#define REAL_PTHREAD(function, ...)                                                                \
    ((__typeof__(&function))dlsym(RTLD_NEXT, #function))(__VA_ARGS__)
#endif

int NAME(pthread_create)(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                         void *argument)
{
    if (chosen == THREAD && strikes(-1, 0))
        return EAGAIN;
    return REAL_PTHREAD(pthread_create, thread, attributes, run, argument);
}
