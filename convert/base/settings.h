/* Keys of a checkpoint's JSON files, read by type. A value that is not what its key calls for is an
 * error that names both. `null` counts as absent where the reference takes it so. */
#ifndef SMOL_CONVERT_BASE_SETTINGS_H
#define SMOL_CONVERT_BASE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/json.h"

/* An object in one of the files. */
struct json_settings {
    json_t *object;     /* NULL: an optional file that is missing */
    char *path;         /* of the file */
    const char *within; /* where in the file: "" or "rope_parameters." */
    /* The keys that may be null, ending with a NULL; elsewhere null is a value of no type. NULL:
     * all of them. */
    const char *const *nullable;
    smol_error *error;
    struct json_mark mark; /* the file's */
};

/* Opens `folder`/`name`; a missing file is an error only when `required`. The caller closes it,
 * after an error too. */
smol_status smol_settings_open(const char *folder, const char *name, bool required,
                               struct json_settings *settings, smol_error *error);
void smol_settings_close(struct json_settings *settings);

/* The value of `key`, or NULL when it is absent or null (whatever the key), or the file missing. */
json_t *smol_setting(const struct json_settings *settings, const char *key);

/* Whether `key` is there and null: where a default is not meant. */
bool smol_setting_is_null(const struct json_settings *settings, const char *key);

/* Reports the value of a key: "path: key is value: remedy". */
smol_status smol_setting_fail(const struct json_settings *settings, smol_status status,
                              const char *key, const json_t *value, const char *remedy);

/* Reports what a key must be: "path: key must be `expected`, found value". */
smol_status smol_setting_expect(const struct json_settings *settings, smol_status status,
                                const char *key, const json_t *value, const char *expected);

/* Each of these leaves *value, the default, alone when the key is absent or null and may be. */

/* An integer min..max. SMOL_ERROR_DAMAGED below, SMOL_ERROR_UNSUPPORTED above. */
smol_status smol_setting_integer(const struct json_settings *settings, const char *key,
                                 uint32_t min, uint32_t max, uint32_t *value);

/* true or false, as 1 or 0. */
smol_status smol_setting_flag(const struct json_settings *settings, const char *key,
                              uint32_t *value);

/* A number min..max, written as an integer or not. SMOL_ERROR_DAMAGED outside. */
smol_status smol_setting_real(const struct json_settings *settings, const char *key, double min,
                              double max, double *value);

/* A number min..max where the reference refuses integers. */
smol_status smol_setting_fraction(const struct json_settings *settings, const char *key, double min,
                                  double max, double *value);

/* A string; *value belongs to the settings. */
smol_status smol_setting_string(const struct json_settings *settings, const char *key,
                                const char **value);

#endif
