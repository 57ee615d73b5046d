/* Opens a blob. Every byte of the front is checked at once, data chunks before their first use. */
#ifndef SMOL_FORMAT_READER_H
#define SMOL_FORMAT_READER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/file.h"
#include "common/listener.h"
#include "format/embedder.h"
#include "format/format.h"
#include "format/layout.h"
#include "format/template.h"
#include "format/tokenizer.h"

/* When the digests of data chunks are checked. */
enum verify { VERIFY_FIRST_USE, VERIFY_AT_OPEN, VERIFY_OFF };

struct blob {
    struct file_view file;
    const uint8_t *front; /* (data_offset): header and tables */
    void *front_copy;     /* owned: copy of the front of a file that might change, or NULL */
    char *path;           /* owned; for messages */
    const struct blob_header *header; /* this and the following pointers point into the front */
    struct blob_model *model_copy;    /* owned: the sections of a model, one after the other */
    const struct blob_model *model;   /* this copy */
    const float *inv_freq;            /* (n_rope_tables, rotary_dim / 2) */
    const uint8_t *layers;            /* (n_layers), bits of enum layer_bit; NULL: all 0 */
    const uint32_t *stop;             /* (n_stop), ascending */
    size_t n_stop;
    const struct blob_generation *generation;
    const char *provenance; /* (n_provenance), not terminated */
    size_t n_provenance;
    const struct blob_tensor *tensors; /* (n_tensors), in the order of smol_tensor_next */
    size_t n_tensors;
    const uint8_t *template_section; /* (n_template), NULL if the model has no chat template */
    size_t n_template;
    struct template_code template;
    const struct blob_encoder *encoder; /* NULL without FEATURE_ENCODER or FEATURE_EMBEDDER */
    struct embedder embedder;           /* zeroed without FEATURE_EMBEDDER */
    const uint8_t *embedder_section;    /* (n_embedder) */
    size_t n_embedder;
    const struct blob_levels *levels; /* (n_levels), NULL without FEATURE_MIXED */
    size_t n_levels;
    const uint64_t *digests; /* (n_chunks) */
    size_t n_chunks;
    struct text_tables text;     /* of the text section, if any */
    const uint8_t *text_section; /* (n_text), which is 0 for a blob without one */
    size_t n_text;
    struct scanner_tables scanner;  /* of the scanner section, if any */
    const uint8_t *scanner_section; /* (n_scanner) */
    size_t n_scanner;
    const struct blob_section *tokenizer_section;
    struct tokenizer_tables tokenizer;
    _Atomic unsigned char *checked; /* (n_chunks): 1 after a chunk's digest was verified */
};

/* Returns whether every token sees the whole text, not only what is before it. */
static inline bool blob_sees_ahead(const struct blob *blob)
{
    return blob->header->required_features & FEATURE_ENCODER;
}

/* Returns the values of the codes of an int6, int5 or int4 matrix (MAX_LEVELS), or NULL for other
 * tensors. */
static inline const int8_t *blob_levels(const struct blob *blob, const struct blob_tensor *tensor)
{
    return tensor->dtype > DTYPE_INT8 ? blob->levels[tensor->levels].values : NULL;
}

/* Returns the dtype that most weights in the layers have; of two, the one with more bits. */
enum blob_dtype smol_blob_dtype(const struct blob *blob);

/* Writes that dtype's name, and those of matrices with another one, such as "int4 (embedding int6,
 * output int6)". Returns `text`. */
enum { MAX_MIX = 128 };
const char *smol_blob_dtypes(const struct blob *blob, char text[MAX_MIX]);

/* Reads the blob that is open as `fd`, or if `fd` is negative the file `path`, into memory; the
 * caller closes *file. Its header and size are checked first, because a file that is not a blob
 * might be too large for memory. */
smol_status smol_blob_read(int fd, const char *path, struct file_view *file, smol_error *error);

/* Returns `status`, the failure to open `path`, or says what to do if it is a folder. */
smol_status smol_blob_unopened(const char *path, smol_status status, smol_error *error);

/* Opens `path`: maps it, or reads it into memory if `use_mmap` is false. Checks the header, the
 * front's digest, every structural rule of FORMAT.md, and the tokenizer section. Copies the front
 * of a mapped file, so that checked data cannot change. Leaves nothing open after an error. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (a newer version, another kind of
 * file), SMOL_ERROR_MEMORY. */
smol_status smol_blob_open(const char *path, bool use_mmap, enum verify verify, struct blob *blob,
                           smol_error *error);

/* Opens a blob from a file that is already open. The blob takes ownership of the view, even after
 * an error, and zeroes the caller's copy. `path` is for messages. */
smol_status smol_blob_open_view(struct file_view *file, const char *path, enum verify verify,
                                struct blob *blob, smol_error *error);

/* Opens a blob from the bytes data[0..size), aligned to BLOB_ALIGN. The caller owns them and must
 * keep them unchanged while the blob is open. `name` is for messages. */
smol_status smol_blob_open_bytes(const void *data, size_t size, const char *name,
                                 enum verify verify, struct blob *blob, smol_error *error);

/* Checks only the header of a file of which data[0..size) has arrived: magic, version, and that
 * data_offset is in range, so that the caller can wait for the front. */
smol_status smol_blob_check_header(const void *data, size_t size, const char *name,
                                   smol_error *error);

/* Opens a blob of which only the front has arrived: front (data_offset), aligned to BLOB_ALIGN,
 * after smol_blob_check_header. The caller owns it and must keep it while the blob is open. The
 * blob has no file, and so no tokenizer; digests must not be checked. */
smol_status smol_blob_open_front(const void *front, const char *name, struct blob *blob,
                                 smol_error *error);

/* Frees the blob's resources. A zeroed blob is allowed. */
void smol_blob_close(struct blob *blob);

/* Checks the digests of the chunks that contain bytes [offset, offset + size) of the file, except
 * those already found correct. Thread-safe. Errors: SMOL_ERROR_DAMAGED, naming section, tensor and
 * offset. */
smol_status smol_blob_check(const struct blob *blob, uint64_t offset, uint64_t size,
                            smol_error *error);

/* Checks `data`, the bytes of a chunk (BLOB_CHUNK_SIZE, or fewer at the end of the file), against
 * the digest in the blob's front. Errors: SMOL_ERROR_DAMAGED, as above. */
smol_status smol_blob_check_chunk(const struct blob *blob, size_t chunk, const uint8_t *data,
                                  smol_error *error);

/* Writes the name of the part of the file that contains the byte at `offset`, such as "header",
 * "section stop" or "weights, tensor layers.3.attn_q". Padding belongs to the part before it.
 * Returns `name`. */
enum { MAX_PLACE = MAX_NAME + 32 };
const char *smol_blob_place(const struct blob *blob, uint64_t offset, char name[MAX_PLACE]);

/* Checks everything that smol_blob_open omits: every chunk's digest, including those checked
 * earlier and under VERIFY_OFF, and that tensors contain only allowed numbers and zero padding.
 * Reports progress to the listener (may be NULL) in bytes of the chunks, then of the tensors.
 * Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_CANCELLED. */
smol_status smol_blob_verify(const struct blob *blob, const struct listener *listener,
                             smol_error *error);

#endif
