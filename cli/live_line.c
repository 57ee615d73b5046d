/* Progress lines, see terminal.h. */
#include "cli/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 80 }; /* 79 columns, which fit any terminal, and the terminator */

struct live_line smol_live_line_start(bool quiet)
{
    return (struct live_line){.shown = !quiet && isatty(STDERR_FILENO)};
}

void smol_live_line_draw(struct live_line *line, const char *format, ...)
{
    if (!line->shown)
        return;
    char text[SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\r%-*s", line->width, text);
    line->width = (int)strlen(text);
}

void smol_live_line_end(struct live_line *line)
{
    if (line->shown && line->width > 0)
        fprintf(stderr, "\r%*s\r", line->width, "");
    line->width = 0;
}
