/* The parts of a tokenizer.json: objects with a "type". Some are sequences of other parts. */
#ifndef SMOL_CONVERT_JSON_PART_H
#define SMOL_CONVERT_JSON_PART_H

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* Returns whether a key has a value. An absent key is equivalent to null. */
static inline bool part_is_set(const json_t *value)
{
    return value && !json_is_null(value);
}

static inline bool part_has_type(const json_t *part, const char *type)
{
    const char *found = json_string_value(json_object_get(part, "type"));
    return found && strcmp(found, type) == 0;
}

/* Returns whether `part` is a Sequence, and sets *parts to its list under `key`. */
static inline bool part_is_sequence(const json_t *part, const char *key, const json_t **parts)
{
    *parts = json_object_get(part, key);
    return part_has_type(part, "Sequence") && json_is_array(*parts);
}

/* Refuses `value` and quotes it: "`what` is not supported". Returns SMOL_ERROR_UNSUPPORTED. */
static inline smol_status part_refuse(const char *path, const char *what, const json_t *value,
                                      smol_error *error)
{
    char *quoted =
        json_dumps(value ? value : json_null(), JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    smol_status status = smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                                   "%s: %s is not supported (%.200s): use another model", path,
                                   what, quoted ? quoted : "too large to quote");
    free(quoted);
    return status;
}

/* A string of the file, valid as long as the JSON value. */
struct json_text {
    const char *data; /* NULL: none */
    size_t size;
};

static inline struct json_text json_text_of(const json_t *value)
{
    return (struct json_text){json_string_value(value), json_string_length(value)};
}

#endif
