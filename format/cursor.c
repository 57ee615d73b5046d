/* A cursor over a section's tables, see cursor.h. */
#include "format/cursor.h"

#include "common/checked.h"
#include "format/format.h"

uint64_t smol_cursor_place(const struct cursor *cursor, uint64_t size)
{
    uint64_t start = round_up(cursor->end, BLOB_ALIGN);
    return range_within(start, size, cursor->size) ? start : CURSOR_NO_ROOM;
}

const void *smol_cursor_take(struct cursor *cursor, const char *name, uint64_t start, uint64_t size,
                             smol_error *error)
{
    for (size_t i = cursor->end; i < start; i++) {
        if (cursor->data[i]) {
            smol_fail(error, SMOL_ERROR_DAMAGED, "padding is not zero (at %zu, before %s)", i,
                      name);
            return NULL;
        }
    }
    cursor->end = start + size;
    return cursor->data + start;
}
