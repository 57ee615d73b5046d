/* Reads SentencePiece's precompiled map of characters, as the reference's normalizer `Precompiled`
 * uses it. The map is the bytes of a double-array trie, whose values are places in the texts after
 * it. The shortest key that a character or a cluster starts with has its text. */
#ifndef SMOL_CONVERT_CHARSMAP_H
#define SMOL_CONVERT_CHARSMAP_H

#include <stdint.h>

#include "common/buffer.h"
#include "common/error.h"
#include "convert/tokenizer/character_maps.h"
#include "convert/tokenizer/json_part.h"
#include "format/format.h"

/* The tables of FEATURE_CLUSTERS. Initialize to zeros. */
struct cluster_arrays {
    uint16_t *index;               /* (CLASS_INDEX_SIZE), owned */
    uint8_t (*blocks)[256];        /* (n_blocks), all different, owned */
    const uint8_t *transitions;    /* (n_states, n_classes) */
    struct text_cluster *clusters; /* (n_clusters), ascending, owned */
    uint32_t n_blocks, n_classes, n_states, n_clusters;
};

/* Adds a map of the changes of characters to `maps`, and fills *arrays. Appends the texts to
 * `pool`, which becomes the section's. `path` is for messages. Call smol_cluster_arrays_free, also
 * after an error. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_charsmap_read(struct json_text base64, const char *path, struct map_arrays *maps,
                               struct cluster_arrays *arrays, struct buffer *pool,
                               smol_error *error);

void smol_cluster_arrays_free(struct cluster_arrays *arrays);

#endif
