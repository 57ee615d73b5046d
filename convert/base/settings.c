/* Reads keys by type, see settings.h. */
#include "convert/base/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "convert/base/json.h"

smol_status smol_settings_open(const char *folder, const char *name, bool required,
                               struct json_settings *settings, smol_error *error)
{
    *settings = (struct json_settings){.within = "", .error = error};
    settings->path = smol_path_join(folder, name);
    if (!settings->path)
        return smol_fail_memory(error, "a file name");
    if (required)
        return smol_json_load(settings->path, &settings->object, &settings->mark, error);
    return smol_json_load_optional(settings->path, JSON_OBJECT, &settings->object, &settings->mark,
                                   error);
}

void smol_settings_close(struct json_settings *settings)
{
    json_decref(settings->object);
    free(settings->path);
    *settings = (struct json_settings){0};
}

json_t *smol_setting(const struct json_settings *settings, const char *key)
{
    json_t *value = json_object_get(settings->object, key);
    return json_is_null(value) ? NULL : value;
}

bool smol_setting_is_null(const struct json_settings *settings, const char *key)
{
    return json_is_null(json_object_get(settings->object, key));
}

/* A value for a message: scalars as in JSON, long strings truncated, nothing as `absent`. */
struct shown_value {
    char text[64];
};

static struct shown_value show_value(const json_t *value, const char *absent)
{
    struct shown_value shown = {{0}};
    if (!value)
        snprintf(shown.text, sizeof shown.text, "%s", absent);
    else if (json_is_object(value) || json_is_array(value))
        snprintf(shown.text, sizeof shown.text, json_is_object(value) ? "an object" : "a list");
    else if (json_is_string(value))
        snprintf(shown.text, sizeof shown.text, "\"%.48s%s\"", json_string_value(value),
                 json_string_length(value) > 48 ? "..." : "");
    else
        json_dumpb(value, shown.text, sizeof shown.text - 1,
                   JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    return shown;
}

smol_status smol_setting_fail_item(const struct json_settings *settings, smol_status status,
                                   const char *place, const json_t *value, const char *remedy)
{
    return smol_fail(settings->error, status, "%s: %s%s is %s: %s", settings->path,
                     settings->within, place, show_value(value, "missing").text, remedy);
}

smol_status smol_setting_expect_item(const struct json_settings *settings, smol_status status,
                                     const char *place, const json_t *value, const char *expected)
{
    return smol_fail(settings->error, status, "%s: %s%s must be %s, found %s", settings->path,
                     settings->within, place, expected, show_value(value, "nothing").text);
}

smol_status smol_setting_fail(const struct json_settings *settings, smol_status status,
                              const char *key, const char *remedy)
{
    return smol_setting_fail_item(settings, status, key, json_object_get(settings->object, key),
                                  remedy);
}

smol_status smol_setting_expect(const struct json_settings *settings, smol_status status,
                                const char *key, const char *expected)
{
    return smol_setting_expect_item(settings, status, key, json_object_get(settings->object, key),
                                    expected);
}

static bool may_be_null(const struct json_settings *settings, const char *key)
{
    for (size_t i = 0; settings->nullable && settings->nullable[i]; i++)
        if (strcmp(settings->nullable[i], key) == 0)
            return true;
    return !settings->nullable;
}

/* Returns the value of `key`, or NULL if the default applies. */
static json_t *given(const struct json_settings *settings, const char *key)
{
    json_t *value = json_object_get(settings->object, key);
    return json_is_null(value) && may_be_null(settings, key) ? NULL : value;
}

smol_status smol_setting_integer(const struct json_settings *settings, const char *key,
                                 uint32_t min, uint32_t max, uint32_t *value)
{
    char expected[64];
    json_t *found = given(settings, key);
    if (!found)
        return SMOL_OK;
    snprintf(expected, sizeof expected, "an integer from %u to %u", min, max);
    if (!json_is_integer(found) || json_integer_value(found) < (json_int_t)min)
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, key, expected);
    if (json_integer_value(found) > (json_int_t)max)
        return smol_setting_expect(settings, SMOL_ERROR_UNSUPPORTED, key, expected);
    *value = (uint32_t)json_integer_value(found);
    return SMOL_OK;
}

smol_status smol_setting_flag(const struct json_settings *settings, const char *key,
                              uint32_t *value)
{
    json_t *found = given(settings, key);
    if (!found)
        return SMOL_OK;
    if (!json_is_boolean(found))
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, key, "true or false");
    *value = json_is_true(found);
    return SMOL_OK;
}

smol_status smol_setting_demand(const struct json_settings *settings, const char *key,
                                uint32_t wanted, const char *remedy)
{
    uint32_t value = wanted;
    smol_status status = smol_setting_flag(settings, key, &value);
    if (status || value == wanted)
        return status;
    return smol_setting_fail(settings, SMOL_ERROR_UNSUPPORTED, key, remedy);
}

smol_status smol_setting_real(const struct json_settings *settings, const char *key, double min,
                              double max, double *value)
{
    char expected[64];
    json_t *found = given(settings, key);
    if (!found)
        return SMOL_OK;
    double number = json_number_value(found);
    if (!json_is_number(found) || !(number >= min && number <= max)) {
        snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, key, expected);
    }
    *value = number;
    return SMOL_OK;
}

smol_status smol_setting_fraction(const struct json_settings *settings, const char *key, double min,
                                  double max, double *value)
{
    json_t *found = given(settings, key);
    if (json_is_integer(found))
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, key,
                                   "a number with a decimal point");
    return smol_setting_real(settings, key, min, max, value);
}

smol_status smol_setting_string(const struct json_settings *settings, const char *key,
                                const char **value)
{
    json_t *found = given(settings, key);
    if (!found)
        return SMOL_OK;
    if (!json_is_string(found))
        return smol_setting_expect(settings, SMOL_ERROR_DAMAGED, key, "a string");
    *value = json_string_value(found);
    return SMOL_OK;
}

smol_status smol_setting_choice(const struct json_settings *settings, const char *key,
                                const char *const *choices, const char *expected, uint32_t *chosen)
{
    const char *text = NULL;
    smol_status status = smol_setting_string(settings, key, &text);
    if (status || !text)
        return status;
    for (uint32_t i = 0; choices[i]; i++) {
        *chosen = i;
        if (strcmp(text, choices[i]) == 0)
            return SMOL_OK;
    }
    return smol_setting_expect(settings, SMOL_ERROR_UNSUPPORTED, key, expected);
}

smol_status smol_setting_forbid(const struct json_settings *settings, const char *key,
                                const char *remedy)
{
    return smol_setting(settings, key)
               ? smol_setting_fail(settings, SMOL_ERROR_UNSUPPORTED, key, remedy)
               : SMOL_OK;
}
