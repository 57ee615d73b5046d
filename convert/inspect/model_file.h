/* A file with a model's tensors, a .smol blob or safetensors, told apart by its first bytes. */
#ifndef SMOL_CONVERT_MODEL_FILE_H
#define SMOL_CONVERT_MODEL_FILE_H

#include <stdbool.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"
#include "format/reader.h"

struct model_file {
    bool is_blob;
    struct blob blob;               /* one of these is open */
    struct safetensors safetensors; /* holds the path, not owned */
};

/* Opens `path`, mapped once. What begins like a blob is read as one (see smol_blob_open),
 * everything else as safetensors, whose reader names other kinds of file. On an error nothing stays
 * open. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_model_file_open(const char *path, enum verify verify, struct model_file *file,
                                 smol_error *error);

/* Whether `path` begins like a blob; what cannot be read does not. */
bool smol_model_file_is_blob(const char *path);

/* Whether what was read of it was there, see smol_file_check. */
smol_status smol_model_file_check(const struct model_file *file, const char *path,
                                  smol_error *error);

/* Gives everything back; a zeroed file is fine. */
void smol_model_file_close(struct model_file *file);

#endif
