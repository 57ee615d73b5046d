/* Builds maps of characters, see character_maps.h. */
#include "convert/tokenizer/text_tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "convert/tokenizer/text_rules.h"
#include "convert/tokenizer/unicode_maps.h"

enum { BLOCK = 256, N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK };

/* The changes of a map, (N_CODE_POINTS), while it is built. */
struct changes {
    uint32_t *of;
    struct buffer *pool;
};

#define EACH_RANGE(ranges, range)                                                                  \
    for (const struct code_range *range = ranges;                                                  \
         range < ranges + sizeof ranges / sizeof ranges[0]; range++)

static void set_range(struct changes *changes, const struct code_range *range, uint32_t change)
{
    for (uint32_t c = range->first; c <= range->last; c++)
        changes->of[c] = change;
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

static void set_lower(struct changes *changes)
{
    for (size_t i = 0; i < sizeof lower_runs / sizeof lower_runs[0]; i++) {
        const struct lower_run *run = &lower_runs[i];
        for (uint32_t c = run->first; c <= run->last; c += run->step)
            set_text(changes, c, &(uint32_t){(uint32_t)((int32_t)c + run->distance)}, 1);
    }
    for (size_t i = 0; i < sizeof lower_texts / sizeof lower_texts[0]; i++)
        set_text(changes, lower_texts[i].code_point, lower_texts[i].text, 2);
}

static void set_compatibility(struct changes *changes)
{
    const uint8_t *at = compatibility_texts;
    for (uint32_t c = 0; at < compatibility_texts + sizeof compatibility_texts;) {
        uint32_t text[32]; /* the longest has 18 */
        c += packed_number(&at);
        uint32_t n = packed_number(&at);
        for (uint32_t i = 0; i < n; i++)
            text[i] = packed_number(&at);
        set_text(changes, c, text, n);
    }
}

/* Sets the changes of `rules`. A rule of a later step is set first, because an earlier one takes
 * its characters away or makes them what no later one changes. */
static void set_changes(struct changes *changes, uint32_t rules)
{
    const uint32_t nothing = map_change(0, 0);
    if (rules & MAP_COMPATIBILITY)
        set_compatibility(changes);
    if (rules & MAP_LOWER)
        set_lower(changes);
    if (rules & MAP_STRIP_MARKS)
        EACH_RANGE(combining_marks, range)
    set_range(changes, range, nothing);
    if (rules & MAP_STRIP_NONSPACING)
        EACH_RANGE(nonspacing_marks, range)
    set_range(changes, range, nothing);
    if (rules & MAP_PAD)
        EACH_RANGE(ideographs, range)
    set_range(changes, range, MAP_PADDED);
    if (rules & MAP_CLEAN) {
        uint32_t space = map_change((uint32_t)changes->pool->size, 1);
        smol_buffer_add(changes->pool, " ", 1);
        EACH_RANGE(cleaned_away, range)
        set_range(changes, range, nothing);
        EACH_RANGE(cleaned_to_space, range)
        set_range(changes, range, space);
    }
}

static smol_status make_room(struct map_arrays *maps, smol_error *error)
{
    uint16_t *index =
        realloc(maps->index, ((size_t)maps->n_maps + 1) * CLASS_INDEX_SIZE * sizeof *index);
    if (index)
        maps->index = index;
    uint32_t(*blocks)[256] =
        realloc(maps->blocks, ((size_t)maps->n_blocks + CLASS_INDEX_SIZE) * sizeof *blocks);
    if (blocks)
        maps->blocks = blocks;
    return index && blocks ? SMOL_OK : smol_fail_memory(error, "the normalizer");
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
