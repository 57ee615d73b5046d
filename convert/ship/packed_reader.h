/* Reads a packed file while it arrives from a file or a pipe. Finds its frames, and refuses input
 * that `pack` does not make. See format/PACKED.md. */
#ifndef SMOL_CONVERT_PACKED_READER_H
#define SMOL_CONVERT_PACKED_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/input.h"
#include "common/error.h"
#include "format/packed.h"

enum { READER_FRAMES = 16 }; /* returned at once at most; the reader has memory for this many */

struct packed_frame {
    const uint8_t *data; /* (size); belongs to the reader */
    size_t size;
    size_t content; /* bytes of content that the frame declares, at most PACKED_PIECE */
};

struct packed_reader {
    struct input input;
    bool is_file;      /* skipped bytes need not be read */
    uint8_t *data;     /* (capacity) */
    size_t start, end; /* data[start, end) has arrived and is not consumed yet */
    bool ended;        /* the input has ended */
    uint64_t position; /* of data[start] in the packed file; the caller may correct it */
};

/* Opens `path`, or standard input for "-". The string must outlive the reader. Close the reader
 * also after an error. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_packed_open(const char *path, struct packed_reader *reader, smol_error *error);

/* Waits for a frame, and finds up to `max` (at most READER_FRAMES) frames that have arrived. *n is
 * 0 after the last frame: at the seek table or at the end of the input. The frames stay valid until
 * the next call. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_packed_frames(struct packed_reader *reader, uint32_t max,
                               struct packed_frame *frames, uint32_t *n, smol_error *error);

/* Skips `size` bytes, or fewer if the input ends. Errors: SMOL_ERROR_FILE. */
smol_status smol_packed_skip(struct packed_reader *reader, uint64_t size, smol_error *error);

/* Reads up to `size` bytes into `data`. *n is their number, which is smaller only if the input
 * ends. Errors: SMOL_ERROR_FILE. */
smol_status smol_packed_read(struct packed_reader *reader, void *data, size_t size, size_t *n,
                             smol_error *error);

/* Closes the reader, also after a failed open. A reader that was never opened must have input.fd
 * -1. */
void smol_packed_close(struct packed_reader *reader);

#endif
