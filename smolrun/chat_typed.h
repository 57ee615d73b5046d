/* Which characters of a line that is edited were typed by hand, and which were pasted. */
#ifndef SMOL_SMOLRUN_CHAT_TYPED_H
#define SMOL_SMOLRUN_CHAT_TYPED_H

#include <stdbool.h>
#include <stddef.h>

/* How many characters at the start and at the end of a line were typed, rather than pasted; of one
 * without a paste all. */
struct typed {
    size_t before, after;
};

/* A line, as it was when it was looked at last. Zeroed: an empty one. */
struct typed_line {
    size_t length, cursor;
    bool pasted;          /* there is a part that was, from the first paste to the last one: */
    size_t before, after; /* so many characters are around it */
};

/* A key has made the line so long, between the old and the new place of the cursor. */
void smol_typed_follow(struct typed_line *line, size_t length, size_t cursor);

/* So many characters were pasted at the cursor, which is behind them now. */
void smol_typed_paste(struct typed_line *line, size_t size);

/* Of the whole line; `breaks`: it has several rows, which is never typed. */
struct typed smol_typed_part(const struct typed_line *line, bool breaks);

#endif
