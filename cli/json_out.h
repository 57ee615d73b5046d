/* Writes one JSON value to a file, piece by piece. The caller keeps the grammar (a key before each
 * value of an object); commas and escapes are taken care of. Write errors show in ferror(file). */
#ifndef SMOL_CLI_JSON_OUT_H
#define SMOL_CLI_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
    FILE *file;
    bool comma; /* something stands before the next key or element */
};

/* `bracket` is one of { } [ ]. */
void smol_json_open(struct json_out *json, char bracket);
void smol_json_close(struct json_out *json, char bracket);

void smol_json_key(struct json_out *json, const char *key);

/* Any bytes: ill-formed UTF-8 becomes U+FFFD. Control characters, DEL and C1 included, are escaped,
 * so that the output cannot steer a terminal. */
void smol_json_text(struct json_out *json, const char *text, size_t size);

/* A member whose value is terminated text, a whole number, or a number with as many digits as it
 * takes to read back the same double; null where that is not finite. */
void smol_json_member_text(struct json_out *json, const char *key, const char *text);
void smol_json_member_whole(struct json_out *json, const char *key, uint64_t value);
void smol_json_member_real(struct json_out *json, const char *key, double value);

/* An element of an array. */
void smol_json_whole(struct json_out *json, uint64_t value);

/* A member whose value is true or false; a value that is one of these or null, as `word` says. */
void smol_json_member_flag(struct json_out *json, const char *key, bool value);
void smol_json_literal(struct json_out *json, const char *word);

#endif
