/* Reads the GGUF format (https://github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3: a
 * header, pairs of keys and values, a table of tensors, and their data. The reader works on a
 * memory mapping and treats all input as untrusted. */
#ifndef SMOL_CONVERT_GGUF_H
#define SMOL_CONVERT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"

/* The types of values, as the format numbers them. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    N_GGUF_TYPES,
};

/* A part of the file: text, not terminated. */
struct gguf_text {
    const char *data;
    uint64_t size;
};

static inline bool gguf_text_is(struct gguf_text text, const char *wanted)
{
    return text.size == strlen(wanted) && memcmp(text.data, wanted, text.size) == 0;
}

/* Returns how many bytes of a text a message shows, for %.*s. */
static inline int gguf_shown(struct gguf_text text)
{
    return text.size < 64 ? (int)text.size : 64;
}

struct gguf_value {
    struct gguf_text key; /* UTF-8 without NUL */
    enum gguf_type type;
    enum gguf_type item; /* of the items of an array; otherwise equal to type */
    uint64_t n;          /* items of an array; otherwise 1 */
    const uint8_t *data; /* the items, which need (end - data) bytes */
    const uint8_t *end;
};

/* The keys and values of a file, valid while the file is open. Zeroed if the file is not GGUF. */
struct gguf {
    const char *path;          /* not owned */
    uint32_t version;          /* 0: not a GGUF file */
    struct gguf_value *values; /* (n_values), in the order of their keys */
    size_t n_values;
};

/* Returns whether data[0..size) begins as a GGUF file does. */
bool smol_gguf_is(const uint8_t *data, size_t size);

/* Reads the mapped file of `reader`, whose `file` and `path` are set: fills *gguf, and the tensors
 * of the reader under the names of the file, whose shapes have the rows first. Checks that every
 * length and count lies within the file before it is used, that no key and no tensor appears twice,
 * and that the tensors cover the data without gap or overlap. The caller closes both, also after an
 * error. Errors: SMOL_ERROR_DAMAGED (with the byte offset), SMOL_ERROR_UNSUPPORTED (an old version,
 * another byte order, a type of tensors that smolconv does not read, arrays of arrays),
 * SMOL_ERROR_MEMORY. */
smol_status smol_gguf_read(struct safetensors *reader, struct gguf *gguf, smol_error *error);

void smol_gguf_close(struct gguf *gguf);

/* Returns the value of `key`, or NULL. */
const struct gguf_value *smol_gguf_find(const struct gguf *gguf, const char *key);

/* Return false if the value is not an integer, a number, or a flag. Negative integers count as
 * none: no key that smolconv reads may have one. */
bool smol_gguf_integer(const struct gguf_value *value, uint64_t *integer);
bool smol_gguf_real(const struct gguf_value *value, double *real);
bool smol_gguf_flag(const struct gguf_value *value, bool *flag);

/* Reads item `i` of a list, as smol_gguf_integer does. */
bool smol_gguf_integer_at(const struct gguf_value *value, uint64_t i, uint64_t *integer);

/* Returns the text of a string. Its size is 0 for a value of another type, and for NULL. */
struct gguf_text smol_gguf_string(const struct gguf_value *value);

/* Returns the string at *at and moves *at to the next one. *at starts as value->data, and the value
 * is an array of strings. */
struct gguf_text smol_gguf_next(const struct gguf_value *value, const uint8_t **at);

/* Returns item `i` of an array of integers of 8, 16 or 32 bits or of f32 as a number. */
double smol_gguf_item(const struct gguf_value *value, uint64_t i);

#endif
