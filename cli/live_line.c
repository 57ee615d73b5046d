/* Progress lines, see terminal.h. */
#include "cli/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

enum { SIZE = 80 }; /* 79 columns and the terminator */

struct live_line smol_live_line_start(bool quiet)
{
    return (struct live_line){.shown = !quiet && isatty(STDERR_FILENO)};
}

bool smol_live_line_is_due(struct live_line *line)
{
    double now = clock_seconds();
    bool due = line->shown && now - line->drawn >= 0.1;
    if (due)
        line->drawn = now;
    return due;
}

void smol_live_line_draw(struct live_line *line, const char *format, ...)
{
    if (!line->shown)
        return;
    char text[SIZE];
    /* a line as wide as the terminal moves the cursor to the next row: \r would not come back */
    size_t columns = smol_terminal_columns(STDERR_FILENO);
    int size = columns < SIZE ? (int)columns : SIZE;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, (size_t)size, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\r%-*s", line->width < size ? line->width : size - 1, text);
    line->width = (int)strlen(text);
}

void smol_live_line_end(struct live_line *line)
{
    if (line->shown && line->width > 0)
        fprintf(stderr, "\r%*s\r", line->width, "");
    line->width = 0;
}
