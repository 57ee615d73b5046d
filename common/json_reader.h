/* A pull reader of JSON text in memory: strict (RFC 8259), without a tree, without recursion and,
 * but for numbers of more than 63 characters, without memory of its own. It reads headers of
 * weights, requests, and what chat templates get; it is made for untrusted input. (The settings of
 * a checkpoint, small files whose keys are looked up by name, are read into a tree by jansson:
 * convert/base/json.h.) */
#ifndef SMOL_COMMON_JSON_READER_H
#define SMOL_COMMON_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Errors read "NAME: FAULT: what is wrong (byte N)ADVICE". The caller sets all fields. */
struct json_reader {
    const uint8_t *start;    /* byte 0 of messages */
    const uint8_t *at, *end; /* the text that is left, which must be UTF-8 */
    const char *name, *fault, *advice;
    smol_status status; /* of errors in the text */
    smol_error *error;
};

enum {
    JSON_MAX_NESTING = 125, /* lists and objects that smol_json_skip follows below its start */
    DECIMAL_MAX = 63,       /* characters, see smol_read_decimal */
};

/* Every function skips white space first and leaves reader->at after what it took. A text that has
 * failed must not be read on. */

/* Reports `what` at the place where the reader stands. Returns reader->status. */
smol_status smol_json_fail(struct json_reader *reader, const char *what);

/* Checks that the whole text is UTF-8. */
smol_status smol_json_check_utf8(struct json_reader *reader);

/* The next byte, which is not taken, or -1 at the end. */
int smol_json_peek(struct json_reader *reader);

/* Takes the character `c` if it is next. */
bool smol_json_take(struct json_reader *reader, char c);

/* Takes the character `c`, which must be next. */
smol_status smol_json_expect(struct json_reader *reader, char c);

/* Takes `open` ('[' or '{'). *more: an element or a member follows; otherwise the list or object is
 * empty and its end has been taken. */
smol_status smol_json_begin(struct json_reader *reader, char open, bool *more);

/* After an element: takes a comma, and *more is true, or `close`. */
smol_status smol_json_more(struct json_reader *reader, char close, bool *more);

/* Takes the end of the text. */
smol_status smol_json_end(struct json_reader *reader);

/* Takes `word` (true, false, null) if it is next. */
bool smol_json_word(struct json_reader *reader, const char *word);

/* Takes a string and writes it to `out`, decoded and terminated; *length is without the NUL. `out`
 * needs as many bytes as the string takes in the text, quotes included. With out = NULL the string
 * is only checked. */
smol_status smol_json_string(struct json_reader *reader, char *out, size_t *length);

/* Takes the name of a member and the colon after it, as smol_json_string does. */
smol_status smol_json_name(struct json_reader *reader, char *out, size_t *length);

/* A number as it stands in the text. */
struct json_number {
    const uint8_t *text;
    size_t size;
    bool is_integer; /* without fraction and exponent */
};
smol_status smol_json_number(struct json_reader *reader, struct json_number *number);

/* Its value. false: it does not fit, or is no integer. */
bool smol_json_to_i64(const struct json_number *number, int64_t *value);
bool smol_json_to_u64(const struct json_number *number, uint64_t *value);

/* Its value as the nearest double, which may be infinite. SMOL_ERROR_MEMORY, for numbers of more
 * than DECIMAL_MAX characters. */
smol_status smol_json_to_real(struct json_reader *reader, const struct json_number *number,
                              double *value);

/* Takes any one value and checks that it is one. Numbers beyond a double's range are refused. */
smol_status smol_json_skip(struct json_reader *reader);

/* strtod(text[0..n)), n <= DECIMAL_MAX, without NUL, with a decimal point whatever the process's
 * locale. *whole: it takes all of the text, and there is some. */
double smol_read_decimal(const uint8_t *text, size_t n, bool *whole);

#endif
