/* A cursor over a section's tables, see cursor.h. */
#include "format/cursor.h"

#include <inttypes.h>

#include "common/checked.h"
#include "format/format.h"

const void *smol_cursor_take(struct cursor *cursor, const char *name, uint64_t count, size_t each,
                             smol_error *error)
{
    uint64_t size = count * each, start = round_up(cursor->end, BLOB_ALIGN);
    if (!range_within(start, size, cursor->size)) {
        smol_fail(error, SMOL_ERROR_DAMAGED, "no room for a table (%s, %" PRIu64 " bytes)", name,
                  size);
        return NULL;
    }
    if (!all_zero(cursor->data + cursor->end, start - cursor->end)) {
        smol_fail(error, SMOL_ERROR_DAMAGED, "padding is not zero (at %zu, before %s)", cursor->end,
                  name);
        return NULL;
    }
    cursor->end = start + size;
    return cursor->data + start;
}

smol_status smol_cursor_end(const struct cursor *cursor, smol_error *error)
{
    if (cursor->end == cursor->size)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "the section must end with its last table (%zu, %zu bytes)", cursor->end,
                     cursor->size);
}
