/* Output files, see output.h. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/file.h"
#include "common/memory.h"
#include "common/threads.h"

/* --- temporaries, and the signals that remove them ---------------------------------------- */

enum { SUFFIX_SIZE = 40, MAX_TRIES = 1000 };

struct temporary {
    struct temporary *next;
    bool kept;   /* not removed, however the process ends */
    int lock;    /* a second descriptor, which holds the lock until the file has its name; or -1 */
    char path[]; /* "": nothing to remove */
};

static struct temporary *temporaries; /* changed only while the signals are blocked */

static const int fatal_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_SIGNALS = sizeof fatal_signals / sizeof fatal_signals[0] };

static sigset_t signal_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(&set, fatal_signals[i]);
    return set;
}

static sigset_t block_signals(void)
{
    sigset_t set = signal_set(), old;
    threads_sigmask(SIG_BLOCK, &set, &old);
    return old;
}

static void unblock_signals(sigset_t old)
{
    threads_sigmask(SIG_SETMASK, &old, NULL);
}

/* Removes all temporaries. The handler is already reset (SA_RESETHAND), so the signal, raised
 * again, ends the process when this function returns. */
static void remove_all(int signal)
{
    for (const struct temporary *t = temporaries; t; t = t->next)
        if (t->path[0] && !t->kept)
            unlink(t->path);
    raise(signal);
}

void smol_output_remove_on_signals(void)
{
    struct sigaction action = {.sa_handler = remove_all, .sa_flags = (int)SA_RESETHAND}, old;
    action.sa_mask = signal_set();
    for (int i = 0; i < N_SIGNALS; i++)
        if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(fatal_signals[i], &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

/* Adds a temporary to the list, with room for a name beside `path`. */
static struct temporary *enlist(const char *path)
{
    struct temporary *temporary = smol_calloc(1, sizeof *temporary + strlen(path) + SUFFIX_SIZE);
    if (!temporary)
        return NULL;
    temporary->lock = -1;
    temporary->next = temporaries;
    temporaries = temporary;
    return temporary;
}

static void delist(struct temporary *temporary)
{
    struct temporary **link = &temporaries;
    while (*link != temporary)
        link = &(*link)->next;
    *link = temporary->next;
    smol_free(temporary);
}

/* --- opening ------------------------------------------------------------------------------ */

static smol_status check_target(const char *path, bool force, smol_error *error)
{
    struct stat info, target;
    if (!path[0])
        return smol_fail(error, SMOL_ERROR_FILE, "the output has an empty name: name a file");
    if (strcmp(path, "-") == 0) /* elsewhere "-" is standard output, which cannot be renamed */
        return smol_fail(error, SMOL_ERROR_FILE,
                         "-: standard output is not possible here: name a file (./- is one)");
    if (lstat(path, &info))
        return SMOL_OK;
    if (stat(path, &target) == 0)
        info = target; /* the target of a link must not be a device either */
    /* renaming over a device or a pipe would replace it: `-o /dev/null` must not */
    if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return smol_fail(error, SMOL_ERROR_FILE, "%s: is %s: name a file", path,
                         S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
    if (!force)
        return smol_fail(error, SMOL_ERROR_FILE, "%s: exists already: remove it or use --force",
                         path);
    return SMOL_OK;
}

/* Creates a file that no other process uses, with the mode of a new file. A name may be in use by a
 * killed process or by one on another machine, so several names are tried. Returns the descriptor,
 * or -1 with errno. */
static int create_new(const char *target, char *path)
{
    size_t size = strlen(target) + SUFFIX_SIZE;
    int fd = -1;
    for (int i = 0; i < MAX_TRIES && fd < 0; i++) {
        snprintf(path, size, "%s.tmp-%ld-%d", target, (long)getpid(), i);
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        path[0] = '\0';
    return fd;
}

/* Creates the temporary. Signals are blocked meanwhile, so that they find either no file or one
 * that they can remove. */
static smol_status create(struct output *output, smol_error *error)
{
    smol_status status = SMOL_OK;
    sigset_t old = block_signals();
    output->temporary = enlist(output->path);
    if (!output->temporary) {
        status = smol_fail_memory(error, "a file name");
    } else {
        output->fd = create_new(output->path, output->temporary->path);
        if (output->fd < 0)
            status = smol_fail_errno(error, output->path, "create");
    }
    unblock_signals(old);
    return status;
}

smol_status smol_output_open(const char *path, bool force, struct output *output, smol_error *error)
{
    *output = (struct output){.fd = -1, .force = force};
    smol_status status = check_target(path, force, error);
    if (status)
        return status;
    output->path = smol_strdup(path);
    status = output->path ? create(output, error) : smol_fail_memory(error, "a file name");
    if (status)
        smol_output_discard(output);
    return status;
}

/* --- continuing --------------------------------------------------------------------------- */

/* Opens `path` and locks it. If the process that held the lock has renamed the file, opens `path`
 * again. Returns the descriptor, or -1 with errno. */
static int open_locked(const char *path)
{
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        struct stat mine, there;
        bool failed = flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &mine);
        if (!failed && lstat(path, &there) == 0 && mine.st_dev == there.st_dev &&
            mine.st_ino == there.st_ino)
            return fd;
        int reason = errno;
        close(fd);
        errno = reason;
        if (failed)
            return -1;
    }
}

static smol_status continue_part(struct output *output, smol_error *error)
{
    struct stat info;
    const char *part = output->temporary->path;
    output->fd = open_locked(part);
    if (output->fd < 0 && errno == EWOULDBLOCK)
        return smol_fail(error, SMOL_ERROR_FILE, "%s: another process is writing it: wait for it",
                         part);
    if (output->fd < 0 || fstat(output->fd, &info))
        return smol_fail_errno(error, part, "open and lock");
    if (!S_ISREG(info.st_mode))
        return smol_fail(error, SMOL_ERROR_FILE, "%s: not a regular file: remove it", part);
    output->temporary->lock = fcntl(output->fd, F_DUPFD_CLOEXEC, 0);
    return output->temporary->lock < 0 ? smol_fail_errno(error, part, "lock") : SMOL_OK;
}

smol_status smol_output_resume(const char *path, bool force, struct output *output,
                               smol_error *error)
{
    *output = (struct output){.fd = -1, .force = force};
    smol_status status = check_target(path, force, error);
    if (status)
        return status;
    sigset_t old = block_signals();
    output->path = smol_strdup(path);
    output->temporary = output->path ? enlist(path) : NULL;
    if (output->temporary) {
        snprintf(output->temporary->path, strlen(path) + SUFFIX_SIZE, "%s.part", path);
        output->temporary->kept = true;
    }
    unblock_signals(old);
    status =
        output->temporary ? continue_part(output, error) : smol_fail_memory(error, "a file name");
    if (status)
        smol_output_discard(output);
    return status;
}

void smol_output_forget(struct output *output)
{
    output->temporary->kept = false;
}

smol_status smol_output_read(const struct output *output, uint64_t offset, void *data, size_t size,
                             size_t *n, smol_error *error)
{
    for (*n = 0; *n < size;) {
        ssize_t got = pread(output->fd, (uint8_t *)data + *n, size - *n, (off_t)(offset + *n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return smol_fail_errno(error, output->temporary->path, "read");
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return SMOL_OK;
}

/* --- writing ------------------------------------------------------------------------------ */

const char *smol_output_temporary(const struct output *output)
{
    return output->temporary->path;
}

smol_status smol_output_write(struct output *output, uint64_t offset, const void *data, size_t size,
                              smol_error *error)
{
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t n = pwrite(output->fd, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return smol_fail_errno(error, output->path, "write");
        bytes += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return SMOL_OK;
}

smol_status smol_output_truncate(struct output *output, uint64_t size, smol_error *error)
{
    if (fsync(output->fd))
        return smol_fail_errno(error, output->path, "sync");
    while (ftruncate(output->fd, (off_t)size))
        if (errno != EINTR)
            return smol_fail_errno(error, output->path, "cut");
    return SMOL_OK;
}

/* --- committing --------------------------------------------------------------------------- */

/* Opens the folder of `path`, for syncing it. Returns the descriptor, or -1 with errno. */
static int open_folder_of(const char *path)
{
    char *folder = smol_path_folder(path);
    if (!folder)
        return -1;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    smol_free(folder);
    return fd;
}

/* Renames without replacing. The flag needs support by the kernel (since 3.15) and the file system.
 * Without it, a hard link does not replace a file either. Some file systems (FAT over FUSE) support
 * neither: there, a file that appears between the check and the rename is lost. */
static int rename_new(const char *from, const char *to)
{
    enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE of linux/fs.h, which musl does not define */
    if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, NO_REPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (link(from, to) == 0) {
        unlink(from);
        return 0;
    }
    if (errno != EPERM && errno != ENOSYS && errno != EOPNOTSUPP)
        return -1;
    struct stat info;
    if (lstat(to, &info) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static smol_status rename_to_target(struct output *output, smol_error *error)
{
    const char *from = output->temporary->path, *to = output->path;
    if (!(output->force ? rename(from, to) : rename_new(from, to))) {
        output->temporary->path[0] = '\0';
        return SMOL_OK;
    }
    if (errno == EEXIST)
        return smol_fail(
            error, SMOL_ERROR_FILE,
            "%s: another process has just created it: remove it, or name another output", to);
    return smol_fail_errno(error, to, "rename the finished file to");
}

/* Makes the rename durable. A file system that cannot sync folders is not an error. */
static smol_status sync_folder(const struct output *output, int folder, smol_error *error)
{
    if (fsync(folder) == 0 || errno == EINVAL || errno == ENOTSUP)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%.300s: is in place, but its folder cannot be synced (%s): check the disk, a "
                     "power cut could undo it",
                     output->path, strerror(errno));
}

smol_status smol_output_commit(struct output *output, smol_error *error)
{
    smol_status status = SMOL_OK;
    int folder = open_folder_of(output->path);
    if (folder < 0 && errno != EACCES) /* a folder that cannot be read cannot be synced */
        status = smol_fail_errno(error, output->path, "open the folder of");
    if (!status && fsync(output->fd))
        status = smol_fail_errno(error, output->path, "sync");
    if (close(output->fd) && !status)
        status = smol_fail_errno(error, output->path, "close");
    output->fd = -1;
    if (!status)
        status = rename_to_target(output, error);
    if (!status && folder >= 0)
        status = sync_folder(output, folder, error);
    if (folder >= 0)
        close(folder);
    smol_output_discard(output);
    return status;
}

bool smol_output_discard(struct output *output)
{
    bool removed = true;
    sigset_t old = block_signals();
    if (output->fd >= 0)
        close(output->fd);
    struct temporary *temporary = output->temporary;
    if (temporary) {
        if (temporary->path[0] && !temporary->kept)
            removed = unlink(temporary->path) == 0;
        if (temporary->lock >= 0)
            close(temporary->lock);
        delist(temporary);
    }
    unblock_signals(old);
    smol_free(output->path);
    *output = (struct output){.fd = -1};
    return removed;
}
