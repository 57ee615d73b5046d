/* Text of tokens in quotes, readable and harmless on a terminal. */
#ifndef SMOL_CLI_QUOTE_H
#define SMOL_CLI_QUOTE_H

#include <stddef.h>

/* The bytes that smol_quote takes for `most` columns. */
#define QUOTE_BYTES(most) (4 * (most) + 3)

/* Writes text[0..size) in quotes to `out` (QUOTE_BYTES(most)), terminated, and returns the columns
 * that it takes on a terminal, where some characters are two wide and some stand on others. What
 * could steer a terminal is escaped (\n, \x1b, \u202e: control characters, those that turn the
 * direction of writing, those that cannot be seen), bytes that are no UTF-8 too (\xff). More than
 * `most` columns, at least 3, between the quotes are cut and end in "..."; a character that takes
 * none counts as one there. */
size_t smol_quote(const char *text, size_t size, size_t most, char *out);

#endif
