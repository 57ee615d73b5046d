/* Changes of single characters, see text_tables.h. */
#include "format/text_tables.h"

#include "common/utf8.h"

uint32_t smol_character_change(const struct character_map *map, const uint8_t *text, size_t size,
                               size_t *length)
{
    uint32_t point;
    *length = smol_utf8_decode(text, size, &point);
    return map->blocks[map->index[point / 256]][point % 256];
}

void smol_character_put(const struct character_map *map, uint32_t change, const uint8_t *text,
                        size_t length, struct buffer *out)
{
    const char *character = (const char *)text;
    if (change == MAP_PADDED) {
        smol_buffer_add(out, " ", 1);
        smol_buffer_add(out, character, length);
        smol_buffer_add(out, " ", 1);
    } else if (change) {
        smol_buffer_add(out, (const char *)map->pool + (change & MAP_START_MASK),
                        (change >> MAP_SIZE_SHIFT) - 1);
    } else {
        smol_buffer_add(out, character, length);
    }
}

uint32_t smol_character_map_growth(const struct character_map *map)
{
    uint32_t growth = 1;
    for (uint32_t i = 0; i < CLASS_INDEX_SIZE; i++) {
        const uint32_t *block = map->blocks[map->index[i]];
        uint32_t shortest = utf8_length(i * 256), padded = utf8_length(i * 256 + 255) + 2;
        for (uint32_t c = 0; c < 256; c++) {
            uint32_t change = block[c];
            uint32_t size = change == MAP_PADDED ? padded
                            : change             ? (change >> MAP_SIZE_SHIFT) - 1
                                                 : 0;
            if (size > growth * shortest)
                growth = (size + shortest - 1) / shortest;
        }
    }
    return growth;
}

bool smol_character_map_unchanged(const struct character_map *map, const uint8_t *text, size_t size)
{
    size_t length;
    for (size_t i = 0; i < size; i += length)
        if (smol_character_change(map, text + i, size - i, &length))
            return false;
    return true;
}

void smol_character_map(const struct character_map *map, const uint8_t *text, size_t size,
                        struct buffer *out)
{
    size_t length;
    for (; size > 0; text += length, size -= length) {
        uint32_t change = smol_character_change(map, text, size, &length);
        smol_character_put(map, change, text, length, out);
    }
}
