/* Lines of standard input, see lines.h. */
#include "smolrun/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/input.h"
#include "cli/print.h"

/* Returns whether a read would return at once, with data or at the end of the input. A signal
 * during the poll says nothing about the input. */
static bool has_more(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) > 0;
}

/* Moves the unused bytes to the front and reads more after them. */
static smol_status read_more(struct lines *lines, smol_error *error)
{
    if (lines->at > 0) { /* moves nothing if a long line arrives byte by byte */
        lines->size -= lines->at;
        lines->looked -= lines->at;
        memmove(lines->buffer, lines->buffer + lines->at, lines->size);
        lines->at = 0;
    }
    ssize_t n = smol_read(STDIN_FILENO, lines->buffer + lines->size, MAX_LINE + 1 - lines->size);
    if (n < 0 && errno != EINTR)
        return smol_fail_errno(error, "standard input", "read");
    if (n > 0)
        lines->size += (size_t)n;
    lines->ended = n == 0;
    return SMOL_OK;
}

/* Takes bytes [at, end) and the line end. Returns false if they are the rest of a line that is too
 * long. */
static bool take(struct lines *lines, size_t end, struct line *line)
{
    bool whole = !lines->skipping, with_return = end > lines->at && lines->buffer[end - 1] == '\r';
    *line = (struct line){LINE_TEXT, lines->buffer + lines->at, end - lines->at - with_return};
    lines->at = lines->looked = end < lines->size ? end + 1 : end;
    lines->skipping = false;
    return whole;
}

/* Finds a line in the bytes that were read. Returns false if there is none yet. */
static bool find_line(struct lines *lines, struct line *line)
{
    while (lines->looked < lines->size) {
        const char *end = memchr(lines->buffer + lines->looked, '\n', lines->size - lines->looked);
        lines->looked = lines->size;
        if (end && take(lines, (size_t)(end - lines->buffer), line))
            return true;
    }
    if (lines->size - lines->at <= MAX_LINE)
        return false;
    bool first = !lines->skipping;
    lines->at = lines->size; /* drops the start of the line */
    lines->skipping = true;
    *line = (struct line){.kind = LINE_TOO_LONG};
    return first;
}

smol_status smol_lines_next(struct lines *lines, bool wait, struct line *line, smol_error *error)
{
    if (!lines->buffer && !(lines->buffer = malloc(MAX_LINE + 1)))
        return smol_fail_memory(error, "a line");
    while (!find_line(lines, line)) {
        if (lines->ended) {
            if (lines->at < lines->size && take(lines, lines->size, line))
                return SMOL_OK;
            *line = (struct line){.kind = LINE_END};
            return SMOL_OK;
        }
        *line = (struct line){.kind = LINE_LATER};
        if (!wait && !has_more())
            return SMOL_OK;
        smol_status status = read_more(lines, error);
        if (status)
            return status;
    }
    return SMOL_OK;
}
