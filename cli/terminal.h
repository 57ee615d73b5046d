/* Standard output as a terminal: text that must not steer it, colours, width. */
#ifndef SMOL_CLI_TERMINAL_H
#define SMOL_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints a model's text on standard output. On a terminal, control characters except line feed and
 * tab become U+FFFD: the text is untrusted. */
void smol_terminal_print(const char *text, size_t size);

/* Whether output may be coloured: standard output is a terminal that can show colours, and NO_COLOR
 * is not set (no-color.org). */
bool smol_terminal_colors(void);

/* The terminal's columns; SIZE_MAX if standard output is not a terminal or does not tell. */
size_t smol_terminal_columns(void);

/* The columns that a character takes: 2 for wide ones, 0 for those drawn over the character before,
 * else 1. */
size_t smol_terminal_width(uint32_t code_point);

#endif
