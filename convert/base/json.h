/* Reads the JSON files of a checkpoint with jansson. */
#ifndef SMOL_CONVERT_BASE_JSON_H
#define SMOL_CONVERT_BASE_JSON_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"

/* The size and digest of a file when it was read. The provenance describes that version, even if
 * the file has changed since. */
struct json_mark {
    uint64_t size; /* 0 for a missing file */
    uint64_t digest;
};

/* Reads the JSON object in file `path`, and fills *mark. Refuses duplicate keys, trailing data,
 * files over 64 MiB and more than 4 million values. An integer beyond 64 bits becomes a real:
 * transformers writes 10^30 for "no limit" into tokenizer_config.json. Infinity, -Infinity and NaN,
 * which JSON lacks but transformers wrote before version 5, become strings. The caller owns *object
 * (json_decref). Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (with line and column),
 * SMOL_ERROR_MEMORY. */
smol_status smol_json_load(const char *path, json_t **object, struct json_mark *mark,
                           smol_error *error);

/* Parses text[0..size) instead of a file. `path` is used in messages only. */
smol_status smol_json_parse(const char *path, const void *text, size_t size, json_t **object,
                            smol_error *error);

/* Works like smol_json_load, for an object or a list (JSON_OBJECT, JSON_ARRAY), but for a missing
 * file returns SMOL_OK, with *whole = NULL and *mark zeroed. */
smol_status smol_json_load_optional(const char *path, json_type type, json_t **whole,
                                    struct json_mark *mark, smol_error *error);

#endif
