/* Reading in order, see input.h. */
#include "common/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"

enum status smol_input_open(const char *path, struct input *input, struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    *input = (struct input){
        .fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC),
        .name = standard ? "standard input" : smol_base_name(path),
    };
    if (input->fd >= 0)
        return STATUS_OK;
    return smol_fail(error, STATUS_FILE, "%.300s: cannot open (%s): check the path", path,
                     strerror(errno));
}

enum status smol_input_read(struct input *input, void *data, size_t size, size_t *n,
                            struct error *error)
{
    for (*n = 0; *n < size;) {
        ssize_t got = read(input->fd, (uint8_t *)data + *n, size - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return smol_fail(error, STATUS_FILE, "%.300s: cannot read (%s): check the disk or link",
                             input->name, strerror(errno));
        if (got == 0)
            break;
        *n += (size_t)got;
        input->position += (uint64_t)got;
    }
    return STATUS_OK;
}

void smol_input_close(struct input *input)
{
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    *input = (struct input){.fd = -1};
}
