/* A pull reader of JSON text in memory. It is strict (RFC 8259), builds no tree, does not recurse,
 * and allocates memory only for numbers of more than 63 characters. It reads the headers of weight
 * files, requests, and the JSON passed to chat templates, all of which may be untrusted. (jansson
 * reads the settings of a checkpoint, small files with keys looked up by name, into a tree:
 * convert/base/json.h.) */
#ifndef SMOL_COMMON_JSON_READER_H
#define SMOL_COMMON_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Errors read "NAME: FAULT: what is wrong (byte N)ADVICE". The caller sets all fields. */
struct json_reader {
    const uint8_t *start;    /* byte 0 in messages */
    const uint8_t *at, *end; /* the remaining text, which must be UTF-8 */
    const char *name, *fault, *advice;
    smol_status status; /* of errors in the text */
    smol_error *error;
};

enum {
    JSON_MAX_NESTING = 125, /* most nested lists and objects in smol_json_skip */
    DECIMAL_MAX = 63,       /* characters, see smol_read_decimal */
};

/* Returns whether a character is white space of JSON. */
static inline bool json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Every function skips white space first and leaves reader->at after the text that it takes. Do not
 * continue reading after an error. */

/* Reports `what` at the reader's position. Returns reader->status. */
smol_status smol_json_fail(struct json_reader *reader, const char *what);

/* Checks that the whole text is UTF-8. */
smol_status smol_json_check_utf8(struct json_reader *reader);

/* Returns the next byte without taking it, or -1 at the end. */
int smol_json_peek(struct json_reader *reader);

/* Takes the character `c` if it is next. Returns whether it was. */
bool smol_json_take(struct json_reader *reader, char c);

/* Takes the character `c`, which must be next. */
smol_status smol_json_expect(struct json_reader *reader, char c);

/* Takes `open` ('[' or '{'). Sets *more to true if an element or a member follows. Otherwise the
 * list or object is empty, and its end is taken too. */
smol_status smol_json_begin(struct json_reader *reader, char open, bool *more);

/* Takes a comma after an element and sets *more to true, or takes `close` and sets it to false. */
smol_status smol_json_more(struct json_reader *reader, char close, bool *more);

/* Checks that only white space follows. */
smol_status smol_json_end(struct json_reader *reader);

/* Takes `word` (true, false, null) if it is next. Returns whether it was. */
bool smol_json_word(struct json_reader *reader, const char *word);

/* Takes a string and writes it to `out`, decoded and terminated. *length excludes the NUL. `out`
 * needs as many bytes as the string has in the text, quotes included. If out is NULL, only checks
 * the string. */
smol_status smol_json_string(struct json_reader *reader, char *out, size_t *length);

/* Takes the name of a member, as smol_json_string does, and the colon after it. */
smol_status smol_json_name(struct json_reader *reader, char *out, size_t *length);

/* A number as written in the text. */
struct json_number {
    const uint8_t *text;
    size_t size;
    bool is_integer; /* without fraction and exponent */
};
smol_status smol_json_number(struct json_reader *reader, struct json_number *number);

/* Convert a number to an integer. Return false if it does not fit or is not an integer. */
bool smol_json_to_i64(const struct json_number *number, int64_t *value);
bool smol_json_to_u64(const struct json_number *number, uint64_t *value);

/* Sets *value to the nearest double, which may be infinite. Errors: SMOL_ERROR_MEMORY, for numbers
 * of more than DECIMAL_MAX characters. */
smol_status smol_json_to_real(struct json_reader *reader, const struct json_number *number,
                              double *value);

/* Takes any one value and checks it. Rejects numbers beyond a double's range. */
smol_status smol_json_skip(struct json_reader *reader);

/* Returns strtod(text[0..n)), n <= DECIMAL_MAX, without NUL. The decimal point is '.' in any
 * locale. Sets *whole to whether the text is not empty and was converted completely. */
double smol_read_decimal(const uint8_t *text, size_t n, bool *whole);

#endif
