/* The character classes of the tokenizer section. */
#ifndef SMOL_CONVERT_TOKENIZER_CLASSES_H
#define SMOL_CONVERT_TOKENIZER_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

/* Start from zeros. */
struct class_table {
    uint16_t *index; /* (CLASS_INDEX_SIZE), allocated */
    uint8_t *blocks; /* (n_blocks, 256), allocated; no two are the same */
    uint32_t n_blocks;
};

/* With CLASS_WORD where `words`. Errors: SMOL_ERROR_MEMORY; free in any case. */
smol_status smol_class_table_make(struct class_table *table, bool words, smol_error *error);

void smol_class_table_free(struct class_table *table);

#endif
