/* Builds the maps of a text section, which change characters one by one. */
#ifndef SMOL_CONVERT_CHARACTER_MAPS_H
#define SMOL_CONVERT_CHARACTER_MAPS_H

#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "format/format.h"

/* All maps of a section. Initialize to zeros. */
struct map_arrays {
    uint16_t *index;         /* (n_maps, CLASS_INDEX_SIZE), owned */
    uint32_t (*blocks)[256]; /* (n_blocks), all different, owned */
    uint32_t n_maps, n_blocks;
};

/* Adds the map of `rules` (bits of enum map_rule). Appends the texts of its changes to `pool`,
 * which becomes the section's. Call smol_map_arrays_free, also after an error. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_map_arrays_add(struct map_arrays *maps, uint32_t rules, struct buffer *pool,
                                smol_error *error);

/* Adds the map with the given changes, (CLASS_INDEX_SIZE * 256). Errors: SMOL_ERROR_MEMORY. */
smol_status smol_map_arrays_add_changes(struct map_arrays *maps, const uint32_t *changes,
                                        smol_error *error);

void smol_map_arrays_free(struct map_arrays *maps);

#endif
