/* Reads JSON files, see json.h. */
#include "convert/base/json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/hash.h"
#include "common/text.h"
#include "convert/base/foreign.h"

/* jansson uses up to 200 bytes of memory for a value, which may be only two bytes of text. So both
 * the size and the number of values are limited. The largest tokenizers have about two million
 * values. */
enum { JSON_MAX_SIZE = 64 << 20, JSON_MAX_VALUES = 4000000 };

/* Counts commas and opening brackets outside strings. The number of values is at most this count
 * plus 1. */
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

/* When memory runs out, jansson may drop a character and continue, report a fault in the text or,
 * within an escape sequence, abort. So these functions watch its allocations: after the first
 * failure in a load, all later allocations of the load fail too. */
static _Thread_local bool loading, out_of_memory;

static void *watched_malloc(size_t size)
{
    void *memory = loading && out_of_memory ? NULL : malloc(size);
    out_of_memory |= !memory;
    return memory;
}

/* Returns NULL on an error, with *cause filled or out_of_memory set. */
static json_t *load_json(const struct file_view *file, size_t flags, json_error_t *cause)
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

static bool is_of_number(uint8_t c)
{
    return is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

/* Returns the length of the number at the start of text[0..size). Sets *is_large if it is an
 * integer that does not fit 64 bits. */
static size_t measure_number(const uint8_t *text, size_t size, bool *is_large)
{
    bool is_negative = text[0] == '-', is_integer = true;
    const char *most = is_negative ? "9223372036854775808" : "9223372036854775807";
    const size_t n_most = strlen(most);
    size_t n = is_negative;
    for (; n < size && is_of_number(text[n]); n++)
        is_integer &= is_digit(text[n]);
    size_t n_digits = n - is_negative;
    *is_large =
        is_integer && (n_digits > n_most ||
                       (n_digits == n_most && memcmp(text + n - n_digits, most, n_most) > 0));
    return n;
}

/* Returns the length of a word at the start of text[0..size) that Python writes for a number that
 * JSON lacks, or 0. */
static size_t measure_word(const uint8_t *text, size_t size)
{
    static const char *const words[] = {"Infinity", "-Infinity", "NaN"};
    size_t end = 0;
    for (size_t i = 0; i < 3 && end == 0; i++) {
        size_t n = strlen(words[i]);
        end = size >= n && memcmp(text, words[i], n) == 0 ? n : 0;
    }
    size_t next = end;
    while (next < size && text[next] <= ' ') /* control characters are errors in any case */
        next++;
    return next < size && text[next] == ':' ? 0 : end; /* no key of an object */
}

static size_t measure_string(const uint8_t *text, size_t size)
{
    size_t n = 1;
    while (n < size && text[n] != '"')
        n += text[n] == '\\' ? 2 : 1;
    return n < size ? n + 1 : size;
}

/* Copies the text. Each integer beyond 64 bits gets an "e0", which makes it a real, and each word
 * of measure_word quotes. The caller frees copy->data. Returns false when memory runs out. */
static bool copy_as_json(const struct file_view *file, struct file_view *copy)
{
    uint8_t *out = malloc(2 * file->size); /* 2 bytes more for each 19 digits, and for each word */
    size_t size = file->size, n = 0;
    *copy = (struct file_view){.data = out};
    if (!out)
        return false;
    for (size_t i = 0, length; i < size; i += length) {
        size_t word = measure_word(file->data + i, size - i);
        bool is_large = false;
        length = word ? word : 1;
        if (file->data[i] == '"')
            length = measure_string(file->data + i, size - i);
        else if (!word && is_of_number(file->data[i]))
            length = measure_number(file->data + i, size - i, &is_large);
        if (word)
            out[n++] = '"';
        memcpy(out + n, file->data + i, length);
        n += length;
        if (word)
            out[n++] = '"';
        memcpy(out + n, "e0", is_large ? 2 : 0);
        n += is_large ? 2 : 0;
    }
    copy->size = n;
    return true;
}

/* Loads a text that jansson refuses, but Python reads: with integers beyond 64 bits, Infinity or
 * NaN. */
static json_t *load_as_python(const struct file_view *file, json_error_t *cause)
{
    struct file_view copy;
    json_t *value = NULL;
    out_of_memory = !copy_as_json(file, &copy);
    if (!out_of_memory)
        value = load_json(&copy, 0, cause);
    free((void *)(uintptr_t)copy.data);
    if (!value && !out_of_memory) /* finds the error at its place in the original text */
        json_decref(load_json(file, JSON_DECODE_INT_AS_REAL, cause));
    return value;
}

static smol_status fail_parse(const char *path, const struct file_view *file,
                              const json_error_t *cause, smol_error *error)
{
    const char *kind = smol_foreign_kind(path, file->data, file->size);
    if (kind)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: not JSON, but %s", path, kind);
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: not valid JSON: %s (line %d, column %d): correct it or download it again",
                     path, cause->text, cause->line, cause->column);
}

/* Parses the file, whose value must have the type, JSON_OBJECT or JSON_ARRAY. */
static smol_status parse(const char *path, const struct file_view *file, json_type type,
                         json_t **whole, smol_error *error)
{
    *whole = NULL;
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
    json_t *value = load_json(file, 0, &cause);
    if (!value && !out_of_memory)
        value = load_as_python(file, &cause);
    if (out_of_memory)
        return smol_fail_memory(error, path);
    if (!value)
        return fail_parse(path, file, &cause, error);
    if (json_typeof(value) != type) {
        json_decref(value);
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: must be %s (line 1, column 1): correct it or download it again", path,
                         type == JSON_OBJECT ? "an object, found a list"
                                             : "a list, found an object");
    }
    *whole = value;
    return SMOL_OK;
}

static smol_status load(const char *path, json_type type, json_t **whole, struct json_mark *mark,
                        smol_error *error)
{
    struct file_view file;
    *whole = NULL;
    *mark = (struct json_mark){0};
    smol_status status = smol_file_map(path, &file, error);
    if (status)
        return status;
    status = parse(path, &file, type, whole, error);
    if (!status)
        *mark = (struct json_mark){file.size, smol_digest(file.data, file.size)};
    status = file_settle(&file, path, status, error);
    smol_file_close(&file);
    if (status) {
        json_decref(*whole);
        *whole = NULL;
    }
    return status;
}

smol_status smol_json_load(const char *path, json_t **object, struct json_mark *mark,
                           smol_error *error)
{
    return load(path, JSON_OBJECT, object, mark, error);
}

smol_status smol_json_parse(const char *path, const void *text, size_t size, json_t **object,
                            smol_error *error)
{
    const struct file_view file = {.data = text, .size = size};
    return parse(path, &file, JSON_OBJECT, object, error);
}

smol_status smol_json_load_optional(const char *path, json_type type, json_t **whole,
                                    struct json_mark *mark, smol_error *error)
{
    *whole = NULL;
    *mark = (struct json_mark){0};
    return smol_is_missing(path) ? SMOL_OK : load(path, type, whole, mark, error);
}
