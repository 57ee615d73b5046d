/* A file with a model's tensors, a .smol blob or safetensors, distinguished by its first bytes. */
#ifndef SMOL_CONVERT_MODEL_FILE_H
#define SMOL_CONVERT_MODEL_FILE_H

#include <stdbool.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"
#include "format/reader.h"

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

#endif
