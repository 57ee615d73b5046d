/* Text from files on its way to a terminal, which it must not steer: not by control characters, and
 * not by those that turn the direction of writing. */
#ifndef SMOL_CONVERT_PRINT_TEXT_H
#define SMOL_CONVERT_PRINT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One line: what is no printable character of UTF-8 comes out as '?'. */
void smol_print_text(FILE *out, const char *text, size_t size);

/* The same in quotes and without loss, for comparing: \n, \t, \", \\, \u{202e}, and \xff for bytes
 * that are no UTF-8. What does not fit into out[0..room), room >= 64, is cut, and the size said. */
void smol_quote_text(const char *text, size_t size, char *out, size_t room);

/* Whether a character steers: controls, line and paragraph separators, and what sets the direction.
 */
bool smol_is_steering(uint32_t c);

/* Columns that a text takes up if each character has one: what padding should count. */
size_t smol_text_width(const char *text);

#endif
