/* Changes of grapheme clusters, see text_tables.h. */
#include "format/text_tables.h"

#include <string.h>

#include "common/utf8.h"

/* --- checks --------------------------------------------------------------------------------- */

/* Returns whether the entry has more than one character and, after them, zeros. */
static bool text_is_valid(const struct text_cluster *cluster)
{
    uint32_t first;
    size_t size = cluster->size;
    if (size >= CLUSTER_TOO_LONG || smol_utf8_well_formed(cluster->text, size) != size)
        return false;
    for (size_t i = 0; i < sizeof cluster->text; i++)
        if (!cluster->text[i] != (i >= size))
            return false;
    return size > 0 && smol_utf8_decode(cluster->text, size, &first) < size;
}

smol_status smol_clusters_check(const struct cluster_tables *t, smol_error *error)
{
    for (uint32_t i = 0; i < CLASS_INDEX_SIZE; i++)
        if (t->index[i] >= t->n_blocks)
            return text_damaged(error, "no such block of clusters", i);
    for (uint64_t i = 0; i < (uint64_t)t->n_blocks * 256; i++)
        if (t->blocks[i / 256][i % 256] >= t->n_classes)
            return text_damaged(error, "no such class of clusters", i);
    for (uint32_t i = 0; i < t->n_states * t->n_classes; i++)
        if (t->transitions[i] >> 1 >= t->n_states)
            return text_damaged(error, "no such state of clusters", i);
    for (uint32_t i = 0; i < t->n_clusters; i++) {
        const struct text_cluster *cluster = &t->clusters[i];
        /* an entry that starts with the text of another would follow it, and compare as equal */
        if (!text_is_valid(cluster) ||
            (i > 0 && memcmp(cluster[-1].text, cluster->text, cluster[-1].size) >= 0))
            return text_damaged(error, "bad cluster", i);
    }
    return SMOL_OK;
}

uint32_t smol_clusters_growth(const struct cluster_tables *t, const struct character_map *map)
{
    uint32_t growth = smol_character_map_growth(map);
    for (uint32_t i = 0; i < t->n_clusters; i++) {
        const struct text_cluster *cluster = &t->clusters[i];
        uint32_t size = (cluster->change >> MAP_SIZE_SHIFT) - 1;
        if (size > growth * cluster->size)
            growth = (size + cluster->size - 1) / cluster->size;
    }
    return growth;
}

/* --- use ------------------------------------------------------------------------------------ */

/* Takes the first character of text[0..size), size > 0, in *state. Returns the transition. */
static uint8_t take(const struct cluster_tables *t, const uint8_t *text, size_t size,
                    uint32_t state, size_t *length)
{
    uint32_t point;
    *length = smol_utf8_decode(text, size, &point);
    uint8_t class = t->blocks[t->index[point / 256]][point % 256];
    return t->transitions[state * t->n_classes + class];
}

/* Returns the bytes of the first cluster of text[0..size), size > 0. *state is that before its
 * first character, and becomes that after its last. */
static size_t cluster_size(const struct cluster_tables *t, const uint8_t *text, size_t size,
                           uint32_t *state)
{
    size_t end, length;
    *state = take(t, text, size, *state, &end) >> 1;
    while (end < size) {
        uint8_t transition = take(t, text + end, size - end, *state, &length);
        if (transition & 1)
            break;
        *state = transition >> 1;
        end += length;
    }
    return end;
}

/* Returns the change of the entry that text[0..size) starts with, or 0. That is the last entry
 * which is not above the text, because none is the start of another. */
static uint32_t find_start(const struct cluster_tables *t, const uint8_t *text, size_t size)
{
    uint8_t padded[sizeof t->clusters->text] = {0};
    memcpy(padded, text, size);
    uint32_t low = 0, high = t->n_clusters;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (memcmp(t->clusters[middle].text, padded, sizeof padded) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return 0;
    const struct text_cluster *last = &t->clusters[low - 1];
    bool starts = last->size <= size && memcmp(last->text, text, last->size) == 0;
    return starts ? last->change : 0;
}

/* Returns how text[0..*size), a cluster, changes, and sets *size to the bytes that do so: those of
 * the cluster, or those of its first character. */
static uint32_t change_of(const struct cluster_tables *t, const struct character_map *map,
                          const uint8_t *text, size_t *size)
{
    size_t whole = *size;
    uint32_t change = smol_character_change(map, text, whole, size);
    if (*size == whole || whole >= CLUSTER_TOO_LONG)
        return change;
    if (!change)
        change = find_start(t, text, whole);
    if (change)
        *size = whole;
    return change;
}

/* Appends the cluster text[0..size), changed. */
static void put_cluster(const struct cluster_tables *t, const struct character_map *map,
                        const uint8_t *text, size_t size, struct buffer *out)
{
    size_t length = size;
    uint32_t change = change_of(t, map, text, &length);
    smol_character_put(map, change, text, length, out);
    /* the other characters change one by one, even if fewer than CLUSTER_TOO_LONG bytes are left */
    smol_character_map(map, text + length, size - length, out);
}

bool smol_clusters_unchanged(const struct cluster_tables *t, const struct character_map *map,
                             const uint8_t *text, size_t size)
{
    uint32_t state = 0;
    for (size_t i = 0, length; i < size; i += length) {
        size_t first = length = cluster_size(t, text + i, size - i, &state);
        if (change_of(t, map, text + i, &first) ||
            !smol_character_map_unchanged(map, text + i + first, length - first))
            return false;
    }
    return true;
}

void smol_clusters(const struct cluster_tables *t, const struct character_map *map,
                   const uint8_t *text, size_t size, struct buffer *out)
{
    uint32_t state = 0;
    for (size_t i = 0, length; i < size; i += length) {
        length = cluster_size(t, text + i, size - i, &state);
        put_cluster(t, map, text + i, length, out);
    }
}
