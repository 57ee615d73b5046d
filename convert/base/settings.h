/* Reads keys of a checkpoint's JSON files by type. A value of the wrong type is an error that names
 * the key and the value. `null` counts as absent where transformers treats it so. */
#ifndef SMOL_CONVERT_BASE_SETTINGS_H
#define SMOL_CONVERT_BASE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/json.h"

/* An object in a JSON file. */
struct json_settings {
    json_t *object;     /* NULL if an optional file is missing */
    char *path;         /* of the file */
    const char *within; /* the object's place in the file: "" or "rope_parameters." */
    /* The keys that may be null, terminated by NULL. null is an error for other keys. If the
     * pointer itself is NULL, all keys may be null. */
    const char *const *nullable;
    smol_error *error;
    struct json_mark mark; /* of the file */
};

/* Opens `folder`/`name`. A missing file is an error only if `required` is set. The caller calls
 * smol_settings_close, also after an error. */
smol_status smol_settings_open(const char *folder, const char *name, bool required,
                               struct json_settings *settings, smol_error *error);
void smol_settings_close(struct json_settings *settings);

/* Returns the value of `key`, or NULL if it is absent or null (for any key) or the file is
 * missing. */
json_t *smol_setting(const struct json_settings *settings, const char *key);

/* Returns whether `key` is present and null, which excludes a default. */
bool smol_setting_is_null(const struct json_settings *settings, const char *key);

/* Report that the value of `key` is unacceptable, "path: key is value: remedy", or what it must be:
 * "path: key must be `expected`, found value". */
smol_status smol_setting_fail(const struct json_settings *settings, smol_status status,
                              const char *key, const char *remedy);
smol_status smol_setting_expect(const struct json_settings *settings, smol_status status,
                                const char *key, const char *expected);

/* Report the same about `value`, which is at `place`. */
smol_status smol_setting_fail_item(const struct json_settings *settings, smol_status status,
                                   const char *place, const json_t *value, const char *remedy);
smol_status smol_setting_expect_item(const struct json_settings *settings, smol_status status,
                                     const char *place, const json_t *value, const char *expected);

/* The functions below leave *value, the default, unchanged if the key is absent, or is null and may
 * be null. */

/* Reads an integer from min to max. Errors: SMOL_ERROR_DAMAGED below min or of another type,
 * SMOL_ERROR_UNSUPPORTED above max. */
smol_status smol_setting_integer(const struct json_settings *settings, const char *key,
                                 uint32_t min, uint32_t max, uint32_t *value);

/* Reads true or false as 1 or 0. */
smol_status smol_setting_flag(const struct json_settings *settings, const char *key,
                              uint32_t *value);

/* Refuses a flag other than `wanted`, the default, with SMOL_ERROR_UNSUPPORTED and
 * smol_setting_fail's message. */
smol_status smol_setting_demand(const struct json_settings *settings, const char *key,
                                uint32_t wanted, const char *remedy);

/* Reads a number from min to max, with or without a decimal point. Errors: SMOL_ERROR_DAMAGED
 * outside that range or of another type. */
smol_status smol_setting_real(const struct json_settings *settings, const char *key, double min,
                              double max, double *value);

/* Reads a number from min to max. Refuses integers, as transformers does. */
smol_status smol_setting_fraction(const struct json_settings *settings, const char *key, double min,
                                  double max, double *value);

/* Reads a string. *value belongs to the settings. */
smol_status smol_setting_string(const struct json_settings *settings, const char *key,
                                const char **value);

/* Reads a string that must be one of the NULL-terminated `choices`, with SMOL_ERROR_UNSUPPORTED and
 * smol_setting_expect's message. Sets *chosen to its index. */
smol_status smol_setting_choice(const struct json_settings *settings, const char *key,
                                const char *const *choices, const char *expected, uint32_t *chosen);

/* Refuses a key that is present and not null, as smol_setting_demand does. */
smol_status smol_setting_forbid(const struct json_settings *settings, const char *key,
                                const char *remedy);

#endif
