/* Standard output as a terminal: safe printing of untrusted text, colours, and width. */
#ifndef SMOL_CLI_TERMINAL_H
#define SMOL_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints a model's text to standard output. The text is untrusted: on a terminal, control
 * characters except line feed and tab become U+FFFD. */
void smol_terminal_print(const char *text, size_t size);

/* Returns whether output may be coloured: standard output is a terminal that can show colours, and
 * NO_COLOR is not set (no-color.org). */
bool smol_terminal_colors(void);

/* Returns the columns of the terminal that `fd` refers to, or SIZE_MAX if it is not a terminal or
 * its size is unknown. */
size_t smol_terminal_columns(int fd);

/* Returns the columns that a character takes: 2 for wide characters, 0 for characters drawn over
 * the previous one, otherwise 1. */
size_t smol_terminal_width(uint32_t code_point);

/* live_line.c: a progress line on standard error, redrawn in place. */
struct live_line {
    bool shown;
    int width;    /* as last drawn */
    double drawn; /* seconds: when smol_live_line_is_due last returned true */
};

/* Starts a line, which stays hidden with `quiet` or if standard error is not a terminal. */
struct live_line smol_live_line_start(bool quiet);
/* Returns whether to draw the line: if it is shown, and at most ten times a second. */
bool smol_live_line_is_due(struct live_line *line);
/* Draws the line, in ASCII: at most 79 characters, and fewer than the terminal has columns. */
void smol_live_line_draw(struct live_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Erases the line. Call it before anything else is printed. */
void smol_live_line_end(struct live_line *line);

#endif
