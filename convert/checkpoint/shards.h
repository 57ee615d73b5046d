/* The weights of a checkpoint: one safetensors file, or the shards that an index lists
 * (model.safetensors.index.json, as huggingface_hub writes it). */
#ifndef SMOL_CONVERT_SHARDS_H
#define SMOL_CONVERT_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/json.h"
#include "convert/checkpoint/safetensors.h"

/* Each is a file that stays open; 1,024 open files are what a process may have by default. */
enum { MAX_SHARDS = 512 };

struct shards {
    char *path;                  /* the one file, or the index */
    struct json_mark index_mark; /* of the index; zeros without one */
    char **paths;                /* (n_files) */
    struct safetensors *files;   /* (n_files), in the order of their names */
    size_t n_files;
    struct safetensors all; /* the tensors of all files */
};

/* Whether `path` has an index's name. */
bool smol_shards_is_index(const char *path);

/* Opens the safetensors file or the index `path`. Every statement of an index is checked: its
 * shards lie beside it, it lists each of their tensors in the right shard and no others, their
 * sizes add up to its total, and no shard of the same series is missing or left over. On an error
 * nothing stays open. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (one
 * shard of several, a file of another kind, more than MAX_SHARDS), SMOL_ERROR_MEMORY. */
smol_status smol_shards_open(const char *path, struct shards *shards, smol_error *error);

/* The bytes of all files. */
uint64_t smol_shards_size(const struct shards *shards);

/* Whether `path` is one of the files, or the index. */
bool smol_shards_has(const struct shards *shards, const char *path);

/* The result of a step that ended with `status`, see file_settle. */
smol_status smol_shards_settle(const struct shards *shards, smol_status status, smol_error *error);

/* Gives everything back; zeroed shards are fine. */
void smol_shards_close(struct shards *shards);

#endif
