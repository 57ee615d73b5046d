/* Opens the weights of a checkpoint: one safetensors file, the shards that an index lists
 * (model.safetensors.index.json, as huggingface_hub writes it), or a GGUF file. */
#ifndef SMOL_CONVERT_SHARDS_H
#define SMOL_CONVERT_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/json.h"
#include "convert/checkpoint/gguf.h"
#include "convert/checkpoint/safetensors.h"

/* The most shards of a checkpoint. All files stay open; by default a process may have 1,024 open
 * files. */
enum { MAX_SHARDS = 512 };

struct shards {
    char *path;                  /* the single file, or the index */
    struct json_mark index_mark; /* of the index; zeroed if there is none */
    char **paths;                /* (n_files) */
    struct safetensors *files;   /* (n_files), in the order of their names */
    size_t n_files;
    struct safetensors all; /* the tensors of all files */
    struct gguf gguf;       /* the keys of a GGUF file, or the first; zeroed otherwise */
};

/* Returns whether `path` is named like an index. */
bool smol_shards_is_index(const char *path);

/* Opens the safetensors file, or the shards that the index `path` names. They must be in the same
 * folder, which may have no other shard of their series, and no two may have the same tensor. After
 * an error everything is closed. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED (one shard of several, a file of another kind, more than MAX_SHARDS),
 * SMOL_ERROR_MEMORY. */
smol_status smol_shards_open(const char *path, struct shards *shards, smol_error *error);

/* Opens the GGUF file `path`, and gives its tensors the names of a checkpoint. If
 * llama-gguf-split has made several files of a model, `path` is the first, and the others are
 * beside it. Errors: see smol_gguf_read, and SMOL_ERROR_FILE, SMOL_ERROR_UNSUPPORTED (another file
 * than the first, or more than MAX_SHARDS). */
smol_status smol_shards_open_gguf(const char *path, struct shards *shards, smol_error *error);

/* Returns the total size of all files in bytes, without the index. */
uint64_t smol_shards_size(const struct shards *shards);

/* Returns whether `path` is one of the files, or the index. */
bool smol_shards_has(const struct shards *shards, const char *path);

/* Returns the result of a step that ended with `status`, see file_settle. */
smol_status smol_shards_settle(const struct shards *shards, smol_status status, smol_error *error);

/* Closes all files and frees the memory. Zeroed shards are allowed. */
void smol_shards_close(struct shards *shards);

#endif
