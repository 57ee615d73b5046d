/* Builds the tables of normalization form C from unicode_nfc.h, indexed by code point. */
#include "convert/tokenizer/text_tables.h"

#include <stdbool.h>
#include <stdlib.h>

#include "convert/tokenizer/unicode_nfc.h"

enum {
    BLOCK = 256,
    N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK,
    N_DECOMPOSITIONS = sizeof nfc_decompositions / sizeof nfc_decompositions[0],
    N_CLASSES = 256,
    MAX_LETTERS = 1 + 2 * N_CLASSES + N_DECOMPOSITIONS,
};
_Static_assert(MAX_LETTERS <= UINT16_MAX, "letters are numbered in 16 bits");

/* The letters under construction, by code point. */
struct nfc_maker {
    struct nfc_arrays *arrays;
    struct nfc_letter *by_point; /* (N_CODE_POINTS) */
    uint16_t *numbers;           /* (N_CODE_POINTS) */
};

static smol_status allocate(struct nfc_maker *making, smol_error *error)
{
    struct nfc_arrays *p = making->arrays;
    making->by_point = calloc(N_CODE_POINTS, sizeof *making->by_point);
    making->numbers = calloc(N_CODE_POINTS, sizeof *making->numbers);
    p->index = calloc(CLASS_INDEX_SIZE, sizeof *p->index);
    p->letters = calloc(MAX_LETTERS, sizeof *p->letters);
    p->texts = calloc(N_DECOMPOSITIONS, NFC_MAX_TEXT * sizeof *p->texts);
    p->pairs = calloc(sizeof nfc_compositions / sizeof nfc_compositions[0], sizeof *p->pairs);
    bool all =
        making->by_point && making->numbers && p->index && p->letters && p->texts && p->pairs;
    return all ? SMOL_OK : smol_fail_memory(error, "normalization");
}

static void set_classes(struct nfc_maker *making)
{
    for (size_t i = 0; i < sizeof nfc_classes / sizeof nfc_classes[0]; i++)
        for (uint32_t c = nfc_classes[i].first; c <= nfc_classes[i].last; c++) {
            making->by_point[c].combining_class = nfc_classes[i].combining_class;
            making->by_point[c].joins = 1;
        }
    for (uint32_t c = 0x1161; c < 0x11c3; c++) /* Hangul vowels and trailing consonants */
        making->by_point[c].joins = c <= 0x1175 || c >= 0x11a8;
}

static void set_decompositions(struct nfc_maker *making)
{
    struct nfc_arrays *p = making->arrays;
    for (size_t i = 0; i < N_DECOMPOSITIONS; i++) {
        const struct nfc_decomposition *d = &nfc_decompositions[i];
        struct nfc_letter *letter = &making->by_point[d->code_point];
        letter->start = p->n_texts;
        while (letter->length < NFC_MAX_TEXT && d->text[letter->length])
            p->texts[p->n_texts++] = d->text[letter->length++];
        letter->joins = 1; /* set_pairs clears it for composed characters */
    }
}

/* Copies the pairs. A composed character stays unchanged, unless it may join another character. The
 * second character of a pair joins. */
static void set_pairs(struct nfc_maker *making)
{
    struct nfc_arrays *p = making->arrays;
    p->n_pairs = sizeof nfc_compositions / sizeof nfc_compositions[0];
    for (uint32_t i = 0; i < p->n_pairs; i++) {
        const struct nfc_composition *c = &nfc_compositions[i];
        p->pairs[i] = (struct nfc_pair){c->first, c->second, c->composed};
        making->by_point[c->composed].joins = 0;
    }
    for (uint32_t i = 0; i < p->n_pairs; i++)
        making->by_point[p->pairs[i].second].joins = 1;
}

/* Assigns each code point the number of its letter. Code points without a decomposition share
 * letters. Letter 0 is all zeros. */
static void number_letters(struct nfc_maker *making)
{
    struct nfc_arrays *p = making->arrays;
    uint16_t plain[2][N_CLASSES] = {0}; /* letters without a decomposition */
    p->n_letters = 1;
    for (uint32_t c = 0; c < N_CODE_POINTS; c++) {
        const struct nfc_letter *letter = &making->by_point[c];
        if (!letter->length && !letter->combining_class && !letter->joins)
            continue;
        uint16_t *number =
            letter->length ? &making->numbers[c] : &plain[letter->joins][letter->combining_class];
        if (*number == 0) {
            *number = (uint16_t)p->n_letters;
            p->letters[p->n_letters++] = *letter;
        }
        making->numbers[c] = *number;
    }
}

smol_status smol_nfc_arrays_make(struct nfc_arrays *arrays, smol_error *error)
{
    struct nfc_maker making = {.arrays = arrays};
    smol_status status = allocate(&making, error);
    if (!status) {
        set_classes(&making);
        set_decompositions(&making);
        set_pairs(&making);
        number_letters(&making);
        arrays->blocks = making.numbers;
        making.numbers = NULL;
        for (size_t i = 0; i < CLASS_INDEX_SIZE; i++)
            arrays->index[i] =
                text_block_add(arrays->blocks, &arrays->n_blocks, arrays->blocks + i * BLOCK,
                               BLOCK * sizeof *arrays->blocks);
    }
    free(making.by_point);
    free(making.numbers);
    return status;
}
