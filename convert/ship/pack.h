/* Compresses a blob for shipping, and restores it while it arrives, see format/PACKED.md. */
#ifndef SMOL_CONVERT_PACK_H
#define SMOL_CONVERT_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct pack_options {
    uint32_t level; /* of zstd, 1 to 22 */
    uint32_t n_threads;
    int force; /* 1: overwrite the output */
    int quiet; /* 1: no progress bar, no summary */
};

/* Packs the blob `input` into `output`, which appears complete or not at all. Verifies the whole
 * blob first. The same blob, level and release of zstd result in the same bytes for any number of
 * threads. Errors: those of smol_blob_open and smol_output_open. */
smol_status smol_pack(const char *input, const char *output, const struct pack_options *options,
                      smol_error *error);

struct unpack_options {
    uint32_t n_threads;
    int resume; /* 1: keep an unfinished output, and resume it */
    int force;  /* 1: overwrite the output */
    int quiet;  /* 1: no progress bar, no notes, no summary */
};

/* The position at which an unfinished output can be continued. */
struct unpack_rest {
    bool is_known;     /* `position` is valid; if it is not 0, OUTPUT.part is kept */
    uint64_t position; /* the first byte of the packed file that is still needed */
};

/* Unpacks `input` (a file, a pipe, or "-" for standard input) into the blob `output`, which appears
 * complete and verified or not at all. Checks each chunk as it arrives. With `resume`, the bytes
 * that have arrived are kept after an error (*rest), and the next call resumes there. Its input may
 * start at that byte or at the first byte of the packed file.
 *
 * Memory: 8.4 MB, 0.2 MB for each thread (at most READER_FRAMES threads are used), up to three
 * times the blob's front, and 20 bytes for each frame. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY,
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (an input that `smolconv pack` does not make, or a
 * blob of a newer format). */
smol_status smol_unpack(const char *input, const char *output, const struct unpack_options *options,
                        struct unpack_rest *rest, smol_error *error);

#endif
