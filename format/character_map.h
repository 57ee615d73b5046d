/* Changes of single characters, with the flat tables of a text section. */
#ifndef SMOL_FORMAT_CHARACTER_MAP_H
#define SMOL_FORMAT_CHARACTER_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "format/format.h"

/* One map. All pointers point into a section. */
struct character_map {
    const uint16_t *index;         /* (CLASS_INDEX_SIZE) code point / 256 -> block */
    const uint32_t (*blocks)[256]; /* (n_blocks): changes */
    const uint8_t *pool;
};

/* Returns how the first character of text[0..size), size > 0, changes. Sets *length to its bytes.
 */
uint32_t smol_character_change(const struct character_map *map, const uint8_t *text, size_t size,
                               size_t *length);

/* Appends the character or cluster text[0..length), changed. Sets out->failed if memory runs out.
 */
void smol_character_put(const struct character_map *map, uint32_t change, const uint8_t *text,
                        size_t length, struct buffer *out);

/* Returns the factor by which the map can lengthen a text, at least 1; too large is possible. */
uint32_t smol_character_map_growth(const struct character_map *map);

/* Returns whether text[0..size), well-formed UTF-8, does not change. */
bool smol_character_map_unchanged(const struct character_map *map, const uint8_t *text,
                                  size_t size);

/* Appends text[0..size), changed. Sets out->failed if memory runs out. */
void smol_character_map(const struct character_map *map, const uint8_t *text, size_t size,
                        struct buffer *out);

#endif
