/* Access to whole files, see file.h. */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"

static const uint8_t empty_file[1];

/* Fills in the size and time of the file that view->fd refers to. Rejects a folder, device or pipe,
 * whose size is not reliable. */
static smol_status look_at(const char *name, struct file_view *view, smol_error *error)
{
    struct stat info;
    if (fstat(view->fd, &info))
        return smol_fail_errno(error, name, "stat");
    if (!S_ISREG(info.st_mode))
        return smol_fail(error, SMOL_ERROR_FILE, "%s: not a regular file (%s): name a file", name,
                         S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
    if ((uint64_t)info.st_size > SIZE_MAX / 2)
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%s: too large for this machine (%lld bytes): use a 64-bit machine", name,
                         (long long)info.st_size);
    view->size = (size_t)info.st_size;
    view->modified = info.st_mtim;
    return SMOL_OK;
}

/* Opens the file that `fd` refers to or, if `fd` is negative, the file `name`. O_NONBLOCK prevents
 * blocking on a FIFO without a writer; regular files ignore it. */
static smol_status open_file(int fd, const char *name, struct file_view *view, smol_error *error)
{
    int own =
        fd < 0 ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    *view = (struct file_view){.data = empty_file, .fd = own};
    if (own < 0)
        return smol_fail_errno(error, name, "open");
    smol_status status = look_at(name, view, error);
    if (status)
        close(own);
    return status;
}

static bool is_as_it_was(const struct file_view *view, const struct stat *now)
{
    return (uint64_t)now->st_size == view->size && now->st_mtim.tv_sec == view->modified.tv_sec &&
           now->st_mtim.tv_nsec == view->modified.tv_nsec;
}

/* --- mapping ------------------------------------------------------------------------------ */

static smol_status map(const char *path, struct file_view *view, smol_error *error)
{
    void *data = mmap(NULL, view->size, PROT_READ, MAP_SHARED, view->fd, 0);
    if (data == MAP_FAILED)
        return smol_fail_errno(error, path, "map");
    /* The system reads what is not in memory yet into huge pages, if it can. */
    if (view->size >= HUGE_PAGE)
        madvise(data, view->size, MADV_HUGEPAGE);
    view->mapping = smol_mapping_add(data, view->size);
    if (!view->mapping) {
        munmap(data, view->size);
        return smol_fail_memory(error, path);
    }
    view->data = data;
    view->hold = FILE_MAPPED;
    return SMOL_OK;
}

smol_status smol_file_map_fd(int fd, const char *name, struct file_view *view, smol_error *error)
{
    smol_status status = open_file(fd, name, view, error);
    if (!status && view->size > 0) {
        status = map(name, view, error);
        if (status)
            close(view->fd); /* otherwise the mapping keeps the descriptor */
    } else if (!status) {
        close(view->fd); /* an empty file cannot be mapped */
    }
    if (status)
        *view = (struct file_view){0};
    return status;
}

smol_status smol_file_check(const struct file_view *view, const char *name, smol_error *error)
{
    struct stat now;
    size_t offset;
    if (view->hold != FILE_MAPPED || !smol_mapping_is_guarded())
        return SMOL_OK;
    bool lost = smol_mapping_is_lost(view->mapping, &offset);
    if (fstat(view->fd, &now))
        return smol_fail_errno(error, name, "stat");
    bool shorter = (uint64_t)now.st_size < view->size;
    if (lost || shorter)
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%s: can no longer be read at offset %zu (%s): restore it and start again",
                         name, lost ? offset : (size_t)now.st_size,
                         shorter ? "it was truncated" : "the disk or the network failed");
    if (!is_as_it_was(view, &now))
        return smol_fail(
            error, SMOL_ERROR_FILE,
            "%s: was modified while in use: start again; to replace it, rename another "
            "file over it",
            name);
    return SMOL_OK;
}

/* --- reading ------------------------------------------------------------------------------ */

/* Reads the first `size` bytes of the view's file, which exist unless the file has changed. */
static smol_status read_some(const char *path, const struct file_view *view, void *data,
                             size_t size, smol_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(view->fd, (uint8_t *)data + done, size - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return smol_fail_errno(error, path, "read");
        if (n == 0)
            return smol_fail(error, SMOL_ERROR_FILE,
                             "%s: was truncated while being read: try again", path);
        done += (size_t)n;
    }
    return SMOL_OK;
}

smol_status smol_file_peek_fd(int fd, const char *name, void *data, size_t size, size_t *n,
                              size_t *file_size, smol_error *error)
{
    struct file_view view;
    smol_status status = open_file(fd, name, &view, error);
    if (status)
        return status;
    *file_size = view.size;
    *n = view.size < size ? view.size : size;
    status = read_some(name, &view, data, *n, error);
    close(view.fd);
    return status;
}

static smol_status read_all(const char *path, const struct file_view *view, uint8_t *data,
                            smol_error *error)
{
    struct stat now;
    smol_status status = read_some(path, view, data, view->size, error);
    if (status)
        return status;
    if (fstat(view->fd, &now))
        return smol_fail_errno(error, path, "stat");
    return is_as_it_was(view, &now)
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_FILE, "%s: was modified while being read: try again",
                           path);
}

smol_status smol_file_read_fd(int fd, const char *name, size_t limit, struct file_view *view,
                              smol_error *error)
{
    smol_status status = open_file(fd, name, view, error);
    void *data = NULL;
    if (!status) {
        if (view->size > limit)
            status = smol_fail(error, SMOL_ERROR_FILE,
                               "%s: too large (%zu bytes, at most %zu): use a smaller file", name,
                               view->size, limit);
        else if (view->size > 0 && !(data = smol_file_alloc(view->size)))
            status = smol_fail_memory(error, name);
        else
            status = read_all(name, view, data, error);
        close(view->fd);
    }
    if (status) {
        smol_free(data);
        *view = (struct file_view){0};
    } else if (data) {
        view->data = data;
        view->hold = FILE_ALLOCATED;
    }
    return status;
}

void smol_file_close(struct file_view *view)
{
    if (view->hold == FILE_MAPPED) {
        smol_mapping_remove(view->mapping);
        munmap((void *)(uintptr_t)view->data, view->size);
        close(view->fd);
    } else if (view->hold == FILE_ALLOCATED) {
        smol_free((void *)(uintptr_t)view->data);
    }
    *view = (struct file_view){0};
}

bool smol_is_missing(const char *path)
{
    struct stat info;
    return lstat(path, &info) && errno == ENOENT;
}

bool smol_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool smol_same_file(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

const char *smol_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *smol_path_folder(const char *path)
{
    const char *base = smol_base_name(path);
    return base == path ? smol_strdup(".") : smol_strndup(path, (size_t)(base - path));
}

char *smol_path_join(const char *folder, const char *name)
{
    size_t length = strlen(folder), size = length + strlen(name) + 2;
    const char *slash = length > 0 && folder[length - 1] == '/' ? "" : "/";
    char *path = smol_malloc(size);
    if (path)
        snprintf(path, size, "%s%s%s", folder, slash, name);
    return path;
}
