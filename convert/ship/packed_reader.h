/* A packed file as it arrives, from a file or a pipe: finds the frames in it, and refuses what
 * `pack` does not make. See format/PACKED.md. */
#ifndef SMOL_CONVERT_PACKED_READER_H
#define SMOL_CONVERT_PACKED_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/input.h"
#include "common/error.h"
#include "format/packed.h"

enum { READER_FRAMES = 16 }; /* that can be looked at together: the reader's memory is theirs */

struct packed_frame {
    const uint8_t *data; /* (size), the reader's */
    size_t size;
    size_t content; /* bytes that the frame says it holds, at most PACKED_PIECE */
};

struct packed_reader {
    struct input input;
    bool is_file;      /* what is passed need not be read */
    uint8_t *data;     /* (capacity) */
    size_t start, end; /* what has arrived and has not been passed: data[start, end) */
    bool ended;        /* nothing comes after it */
    uint64_t position; /* of data[start] in the packed file; the caller may know better */
};

/* Opens `path`, "-" for standard input; it outlives the reader, which is to be closed even
 * after an error. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_packed_open(const char *path, struct packed_reader *reader, smol_error *error);

/* Waits for a frame, and finds up to `max` (at most READER_FRAMES) that have arrived. *n is 0 where
 * the frames end: at the seek table, or with the input. They stay valid until the next call.
 * Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_packed_frames(struct packed_reader *reader, uint32_t max,
                               struct packed_frame *frames, uint32_t *n, smol_error *error);

/* Passes `size` bytes, or what there is of them. Errors: SMOL_ERROR_FILE. */
smol_status smol_packed_skip(struct packed_reader *reader, uint64_t size, smol_error *error);

/* Passes up to `size` bytes, into `data`; *n is how many there are. Errors: SMOL_ERROR_FILE. */
smol_status smol_packed_read(struct packed_reader *reader, void *data, size_t size, size_t *n,
                             smol_error *error);

/* After a failed open too, or for one that was never opened, with input.fd -1. */
void smol_packed_close(struct packed_reader *reader);

#endif
