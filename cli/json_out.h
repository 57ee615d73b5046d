/* Writes one JSON value to a file, piece by piece. The caller follows the grammar (a key before
 * each value of an object); these functions write commas and escapes. After a write error
 * ferror(file) is set. */
#ifndef SMOL_CLI_JSON_OUT_H
#define SMOL_CLI_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
    FILE *file;
    bool comma; /* a comma comes before the next key or element */
};

/* Begin and end an object or array; `bracket` is one of { } [ ]. */
void smol_json_open(struct json_out *json, char bracket);
void smol_json_close(struct json_out *json, char bracket);

void smol_json_key(struct json_out *json, const char *key);

/* Writes a key and begins its value, an object or array. */
void smol_json_member_open(struct json_out *json, const char *key, char bracket);

/* Write a finite number with the fewest digits, but up to six if they need no exponent, that read
 * back as the same double or float. Return `digits`. */
enum { NUMBER_DIGITS = 32 };
const char *smol_real_digits(double value, char digits[NUMBER_DIGITS]);
const char *smol_float_digits(float value, char digits[NUMBER_DIGITS]);

/* Writes a string of any bytes: ill-formed UTF-8 becomes U+FFFD. Control characters, including DEL
 * and C1, are escaped, so that the output cannot control a terminal. */
void smol_json_text(struct json_out *json, const char *text, size_t size);

/* Write a member whose value is terminated text, a whole number, or a real number (null if it is
 * not finite). */
void smol_json_member_text(struct json_out *json, const char *key, const char *text);
void smol_json_member_whole(struct json_out *json, const char *key, uint64_t value);
void smol_json_member_real(struct json_out *json, const char *key, double value);

/* Writes a member whose value is JSON already, well-formed UTF-8. DEL and C1 are escaped. */
void smol_json_member_value(struct json_out *json, const char *key, const char *value);

/* Write an element of an array, or the value after a key. */
void smol_json_whole(struct json_out *json, uint64_t value);
void smol_json_real(struct json_out *json, double value);
void smol_json_float(struct json_out *json, float value);

/* Writes data[0..size) as a string in base64. */
void smol_json_base64(struct json_out *json, const void *data, size_t size);

/* Writes bytes that are no text as a string that shows them: bytes:\xe2\x80. */
void smol_json_bytes(struct json_out *json, const char *bytes, size_t size);

/* Makes a key of the string that was written last. */
void smol_json_make_key(struct json_out *json);

/* Write a member that is true or false, and one that is null. smol_json_literal writes the value
 * `word`: true, false or null. */
void smol_json_member_flag(struct json_out *json, const char *key, bool value);
void smol_json_member_null(struct json_out *json, const char *key);
void smol_json_literal(struct json_out *json, const char *word);

#endif
