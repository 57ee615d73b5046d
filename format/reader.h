/* Opens a blob: every byte of the front is checked at once, data chunks before their first use. */
#ifndef SMOL_FORMAT_READER_H
#define SMOL_FORMAT_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/file.h"
#include "common/listener.h"
#include "format/format.h"
#include "format/layout.h"
#include "format/template.h"
#include "format/tokenizer.h"

/* When the digests of data chunks are checked. */
enum verify { VERIFY_FIRST_USE, VERIFY_AT_OPEN, VERIFY_OFF };

struct blob {
    struct file_view file;
    const uint8_t *front;             /* (data_offset): header and tables */
    void *front_copy;                 /* owned: of a file that might change the front lies here */
    char *path;                       /* owned; for messages */
    const struct blob_header *header; /* this and what follows points into the front */
    const struct blob_model *model;
    const float *inv_freq; /* (n_rope_tables, rotary_dim / 2) */
    const uint8_t *layers; /* (n_layers), bits of enum layer_bit; NULL: all 0 */
    const uint32_t *stop;  /* (n_stop), ascending */
    size_t n_stop;
    const struct blob_generation *generation;
    const char *provenance; /* (n_provenance), not terminated */
    size_t n_provenance;
    const struct blob_tensor *tensors; /* (n_tensors), in the order of smol_tensor_next */
    size_t n_tensors;
    const uint8_t *template_section; /* (n_template), NULL: the model has no chat template */
    size_t n_template;
    struct template_code template;
    const uint64_t *digests; /* (n_chunks) */
    size_t n_chunks;
    struct text_tables text;     /* of the section, where there is one */
    const uint8_t *text_section; /* (n_text), 0 for a blob without one */
    size_t n_text;
    struct scanner_tables scanner;  /* of the section, where there is one */
    const uint8_t *scanner_section; /* (n_scanner) */
    size_t n_scanner;
    const struct blob_section *tokenizer_section;
    struct tokenizer_tables tokenizer;
    _Atomic unsigned char *checked; /* (n_chunks): 1 once a chunk's digest was right */
};

/* Opens `path`: maps it, or reads it into memory when `use_mmap` is false. Checks the header,
 * the front's digest, every structural rule of FORMAT.md, and the tokenizer section. The front of a
 * mapped file is copied, so that what was checked cannot change. On an error nothing stays open.
 * Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (a newer version, another
 * kind of file), SMOL_ERROR_MEMORY. */
smol_status smol_blob_open(const char *path, bool use_mmap, enum verify verify, struct blob *blob,
                           smol_error *error);

/* Opens a blob from a file that is already open. The blob takes the view over, also on an error,
 * and leaves it zeroed; `path` is for messages. */
smol_status smol_blob_open_view(struct file_view *file, const char *path, enum verify verify,
                                struct blob *blob, smol_error *error);

/* Opens a blob from the bytes data[0..size), aligned to BLOB_ALIGN; they stay the caller's and
 * outlive the blob, unchanged. `name` is for messages. */
smol_status smol_blob_open_bytes(const void *data, size_t size, const char *name,
                                 enum verify verify, struct blob *blob, smol_error *error);

/* Checks the header alone, of a file of which data[0..size) has arrived: magic, version, and that
 * data_offset and file_size make sense, so that the front can be waited for. */
smol_status smol_blob_check_header(const void *data, size_t size, const char *name,
                                   smol_error *error);

/* Opens a blob of which only the front has arrived: front (data_offset), aligned to BLOB_ALIGN,
 * after smol_blob_check_header; it stays the caller's and outlives the blob. There is no file, and
 * so no tokenizer, nor may digests be checked. */
smol_status smol_blob_open_front(const void *front, const char *name, struct blob *blob,
                                 smol_error *error);

/* Gives everything back; a zeroed blob is fine. */
void smol_blob_close(struct blob *blob);

/* Makes sure that the chunks behind bytes [offset, offset + size) of the file have the digests
 * that they should; chunks found right before are not read again. Thread-safe. Errors:
 * SMOL_ERROR_DAMAGED, naming section, tensor and offset. */
smol_status smol_blob_check(const struct blob *blob, uint64_t offset, uint64_t size,
                            smol_error *error);

/* Checks that data, the bytes of a chunk (BLOB_CHUNK_SIZE, or fewer at the end of the file), are
 * those that the blob's front promises. Errors: SMOL_ERROR_DAMAGED, as above. */
smol_status smol_blob_check_chunk(const struct blob *blob, size_t chunk, const uint8_t *data,
                                  smol_error *error);

/* Names the part of the file that the byte at `offset` belongs to: "header", "section stop",
 * "weights, tensor layers.3.attn_q". Padding belongs to what it follows. Returns `name`. */
enum { MAX_PLACE = MAX_NAME + 32 };
const char *smol_blob_place(const struct blob *blob, uint64_t offset, char name[MAX_PLACE]);

/* Checks all that smol_blob_open leaves out: every chunk's digest, whatever was found before and
 * also under VERIFY_OFF, and that the tensors hold numbers that the format allows, with zeros as
 * padding. The listener (may be NULL) is told of the bytes of the chunks and, after them, of the
 * tensors. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_CANCELLED. */
smol_status smol_blob_verify(const struct blob *blob, const struct listener *listener,
                             smol_error *error);

#endif
