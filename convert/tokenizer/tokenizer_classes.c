/* The table of character classes: unicode_classes.h, cut into blocks, equal blocks stored once. */
#include "convert/tokenizer/tokenizer_classes.h"

#include <stdlib.h>
#include <string.h>

#include "convert/tokenizer/unicode_classes.h"

enum { BLOCK = 256, N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK };

/* Moves the block to the others, or finds it among them; returns its place. */
static uint16_t add_block(struct class_table *table, const uint8_t *block)
{
    uint32_t i = 0;
    while (i < table->n_blocks && memcmp(table->blocks + (size_t)i * BLOCK, block, BLOCK) != 0)
        i++;
    if (i == table->n_blocks)
        memmove(table->blocks + (size_t)table->n_blocks++ * BLOCK, block, BLOCK);
    return (uint16_t)i;
}

smol_status smol_class_table_make(struct class_table *table, bool words, smol_error *error)
{
    table->index = calloc(CLASS_INDEX_SIZE, sizeof *table->index);
    table->blocks = calloc(N_CODE_POINTS, 1); /* first one byte for each, then what remains */
    if (!table->index || !table->blocks)
        return smol_fail_memory(error, "character classes");
    for (size_t i = 0; i < sizeof unicode_ranges / sizeof unicode_ranges[0]; i++) {
        const struct unicode_range *range = &unicode_ranges[i];
        int classes = words ? range->classes : range->classes & ~CLASS_WORD;
        memset(table->blocks + range->first, classes, range->last - range->first + 1);
    }
    for (size_t i = 0; i < CLASS_INDEX_SIZE; i++)
        table->index[i] = add_block(table, table->blocks + i * BLOCK);
    return SMOL_OK;
}

void smol_class_table_free(struct class_table *table)
{
    free(table->index);
    free(table->blocks);
    *table = (struct class_table){0};
}
