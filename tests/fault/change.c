/* Changes a file while a program has it open, at a moment that no clock decides: right after the
 * k-th fstat of it. Our programs ask when they open a file and again after each step.
 *
 *     LD_PRELOAD=change.so CHANGE="K cut SIZE FILE"      makes it so short
 *                          CHANGE="K flip OFFSET FILE"   inverts the byte there
 *                          CHANGE="K swap 0 FILE"        renames FILE.new over it, after the k-th
 *                                                        open of it instead
 */
#undef _FILE_OFFSET_BITS /* both names of fstat are defined here */
#undef _TIME_BITS
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned long k;
static long long number;
static char action[8], path[512];
static struct stat target;
static atomic_ulong n_asked;

static void give_up(const char *why)
{
    fprintf(stderr, "change: %s\n", why);
    _exit(125);
}

__attribute__((constructor)) static void read_wish(void)
{
    const char *wish = getenv("CHANGE");
    if (!wish || sscanf(wish, "%lu %7s %lld %511[^\n]", &k, action, &number, path) != 4)
        give_up("CHANGE makes no sense");
    if (fstatat(AT_FDCWD, path, &target, 0))
        give_up("no such file");
}

static void change(void)
{
    unsigned char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int failed = fd < 0;
    if (strcmp(action, "cut") == 0)
        failed = failed || ftruncate(fd, number);
    else
        failed = failed || pread(fd, &byte, 1, number) != 1 ||
                 (byte ^= 0xff, pwrite(fd, &byte, 1, number)) != 1;
    if (failed || close(fd))
        give_up("cannot change the file");
}

static void swap(void)
{
    char other[600];
    snprintf(other, sizeof other, "%s.new", path);
    if (rename(other, path))
        give_up("cannot rename the other file");
}

/* open, and what the kernel does next. */
static int open_and_swap(const char *name, int flags, unsigned mode)
{
    struct stat info;
    int fd = openat(AT_FDCWD, name, flags, mode);
    if (fd >= 0 && strcmp(action, "swap") == 0 && fstatat(fd, "", &info, AT_EMPTY_PATH) == 0 &&
        info.st_dev == target.st_dev && info.st_ino == target.st_ino &&
        atomic_fetch_add(&n_asked, 1) + 1 == k)
        swap();
    return fd;
}

static int ask(int fd, struct stat *info)
{
    int result = fstatat(fd, "", info, AT_EMPTY_PATH);
    if (result == 0 && strcmp(action, "swap") != 0 && info->st_dev == target.st_dev &&
        info->st_ino == target.st_ino && atomic_fetch_add(&n_asked, 1) + 1 == k)
        change();
    return result;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT int fstat(int fd, struct stat *info)
{
    return ask(fd, info);
}

EXPORT int smol_fstat64(int fd, struct stat *info) __asm__("fstat64");
int smol_fstat64(int fd, struct stat *info)
{
    return ask(fd, info);
}

/* With and without the C library's checks of calls. */
#define OPEN(name)                                                                                 \
    EXPORT int name(const char *file, int flags, ...);                                             \
    int name(const char *file, int flags, ...)                                                     \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;                         \
        va_end(arguments);                                                                         \
        return open_and_swap(file, flags, mode);                                                   \
    }
#define OPEN_CHECKED(name)                                                                         \
    EXPORT int name(const char *file, int flags);                                                  \
    int name(const char *file, int flags)                                                          \
    {                                                                                              \
        return open_and_swap(file, flags, 0);                                                      \
    }
#undef open
#undef open64
OPEN(open)
OPEN(open64)
OPEN_CHECKED(__open_2)
OPEN_CHECKED(__open64_2)
