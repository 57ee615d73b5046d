/* The JSON files of a checkpoint, read with jansson. */
#ifndef SMOL_CONVERT_BASE_JSON_H
#define SMOL_CONVERT_BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"

/* The size and digest that a file had when it was read: the provenance describes that file, even if
 * it has changed since. */
struct json_mark {
    uint64_t size; /* 0: there is no such file */
    uint64_t digest;
};

/* Reads the JSON object in file `path`. Duplicate keys, trailing data and files over 64 MiB are
 * refused. An integer beyond 64 bits becomes a real: the reference writes 10^30 for "no limit" into
 * tokenizer_config.json. The caller owns *object (json_decref). Fills *mark too. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (with line and column), SMOL_ERROR_MEMORY. */
smol_status smol_json_load(const char *path, json_t **object, struct json_mark *mark,
                           smol_error *error);

/* Reads text[0..size) instead of a file; `path` is for messages. */
smol_status smol_json_parse(const char *path, const void *text, size_t size, json_t **object,
                            smol_error *error);

/* As smol_json_load, but a missing file gives SMOL_OK, *object = NULL and a *mark of zeros. */
smol_status smol_json_load_optional(const char *path, json_t **object, struct json_mark *mark,
                                    smol_error *error);

#endif
