/* Builds the tables of normalization form C for the text section. */
#ifndef SMOL_CONVERT_NFC_TABLES_H
#define SMOL_CONVERT_NFC_TABLES_H

#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

/* Initialize to zeros. Each table is allocated. */
struct nfc_arrays {
    uint16_t *index;            /* (CLASS_INDEX_SIZE) */
    uint16_t *blocks;           /* (n_blocks, 256), all different */
    struct nfc_letter *letters; /* (n_letters) */
    uint32_t *texts;            /* (n_texts) */
    struct nfc_pair *pairs;     /* (n_pairs) */
    uint32_t n_blocks, n_letters, n_texts, n_pairs;
};

/* Builds the tables. Call smol_nfc_arrays_free, also after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_nfc_arrays_make(struct nfc_arrays *arrays, smol_error *error);

void smol_nfc_arrays_free(struct nfc_arrays *arrays);

#endif
