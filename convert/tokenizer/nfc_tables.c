/* Builds the tables of normalization form C from unicode_nfc.h, indexed by code point. */
#include "convert/tokenizer/text_tables.h"

#include <stdbool.h>
#include <stdlib.h>

#include "convert/tokenizer/unicode_nfc.h"

enum {
    BLOCK = 256,
    N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK,
    N_CLASSES = 256,
    MAX_LETTERS = 1 + 2 * N_CLASSES + N_NFC_CHARACTERS,
};
_Static_assert(MAX_LETTERS <= UINT16_MAX && sizeof nfc_characters < UINT16_MAX,
               "letters and places are numbered in 16 bits");

/* The letters under construction, by code point. */
struct nfc_maker {
    struct nfc_arrays *arrays;
    struct nfc_letter *by_point; /* (N_CODE_POINTS) */
    uint16_t *numbers;           /* (N_CODE_POINTS) */
    uint16_t *places;            /* (N_CODE_POINTS): 1 + the place in nfc_characters, or 0 */
};

static smol_status allocate(struct nfc_maker *making, smol_error *error)
{
    struct nfc_arrays *p = making->arrays;
    making->by_point = calloc(N_CODE_POINTS, sizeof *making->by_point);
    making->numbers = calloc(N_CODE_POINTS, sizeof *making->numbers);
    making->places = calloc(N_CODE_POINTS, sizeof *making->places);
    p->index = calloc(CLASS_INDEX_SIZE, sizeof *p->index);
    p->letters = calloc(MAX_LETTERS, sizeof *p->letters);
    p->texts = calloc(N_NFC_CHARACTERS, NFC_MAX_TEXT * sizeof *p->texts);
    p->pairs = calloc(N_NFC_PAIRS, sizeof *p->pairs);
    bool all = making->by_point && making->numbers && making->places && p->index && p->letters &&
               p->texts && p->pairs;
    return all ? SMOL_OK : smol_fail_memory(error, "normalization");
}

static void set_classes(struct nfc_maker *making)
{
    const uint8_t *at = nfc_classes, *end = at + sizeof nfc_classes;
    for (struct packed_run run = {0}; packed_run_next(&run, &at, end);)
        for (uint32_t c = run.first; c <= run.last; c++) {
            making->by_point[c].combining_class = (uint8_t)run.value;
            making->by_point[c].joins = 1;
        }
    for (uint32_t c = 0x1161; c < 0x11c3; c++) /* Hangul vowels and trailing consonants */
        making->by_point[c].joins = c <= 0x1175 || c >= 0x11a8;
}

/* Appends the full decomposition of a character. */
static void append_text(const struct nfc_maker *making, uint32_t c)
{
    struct nfc_arrays *p = making->arrays;
    if (!making->places[c]) {
        p->texts[p->n_texts++] = c;
        return;
    }
    const uint8_t *at = nfc_characters + making->places[c] - 1;
    for (uint32_t n = (packed_number(&at) >> 1 & 3) + 1; n > 0; n--)
        append_text(making, packed_number(&at));
}

/* Reads the characters that decompose, and the pairs that compose. A character that decomposes
 * joins; set_pairs excepts composed ones. */
static void set_decompositions(const struct nfc_maker *making)
{
    struct nfc_arrays *p = making->arrays;
    const uint8_t *at = nfc_characters;
    for (uint32_t c = 0; at < nfc_characters + sizeof nfc_characters;) {
        size_t place = (size_t)(at - nfc_characters);
        uint32_t head = packed_number(&at), text[NFC_MAX_TEXT];
        c += head >> 3;
        making->places[c] = (uint16_t)(place + 1);
        for (uint32_t i = 0; i <= (head >> 1 & 3); i++)
            text[i] = packed_number(&at);
        if (head & 1)
            p->pairs[p->n_pairs++] = (struct nfc_pair){text[0], text[1], c};
    }
    for (uint32_t c = 0; c < N_CODE_POINTS; c++) {
        struct nfc_letter *letter = &making->by_point[c];
        if (!making->places[c])
            continue;
        letter->start = p->n_texts;
        append_text(making, c);
        letter->length = (uint8_t)(p->n_texts - letter->start);
        letter->joins = 1;
    }
}

static int compare_pairs(const void *left, const void *right)
{
    const struct nfc_pair *a = left, *b = right;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->second > b->second) - (a->second < b->second);
}

/* Sorts the pairs. A composed character stays unchanged, unless it may join another character. The
 * second character of a pair joins. */
static void set_pairs(struct nfc_maker *making)
{
    struct nfc_arrays *p = making->arrays;
    qsort(p->pairs, p->n_pairs, sizeof *p->pairs, compare_pairs);
    for (uint32_t i = 0; i < p->n_pairs; i++)
        making->by_point[p->pairs[i].composed].joins = 0;
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
    free(making.places);
    return status;
}
