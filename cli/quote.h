/* Quotes untrusted text, so that it is readable and harmless on a terminal: tokens, names and other
 * short texts from files. */
#ifndef SMOL_CLI_QUOTE_H
#define SMOL_CLI_QUOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The size in bytes of smol_quote's output for `most` columns. */
#define QUOTE_BYTES(most) (4 * (most) + 3)

/* Writes text[0..size) in quotes to `out` (QUOTE_BYTES(most)), terminated. Returns the columns that
 * it takes on a terminal, where some characters take two columns and some take none. Escapes
 * characters that could control a terminal (\n, \x1b, \u202e: control characters, direction
 * controls, invisible characters) and bytes that are not UTF-8 (\xff). If the text between the
 * quotes takes more than `most` columns, at least 3, it is cut and ends in "..."; for this limit a
 * character without width counts as one column. */
size_t smol_quote(const char *text, size_t size, size_t most, char *out);

/* Returns whether a character can control a terminal: control characters, line and paragraph
 * separators, and direction controls. */
bool smol_is_steering(uint32_t c);

/* Prints text as part of a line, whether `out` is a terminal or not. Characters that control a
 * terminal, and bytes that are not UTF-8, become '?'. */
void smol_print_text(FILE *out, const char *text, size_t size);

/* Writes text in quotes to out[0..room), room >= 64, without loss, so that it can be compared: \n,
 * \t, \", \\, \u{202e}, and \xff for bytes that are not UTF-8. Text that does not fit is cut, and
 * its size is appended. */
void smol_quote_text(const char *text, size_t size, char *out, size_t room);

/* Returns the columns of a text if each character takes one, for padding. */
size_t smol_text_width(const char *text);

#endif
