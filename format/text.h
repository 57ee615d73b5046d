/* The text section of a blob as typed pointers, after every rule has been checked: how a text is
 * prepared before it is split, and the names of tokens. */
#ifndef SMOL_FORMAT_TEXT_H
#define SMOL_FORMAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"
#include "common/error.h"
#include "format/format.h"
#include "format/text_tables.h"

/* The header is a copy; all pointers point into the section, which must outlive the struct. */
struct text_tables {
    struct blob_text header;
    const uint32_t *before;             /* (n_before) */
    const uint32_t *after;              /* (n_after) */
    const struct text_step *steps;      /* (n_steps) */
    const struct text_step *late_steps; /* (n_late_steps) */
    const struct token_name *names;     /* (n_name_slots) */
    const uint8_t *pool;                /* (n_pool) */
    struct nfc_tables nfc;
    const uint16_t *map_index;         /* (n_maps, CLASS_INDEX_SIZE) */
    const uint32_t (*map_blocks)[256]; /* (n_map_blocks) */
    struct name_trie trie;
    const double *scores; /* (n_scores) */
    struct cluster_tables clusters;
    uint32_t continuation; /* WordPiece: the node of the prefix; 0: the prefix is empty, or no name
                            * starts with it */
    double least_score;    /* Unigram */
    uint32_t longest_name; /* bytes */
    uint32_t id_bound;     /* every id in the section is below this */
};

/* Returns the tables of a blob without the section, which leave text unchanged. */
static inline struct text_tables text_tables_none(void)
{
    return (struct text_tables){.header.unknown_id = NO_TOKEN};
}

/* Checks the section data[0..size), aligned to 64 bytes, and fills *tables. The section must not
 * change afterwards. On success every rule of FORMAT.md holds, except that ids have tokens (see
 * smol_tokenizer_tables_open). Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_text_tables_open(const uint8_t *data, size_t size, struct text_tables *tables,
                                  smol_error *error);

/* Returns the factor by which a valid step can lengthen a text. Reads only the maps and clusters of
 * the tables. */
uint32_t smol_text_growth(const struct text_tables *tables, const struct text_step *step);

/* Returns the most by which all steps of the section together may multiply the length of a text. */
uint32_t smol_text_most_growth(const struct text_tables *tables);

/* Returns whether the section uses anything of FEATURE_VOCABULARY. */
bool smol_text_is_extended(const struct text_tables *tables);

/* Returns map number `i`, below n_maps. */
static inline struct character_map text_map(const struct text_tables *tables, uint32_t i)
{
    return (struct character_map){tables->map_index + (size_t)i * CLASS_INDEX_SIZE,
                                  tables->map_blocks, tables->pool};
}

/* Returns the token named name[0..size), or NO_TOKEN. */
uint32_t smol_text_name(const struct text_tables *tables, const uint8_t *name, size_t size);

/* A text during preparation. Initialize it with zeros and free it with smol_prepared_free. */
struct prepared {
    const uint8_t *text; /* (size): the caller's, or in `buffer` */
    size_t size;
    struct buffer buffer;
};

/* Applies steps (n) of `tables` to text[0..size), well-formed UTF-8, in linear time. `first` is
 * true if the whole text starts there. prepared->text is valid as long as both `text` and
 * *prepared. Free *prepared even after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_text_prepare(const struct text_tables *tables, const struct text_step *steps,
                              size_t n, const uint8_t *text, size_t size, bool first,
                              struct prepared *prepared, smol_error *error);

void smol_prepared_free(struct prepared *prepared);

#endif
