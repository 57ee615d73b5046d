/* Input that is read in order: a file, a pipe, or standard input. */
#ifndef SMOL_CLI_INPUT_H
#define SMOL_CLI_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

struct input {
    int fd;
    const char *name;  /* for messages; points into the path, which must outlive the input */
    uint64_t position; /* bytes read */
};

/* Opens `path`; "-" is standard input. After an error the input is closed. Errors: FILE, MEMORY. */
smol_status smol_input_open(const char *path, struct input *input, smol_error *error);

/* Reads into data[0..size). *n is `size`, or less at the end of the input. Errors: FILE,
 * MEMORY, with the system's reason. */
smol_status smol_input_read(struct input *input, void *data, size_t size, size_t *n,
                            smol_error *error);

/* Reads like smol_input_read, but returns as soon as some bytes have arrived. *n is 0 only at the
 * end. */
smol_status smol_input_read_some(struct input *input, void *data, size_t size, size_t *n,
                                 smol_error *error);

/* Reads like read(2), but waits if the descriptor does not (O_NONBLOCK, which another process that
 * shares a pipe or a terminal may have set). */
ssize_t smol_read(int fd, void *data, size_t size);

/* Closes the input. Safe after a failed open too. */
void smol_input_close(struct input *input);

#endif
