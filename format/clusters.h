/* Changes of grapheme clusters, as SentencePiece's maps make them in the reference, with the flat
 * tables of a text section. A cluster of less than CLUSTER_TOO_LONG bytes changes as a whole if its
 * first character has a change or its start is in the table; in all others each character changes.
 */
#ifndef SMOL_FORMAT_CLUSTERS_H
#define SMOL_FORMAT_CLUSTERS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/error.h"
#include "format/character_map.h"
#include "format/format.h"

/* All pointers point into a section. */
struct cluster_tables {
    const uint16_t *index;               /* (CLASS_INDEX_SIZE) code point / 256 -> block */
    const uint8_t (*blocks)[256];        /* (n_blocks): classes */
    const uint8_t *transitions;          /* (n_states, n_classes) */
    const struct text_cluster *clusters; /* (n_clusters), ascending, none the start of another */
    uint32_t n_blocks, n_classes, n_states, n_clusters;
};

/* Checks every rule of FORMAT.md, except those of the changes. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_clusters_check(const struct cluster_tables *tables, smol_error *error);

/* Returns the factor by which a valid table can lengthen a text, at least 1. */
uint32_t smol_clusters_growth(const struct cluster_tables *tables, const struct character_map *map);

/* Returns whether text[0..size), well-formed UTF-8, does not change. */
bool smol_clusters_unchanged(const struct cluster_tables *tables, const struct character_map *map,
                             const uint8_t *text, size_t size);

/* Appends text[0..size), changed. Sets out->failed if memory runs out. */
void smol_clusters(const struct cluster_tables *tables, const struct character_map *map,
                   const uint8_t *text, size_t size, struct buffer *out);

#endif
