/* The standard streams, see standard.h. */
#include "cli/standard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

void smol_standard_reserve(void)
{
    /* open returns the lowest free number, which is fd: the lower ones are in use. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/", O_PATH | O_CLOEXEC); /* always exists, and can be neither read nor written */
}

smol_status smol_standard_flush(smol_error *error)
{
    if (!ferror(stdout) && fflush(stdout) == 0)
        return SMOL_OK;
    int reason = errno;
    __fpurge(stdout);
    if (reason == EPIPE) {
        *error = (smol_error){.status = SMOL_ERROR_FILE};
        return SMOL_ERROR_FILE;
    }
    return smol_fail(error, SMOL_ERROR_FILE, "standard output: cannot write (%s)",
                     strerror(reason));
}

/* A memory stream would do, but those of glibc do not report that memory ran out. */
static ssize_t hold(void *cookie, const char *data, size_t size)
{
    struct buffer *text = cookie;
    smol_buffer_add(text, data, size);
    return text->failed ? 0 : (ssize_t)size;
}

smol_status smol_held_start(struct held_output *held, smol_error *error)
{
    *held = (struct held_output){.file = NULL};
    held->file = fopencookie(&held->text, "w", (cookie_io_functions_t){.write = hold});
    return held->file ? SMOL_OK : smol_fail_memory(error, "the output");
}

smol_status smol_held_take(struct held_output *held, struct buffer *text, smol_error *error)
{
    fclose(held->file);
    *text = held->text;
    if (!text->failed)
        return SMOL_OK;
    smol_free(text->text);
    *text = (struct buffer){0};
    return smol_fail_memory(error, "the output");
}

void smol_held_drop(struct held_output *held)
{
    fclose(held->file);
    smol_free(held->text.text);
}

smol_status smol_held_release(struct held_output *held, smol_status status, smol_error *error)
{
    struct buffer text;
    smol_status held_status = smol_held_take(held, &text, status ? NULL : error);
    if (!status && !held_status)
        fwrite(text.text, 1, text.size, stdout);
    smol_free(text.text);
    return status ? status : held_status;
}
