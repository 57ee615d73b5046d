/* Whole files, see file.h. */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t empty_file[1];

/* Opens a regular file; a folder, a device or a pipe has no size that could be relied on.
 * O_NONBLOCK keeps a FIFO without a writer from blocking; it means nothing to regular files. */
static enum status open_regular(const char *path, int *fd, size_t *size, struct error *error)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return smol_fail_errno(error, path, "open");
    struct stat info;
    enum status status = STATUS_OK;
    if (fstat(*fd, &info))
        status = smol_fail_errno(error, path, "stat");
    else if (!S_ISREG(info.st_mode))
        status = smol_fail(error, STATUS_FILE, "%s: not a regular file (%s): name a file", path,
                           S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
    else if ((uint64_t)info.st_size > SIZE_MAX / 2)
        status = smol_fail(error, STATUS_FILE, "%s: too large for this machine (%lld bytes)", path,
                           (long long)info.st_size);
    if (status) {
        close(*fd);
        return status;
    }
    *size = (size_t)info.st_size;
    return STATUS_OK;
}

enum status smol_file_map(const char *path, struct file_view *view, struct error *error)
{
    int fd;
    *view = (struct file_view){0};
    enum status status = open_regular(path, &fd, &view->size, error);
    if (status)
        return status;
    view->data = empty_file;
    if (view->size > 0) {
        void *data = mmap(NULL, view->size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            status = smol_fail_errno(error, path, "map");
        } else {
            view->data = data;
            view->hold = FILE_MAPPED;
        }
    }
    close(fd);
    if (status)
        *view = (struct file_view){0};
    return status;
}

static enum status read_all(int fd, const char *path, uint8_t *data, size_t size,
                            struct error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return smol_fail_errno(error, path, "read");
        if (n == 0)
            return smol_fail(error, STATUS_FILE, "%s: became shorter while it was read", path);
        done += (size_t)n;
    }
    return STATUS_OK;
}

enum status smol_file_read(const char *path, size_t limit, struct file_view *view,
                           struct error *error)
{
    int fd;
    *view = (struct file_view){0};
    enum status status = open_regular(path, &fd, &view->size, error);
    if (status)
        return status;
    view->data = empty_file;
    void *data = NULL;
    if (view->size > limit) {
        status = smol_fail(error, STATUS_FILE, "%s: too large (%zu bytes, at most %zu)", path,
                           view->size, limit);
    } else if (view->size > 0) {
        if (posix_memalign(&data, 64, view->size))
            status = smol_fail_memory(error, path);
        else
            status = read_all(fd, path, data, view->size, error);
    }
    close(fd);
    if (status) {
        free(data);
        *view = (struct file_view){0};
    } else if (data) {
        view->data = data;
        view->hold = FILE_ALLOCATED;
    }
    return status;
}

void smol_file_close(struct file_view *view)
{
    if (view->hold == FILE_MAPPED)
        munmap((void *)(uintptr_t)view->data, view->size);
    else if (view->hold == FILE_ALLOCATED)
        free((void *)(uintptr_t)view->data);
    *view = (struct file_view){0};
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

char *smol_path_join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}
