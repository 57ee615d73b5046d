/* A pull scanner over JSON text in memory: strict (RFC 8259), without a tree, without recursion.
 * For headers that may be large and hostile; checkpoint settings go through json.h.
 * The text must be valid UTF-8; whoever starts the scan checks that. */
#ifndef SMOL_CONVERT_BASE_JSON_SCAN_H
#define SMOL_CONVERT_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct json_scan {
    const uint8_t *file; /* where the file starts: complaints count bytes from here */
    const uint8_t *at, *end;
    const char *path;
    smol_error *error;
};

/* Levels of lists and objects that smol_scan_skip follows below its start. */
enum { SCAN_MAX_NESTING = 125 };

/* Every function skips white space first and leaves scan->at behind what it took. */

/* A complaint about the place where the scan stands. SMOL_ERROR_DAMAGED. */
smol_status smol_scan_fail(struct json_scan *scan, const char *what);

/* Takes the character `c` if it is next. */
bool smol_scan_take(struct json_scan *scan, char c);

/* Takes the character `c`, which must be next. */
smol_status smol_scan_expect(struct json_scan *scan, char c);

/* Takes the end of the text. */
smol_status smol_scan_end(struct json_scan *scan);

/* Takes `null` if it is next. */
bool smol_scan_null(struct json_scan *scan);

/* Takes a string and writes it to `out`, decoded and with a NUL behind it; *length is without
 * that NUL. There must be room for as many bytes as the string takes in the text, quotes
 * included. With out = NULL the string is only checked. */
smol_status smol_scan_string(struct json_scan *scan, char *out, size_t *length);

/* Takes an integer 0..2^64-1, written as nothing but digits. */
smol_status smol_scan_integer(struct json_scan *scan, uint64_t *value);

/* Takes any one value and checks that it is one. */
smol_status smol_scan_skip(struct json_scan *scan);

#endif
