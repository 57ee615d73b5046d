/* See files.h. */
#include "tests/fuzz/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/temporary.h"

static struct temporary temporary;

static void remove_folder(void)
{
    temporary_remove(&temporary);
}

const char *fuzz_folder(void)
{
    if (temporary.folder[0])
        return temporary.folder;
    strcpy(temporary.folder, "/dev/shm/smol-fuzz-XXXXXX");
    if (!mkdtemp(temporary.folder))
        temporary_make(&temporary);
    atexit(remove_folder);
    return temporary.folder;
}

const char *fuzz_path(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", fuzz_folder(), name);
    return path;
}

const char *fuzz_write(const char *name, const void *data, size_t size)
{
    const char *path = fuzz_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size) || close(fd))
        abort();
    return path;
}

struct built fuzz_read(const char *name)
{
    struct built file = {NULL, 0};
    struct stat info;
    int fd = open(fuzz_path(name), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return file;
    if (fstat(fd, &info))
        abort();
    file.size = (size_t)info.st_size;
    file.data = exact_zeros(file.size);
    if (read(fd, file.data, file.size) != (ssize_t)file.size || close(fd))
        abort();
    return file;
}

bool fuzz_remove(const char *name)
{
    return unlink(fuzz_path(name)) == 0;
}
