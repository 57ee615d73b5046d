/* A line on standard error that says how far something is, drawn over itself again and again, where
 * that is a terminal. */
#ifndef SMOL_CLI_LIVE_LINE_H
#define SMOL_CLI_LIVE_LINE_H

#include <stdbool.h>

struct live_line {
    bool shown;
    int width; /* as last drawn */
};

/* Draws nothing when `quiet` or when standard error is no terminal. */
struct live_line smol_live_line_start(bool quiet);
/* At most 79 characters of ASCII are shown. */
void smol_live_line_draw(struct live_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Wipes the line. To be called before anything else is printed. */
void smol_live_line_end(struct live_line *line);

#endif
