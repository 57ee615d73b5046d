/* Builds maps of characters, see character_maps.h. */
#include "convert/tokenizer/text_tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "convert/tokenizer/text_rules.h"
#include "convert/tokenizer/unicode_maps.h"

enum { BLOCK = 256, N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK };

/* The changes of a map, (N_CODE_POINTS), while it is built. */
struct changes {
    uint32_t *of;
    struct buffer *pool;
};

/* Sets the change of all characters in a packed table of ranges. */
static void set_ranges(struct changes *changes, const uint8_t *table, size_t size, uint32_t change)
{
    uint32_t first, last = 0;
    for (const uint8_t *at = table; at < table + size;) {
        first = last + packed_number(&at);
        last = first + packed_number(&at);
        for (uint32_t c = first; c <= last; c++)
            changes->of[c] = change;
    }
}

/* Sets the change of a character to a text of n characters. */
static void set_text(struct changes *changes, uint32_t point, const uint32_t *text, size_t n)
{
    uint8_t bytes[UTF8_MAX];
    size_t start = changes->pool->size;
    for (size_t i = 0; i < n; i++)
        smol_buffer_add(changes->pool, (const char *)bytes, smol_utf8_encode(text[i], bytes));
    changes->of[point] = map_change((uint32_t)start, (uint32_t)(changes->pool->size - start));
}

/* Sets the changes of the characters in a packed table of texts. */
static void set_texts(struct changes *changes, const uint8_t *table, size_t size)
{
    const uint8_t *at = table;
    for (uint32_t c = 0; at < table + size;) {
        uint32_t text[32]; /* the longest has 18 */
        c += packed_number(&at);
        uint32_t n = packed_number(&at);
        for (uint32_t i = 0; i < n; i++)
            text[i] = packed_number(&at);
        set_text(changes, c, text, n);
    }
}

static void set_lower(struct changes *changes)
{
    uint32_t first, last = 0;
    for (const uint8_t *at = lower_runs; at < lower_runs + sizeof lower_runs;) {
        first = last + packed_number(&at);
        uint32_t span = packed_number(&at), distance = packed_number(&at);
        last = first + (span >> 1);
        for (uint32_t c = first; c <= last; c += 1 + (span & 1)) {
            uint32_t lower = distance & 1 ? c - (distance >> 1) : c + (distance >> 1);
            set_text(changes, c, &lower, 1);
        }
    }
    set_texts(changes, lower_several, sizeof lower_several);
}

/* Sets the changes of `rules`. A rule of a later step is set first, because an earlier one takes
 * its characters away or makes them what no later one changes. */
static void set_changes(struct changes *changes, uint32_t rules)
{
    const uint32_t nothing = map_change(0, 0);
    if (rules & MAP_COMPATIBILITY)
        set_texts(changes, compatibility_texts, sizeof compatibility_texts);
    if (rules & MAP_LOWER)
        set_lower(changes);
    if (rules & MAP_STRIP_MARKS)
        set_ranges(changes, combining_marks, sizeof combining_marks, nothing);
    if (rules & MAP_STRIP_NONSPACING)
        set_ranges(changes, nonspacing_marks, sizeof nonspacing_marks, nothing);
    if (rules & MAP_PAD)
        set_ranges(changes, ideographs, sizeof ideographs, MAP_PADDED);
    if (rules & MAP_CLEAN) {
        uint32_t space = map_change((uint32_t)changes->pool->size, 1);
        smol_buffer_add(changes->pool, " ", 1);
        set_ranges(changes, cleaned_away, sizeof cleaned_away, nothing);
        set_ranges(changes, cleaned_to_space, sizeof cleaned_to_space, space);
    }
}

static smol_status make_room(struct map_arrays *maps, smol_error *error)
{
    return RESIZE(maps->index, ((size_t)maps->n_maps + 1) * CLASS_INDEX_SIZE) &&
                   RESIZE(maps->blocks, (size_t)maps->n_blocks + CLASS_INDEX_SIZE)
               ? SMOL_OK
               : smol_fail_memory(error, "the normalizer");
}

smol_status smol_map_arrays_add_changes(struct map_arrays *maps, const uint32_t *changes,
                                        smol_error *error)
{
    smol_status status = make_room(maps, error);
    if (status)
        return status;
    uint16_t *index = maps->index + (size_t)maps->n_maps++ * CLASS_INDEX_SIZE;
    for (size_t i = 0; i < CLASS_INDEX_SIZE; i++)
        index[i] = text_block_add(maps->blocks, &maps->n_blocks, changes + i * BLOCK,
                                  sizeof *maps->blocks);
    return SMOL_OK;
}

smol_status smol_map_arrays_add(struct map_arrays *maps, uint32_t rules, struct buffer *pool,
                                smol_error *error)
{
    struct changes changes = {calloc(N_CODE_POINTS, sizeof *changes.of), pool};
    if (!changes.of)
        return smol_fail_memory(error, "the normalizer");
    set_changes(&changes, rules);
    smol_status status = smol_map_arrays_add_changes(maps, changes.of, error);
    free(changes.of);
    return status;
}
