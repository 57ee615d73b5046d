/* JSON files, see json.h. */
#include "convert/base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/hash.h"
#include "convert/checkpoint/foreign.h"

/* A value costs jansson up to some 200 bytes of memory and as little as two bytes of text, so both
 * are bounded. The largest tokenizers have about two million values. */
enum { JSON_MAX_SIZE = 64 << 20, JSON_MAX_VALUES = 4000000 };

/* Commas and opening brackets outside strings: at least as many as there are values, but one. */
static size_t count_values(const uint8_t *text, size_t size)
{
    size_t n = 0;
    bool within = false;
    for (size_t i = 0; i < size; i++) {
        if (within && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            within = !within;
        else if (!within)
            n += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return n;
}

/* When memory runs out jansson may lose a character and go on, blame the text, or, where that was
 * half of an escape, abort. So its allocations are watched, and once one has failed in a load, so
 * do those behind it. */
static _Thread_local bool loading, out_of_memory;

static void *watched_malloc(size_t size)
{
    void *memory = loading && out_of_memory ? NULL : malloc(size);
    out_of_memory |= !memory;
    return memory;
}

/* NULL with *cause, or with out_of_memory. */
static json_t *load(const struct file_view *file, size_t flags, json_error_t *cause)
{
    json_set_alloc_funcs(watched_malloc, free);
    out_of_memory = false;
    loading = true;
    json_t *value =
        json_loadb((const char *)file->data, file->size, JSON_REJECT_DUPLICATES | flags, cause);
    loading = false;
    if (!out_of_memory)
        return value;
    json_decref(value);
    return NULL;
}

static smol_status fail_parse(const char *path, const struct file_view *file,
                              const json_error_t *cause, smol_error *error)
{
    const char *kind = smol_foreign_kind(file->data, file->size);
    if (kind)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: not JSON but %s", path, kind);
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: not valid JSON: %s (line %d, column %d): correct it or download it again",
                     path, cause->text, cause->line, cause->column);
}

static smol_status parse(const char *path, const struct file_view *file, json_t **object,
                         smol_error *error)
{
    *object = NULL;
    if (file->size > JSON_MAX_SIZE)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: too large for JSON (%zu bytes, at most %d): name the right file",
                         path, file->size, JSON_MAX_SIZE);
    if (file->size == 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: empty: download it again", path);
    if (count_values(file->data, file->size) > JSON_MAX_VALUES)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: more than %d values: name the right file",
                         path, JSON_MAX_VALUES);
    json_error_t cause;
    json_t *value = load(file, 0, &cause);
    if (!value && !out_of_memory && json_error_code(&cause) == json_error_numeric_overflow)
        value = load(file, JSON_DECODE_INT_AS_REAL, &cause);
    if (out_of_memory)
        return smol_fail_memory(error, path);
    if (!value)
        return fail_parse(path, file, &cause, error);
    if (!json_is_object(value)) {
        json_decref(value);
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: a list where an object is due (line 1, column 1): "
                         "correct it or download it again",
                         path);
    }
    *object = value;
    return SMOL_OK;
}

smol_status smol_json_load(const char *path, json_t **object, struct json_mark *mark,
                           smol_error *error)
{
    struct file_view file;
    *object = NULL;
    *mark = (struct json_mark){0};
    smol_status status = smol_file_map(path, &file, error);
    if (status)
        return status;
    status = parse(path, &file, object, error);
    if (!status)
        *mark = (struct json_mark){file.size, smol_digest(file.data, file.size)};
    status = file_settle(&file, path, status, error);
    smol_file_close(&file);
    if (status) {
        json_decref(*object);
        *object = NULL;
    }
    return status;
}

smol_status smol_json_parse(const char *path, const void *text, size_t size, json_t **object,
                            smol_error *error)
{
    const struct file_view file = {.data = text, .size = size};
    return parse(path, &file, object, error);
}

smol_status smol_json_load_optional(const char *path, json_t **object, struct json_mark *mark,
                                    smol_error *error)
{
    struct stat info;
    *object = NULL;
    *mark = (struct json_mark){0};
    /* lstat: a link that leads nowhere is a mistake, not a missing file */
    if (lstat(path, &info) && errno == ENOENT)
        return SMOL_OK;
    return smol_json_load(path, object, mark, error);
}
