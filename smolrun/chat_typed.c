/* What was typed, see chat_typed.h. */
#include "smolrun/chat_typed.h"

#include <stdint.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Of the line, now so long, all but the first `start` and the last `rest` characters is new. */
static void follow_change(struct typed_line *line, size_t length, size_t start, size_t rest)
{
    size_t old_end = line->length - rest, pasted_end = line->length - line->after;
    if (old_end <= line->before)
        line->before += length - line->length;
    else if (start < line->before)
        line->before = length - rest;
    if (start >= pasted_end)
        line->after += length - line->length;
    else if (old_end > pasted_end)
        line->after = length - start;
    line->pasted = line->before + line->after < length;
}

void smol_typed_follow(struct typed_line *line, size_t length, size_t cursor)
{
    if (line->pasted && length != line->length)
        follow_change(line, length, least(cursor, line->cursor),
                      least(length - cursor, line->length - line->cursor));
    line->length = length;
    line->cursor = cursor;
}

void smol_typed_paste(struct typed_line *line, size_t size)
{
    size_t rest = line->length - line->cursor;
    if (size == 0)
        return;
    line->before = line->pasted ? least(line->before, line->cursor) : line->cursor;
    line->after = line->pasted ? least(line->after, rest) : rest;
    line->pasted = true;
    line->cursor += size;
    line->length += size;
}

struct typed smol_typed_part(const struct typed_line *line, bool breaks)
{
    if (line->pasted)
        return (struct typed){line->before, line->after};
    /* of what was pasted once, and comes from the history */
    return breaks ? (struct typed){1, 0} : (struct typed){SIZE_MAX, SIZE_MAX};
}
