/* Untrusted text, readable and harmless on a terminal: tokens, and names and other short texts from
 * files. */
#ifndef SMOL_CLI_QUOTE_H
#define SMOL_CLI_QUOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The bytes that smol_quote takes for `most` columns. */
#define QUOTE_BYTES(most) (4 * (most) + 3)

/* Writes text[0..size) in quotes to `out` (QUOTE_BYTES(most)), terminated, and returns the columns
 * that it takes on a terminal, where some characters are two wide and some stand on others. What
 * could steer a terminal is escaped (\n, \x1b, \u202e: control characters, those that turn the
 * direction of writing, those that cannot be seen), bytes that are no UTF-8 too (\xff). More than
 * `most` columns, at least 3, between the quotes are cut and end in "..."; a character that takes
 * none counts as one there. */
size_t smol_quote(const char *text, size_t size, size_t most, char *out);

/* Whether a character steers a terminal: controls, line and paragraph separators, and those that
 * set the direction of writing. */
bool smol_is_steering(uint32_t c);

/* Prints text as part of a line, whether `out` is a terminal or not. Characters that steer, and
 * bytes that are not UTF-8, become '?'. */
void smol_print_text(FILE *out, const char *text, size_t size);

/* Writes text in quotes to out[0..room), room >= 64, without loss, so that it can be compared: \n,
 * \t, \", \\, \u{202e}, and \xff for bytes that are not UTF-8. Text that does not fit is cut, and
 * its size is appended. */
void smol_quote_text(const char *text, size_t size, char *out, size_t room);

/* The columns of a text if each character takes one: for padding. */
size_t smol_text_width(const char *text);

#endif
