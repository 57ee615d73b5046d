/* A file with a model's tensors, and a tensor's elements as numbers. */
#ifndef SMOL_CONVERT_MODEL_TENSOR_H
#define SMOL_CONVERT_MODEL_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"
#include "format/reader.h"

/* A file with a model's tensors, a .smol blob or safetensors, distinguished by its first bytes. */
struct model_file {
    bool is_blob;
    struct blob blob;               /* one of the two is open */
    struct safetensors safetensors; /* holds the path, not owned */
};

/* Opens `path` with one mapping. Reads a file that begins like a blob as a blob (see
 * smol_blob_open), and any other as safetensors, whose reader names other kinds of file. After an
 * error, nothing stays open. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_model_file_open(const char *path, enum verify verify, struct model_file *file,
                                 smol_error *error);

/* Returns whether `path` begins like a blob; false if it cannot be read. */
bool smol_model_file_is_blob(const char *path);

/* Checks that the file has not changed since it was mapped, see smol_file_check. */
smol_status smol_model_file_check(const struct model_file *file, const char *path,
                                  smol_error *error);

/* Frees everything; a zeroed file is allowed. */
void smol_model_file_close(struct model_file *file);

/* A tensor of a blob or of safetensors. */
struct model_tensor {
    const char *name;                /* of its role, or as in the file */
    bool has_role, is_alias;         /* an alias: a tied output matrix, which is the embedding */
    struct tensor_key key;           /* if has_role */
    const struct blob_tensor *tiled; /* one of these is NULL */
    const int8_t *levels;            /* of an int6, int5 or int4 matrix */
    const struct safetensors_tensor *raw;
    const uint8_t *data;
    float offset;                           /* added to each element: see smol_checkpoint_offset */
    const struct safetensors_tensor *added; /* its first row is added to each row: see struct
                                               weights; or NULL */
    unsigned rank;
    uint64_t shape[SAFETENSORS_MAX_RANK];
    uint64_t n_elements;
};

/* Fill in the fields that follow from a tensor of safetensors or of a blob. */
void smol_tensor_set_raw(struct model_tensor *tensor, const struct safetensors_tensor *raw);
void smol_tensor_set_tiled(struct model_tensor *tensor, const struct blob *blob,
                           const struct blob_tensor *tiled);

/* Returns the name of the type: "BF16", or for a blob "int8". */
const char *smol_tensor_dtype(const struct model_tensor *tensor);

/* Returns the bytes in the file, including a blob's padding. */
uint64_t smol_tensor_size(const struct model_tensor *tensor);

/* Returns whether the elements can be read as numbers: floats of 8 bits (E4M3, E5M2), 16 bits and
 * more, and integers of up to 32 bits. */
bool smol_tensor_is_number(const struct model_tensor *tensor);

/* Reads elements [col, col + n) of a row, n <= TENSOR_PIECE, and widens them to double, which is
 * exact. The elements must be numbers. The tensor is treated as rows of `cols` elements; for a
 * tensor of a blob, `cols` must be its own. */
enum { TENSOR_PIECE = 1024 };
void smol_tensor_read(const struct model_tensor *tensor, uint64_t cols, uint64_t row, uint64_t col,
                      uint64_t n, double *out);

#endif
