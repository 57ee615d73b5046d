/* A progress line on standard error, redrawn in place. It is shown only on a terminal. */
#ifndef SMOL_CLI_LIVE_LINE_H
#define SMOL_CLI_LIVE_LINE_H

#include <stdbool.h>

struct live_line {
    bool shown;
    int width; /* as last drawn */
};

/* Starts a line, which stays hidden with `quiet` or if standard error is not a terminal. */
struct live_line smol_live_line_start(bool quiet);
/* Draws the line: at most 79 ASCII characters. */
void smol_live_line_draw(struct live_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Erases the line. Call it before anything else is printed. */
void smol_live_line_end(struct live_line *line);

#endif
