/* Sequential input, see input.h. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"

smol_status smol_input_open(const char *path, struct input *input, smol_error *error)
{
    bool standard = strcmp(path, "-") == 0;
    *input = (struct input){
        .fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC),
        .name = standard ? "standard input" : smol_base_name(path),
    };
    return input->fd >= 0 ? SMOL_OK : smol_fail_errno(error, path, "open");
}

ssize_t smol_read(int fd, void *data, size_t size)
{
    struct pollfd in = {.fd = fd, .events = POLLIN};
    ssize_t n;
    while ((n = read(fd, data, size)) < 0 && errno == EAGAIN)
        if (poll(&in, 1, -1) < 0)
            return -1;
    return n;
}

smol_status smol_input_read_some(struct input *input, void *data, size_t size, size_t *n,
                                 smol_error *error)
{
    ssize_t got;
    do
        got = smol_read(input->fd, data, size);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return smol_fail_errno(error, input->name, "read");
    *n = (size_t)got;
    input->position += *n;
    return SMOL_OK;
}

smol_status smol_input_read(struct input *input, void *data, size_t size, size_t *n,
                            smol_error *error)
{
    smol_status status = SMOL_OK;
    size_t got = 1;
    for (*n = 0; !status && *n < size && got > 0; *n += got) {
        got = 0;
        status = smol_input_read_some(input, (uint8_t *)data + *n, size - *n, &got, error);
    }
    return status;
}

void smol_input_close(struct input *input)
{
    if (input->fd > STDIN_FILENO)
        close(input->fd);
    *input = (struct input){.fd = -1};
}
