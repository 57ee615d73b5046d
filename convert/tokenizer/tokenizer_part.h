/* Looking at the parts of a tokenizer.json: objects with a "type", some of them sequences of
 * others. */
#ifndef SMOL_CONVERT_TOKENIZER_PART_H
#define SMOL_CONVERT_TOKENIZER_PART_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "common/error.h"

/* A key that is absent and one that is null say the same. */
static inline bool part_is_set(const json_t *value)
{
    return value && !json_is_null(value);
}

static inline bool part_has_type(const json_t *part, const char *type)
{
    const char *found = json_string_value(json_object_get(part, "type"));
    return found && strcmp(found, type) == 0;
}

/* Whether `part` is a Sequence; its parts, listed under `key`, are then in *parts. */
static inline bool part_is_sequence(const json_t *part, const char *key, const json_t **parts)
{
    *parts = json_object_get(part, key);
    return part_has_type(part, "Sequence") && json_is_array(*parts);
}

/* Refuses `value`, quoting it: "`what` is not supported". SMOL_ERROR_UNSUPPORTED. */
smol_status smol_part_refuse(const char *path, const char *what, const json_t *value,
                             smol_error *error);

#endif
