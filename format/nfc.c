/* Normalization forms C and D, see text_tables.h (Unicode Standard Annex 15). Most characters never
 * change. A segment that may change is one such character, to which marks can attach, and all
 * characters after it that may join it. It is decomposed, its marks are sorted, and it is composed
 * again. */
#include "format/text_tables.h"

#include <stdbool.h>
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"

/* A decomposed character: the combining class in the high bits, the code point below. */
enum { CLASS_SHIFT = 24, POINT_MASK = (1 << CLASS_SHIFT) - 1, N_CLASSES = 256 };

struct nfc_segment {
    const struct nfc_tables *tables;
    uint32_t *marks;   /* (capacity), n in use */
    uint32_t *scratch; /* (capacity) */
    size_t n, capacity;
};

/* --- Hangul: syllables of a leading consonant, a vowel and an optional trailing consonant --- */

enum {
    L_FIRST = 0x1100,
    V_FIRST = 0x1161,
    T_NONE = 0x11a7, /* the code point before the first */
    SYLLABLE_FIRST = 0xac00,
    N_L = 19,
    N_V = 21,
    N_T = 28, /* including no trailing consonant */
    N_SYLLABLES = N_L * N_V * N_T,
};

static bool is_syllable(uint32_t point)
{
    return point - SYLLABLE_FIRST < N_SYLLABLES;
}

/* Returns the syllable of the two characters, or 0 if they do not form one. */
static uint32_t compose_syllable(uint32_t first, uint32_t second)
{
    if (first - L_FIRST < N_L && second - V_FIRST < N_V)
        return SYLLABLE_FIRST + ((first - L_FIRST) * N_V + (second - V_FIRST)) * N_T;
    bool open = is_syllable(first) && (first - SYLLABLE_FIRST) % N_T == 0;
    return open && second > T_NONE && second - T_NONE < N_T ? first + (second - T_NONE) : 0;
}

/* --- the tables ---------------------------------------------------------------------------- */

static const struct nfc_letter *letter_of(const struct nfc_tables *tables, uint32_t point)
{
    size_t block = tables->index[point / 256];
    return &tables->letters[tables->blocks[block * 256 + point % 256]];
}

/* Returns the composition of the two characters, or 0 if they do not compose. */
static uint32_t compose(const struct nfc_tables *tables, uint32_t first, uint32_t second)
{
    uint32_t low = 0, high = tables->n_pairs;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct nfc_pair *pair = &tables->pairs[middle];
        if (pair->first < first || (pair->first == first && pair->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < tables->n_pairs && tables->pairs[low].first == first &&
        tables->pairs[low].second == second)
        return tables->pairs[low].composed;
    return compose_syllable(first, second);
}

/* --- a segment ------------------------------------------------------------------------------ */

static bool reserve(struct nfc_segment *segment, size_t n_more)
{
    if (n_more <= segment->capacity - segment->n)
        return true;
    size_t capacity = 2 * (segment->n + n_more); /* no overflow: at most 8 times a text in memory */
    if (!RESIZE(segment->marks, capacity) || !RESIZE(segment->scratch, capacity))
        return false;
    segment->capacity = capacity;
    return true;
}

static void push(struct nfc_segment *segment, uint32_t point)
{
    uint32_t class = letter_of(segment->tables, point)->combining_class;
    segment->marks[segment->n++] = class << CLASS_SHIFT | point;
}

static void decompose(struct nfc_segment *segment, uint32_t point)
{
    const struct nfc_letter *letter = letter_of(segment->tables, point);
    if (is_syllable(point)) {
        uint32_t index = point - SYLLABLE_FIRST;
        push(segment, L_FIRST + index / N_T / N_V);
        push(segment, V_FIRST + index / N_T % N_V);
        if (index % N_T)
            push(segment, T_NONE + index % N_T);
    } else if (letter->length) {
        for (size_t i = 0; i < letter->length; i++)
            push(segment, segment->tables->texts[letter->start + i]);
    } else {
        push(segment, point);
    }
}

static bool fill(struct nfc_segment *segment, const uint8_t *text, size_t size)
{
    segment->n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t point;
        i += smol_utf8_decode(text + i, size - i, &point);
        if (!reserve(segment, NFC_MAX_TEXT))
            return false;
        decompose(segment, point);
    }
    return true;
}

/* Sorts marks[0..n) by their classes; the order of equal ones does not change. */
static void sort(uint32_t *marks, size_t n, uint32_t *scratch)
{
    size_t places[N_CLASSES] = {0};
    for (size_t i = 0; i < n; i++)
        places[marks[i] >> CLASS_SHIFT]++;
    for (size_t class = 0, end = 0; class < N_CLASSES; class ++) {
        size_t count = places[class];
        places[class] = end;
        end += count;
    }
    for (size_t i = 0; i < n; i++)
        scratch[places[marks[i] >> CLASS_SHIFT]++] = marks[i];
    memcpy(marks, scratch, n * sizeof *marks);
}

/* Sorts each run of marks whose class is not 0. */
static void reorder(struct nfc_segment *segment)
{
    uint32_t *marks = segment->marks;
    for (size_t i = 0; i < segment->n;) {
        size_t start = i;
        bool sorted = true;
        for (; i < segment->n && marks[i] >> CLASS_SHIFT; i++)
            sorted =
                sorted && (i == start || marks[i - 1] >> CLASS_SHIFT <= marks[i] >> CLASS_SHIFT);
        if (!sorted)
            sort(marks + start, i - start, segment->scratch);
        i += i == start; /* class 0: not a run */
    }
}

/* Composes each character with the last starter (a character of class 0) before it, if the pair
 * composes and no character of the same or a higher class blocks it (Unicode, D115). */
static void recompose(struct nfc_segment *segment)
{
    uint32_t *marks = segment->marks;
    size_t n = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < segment->n; i++) {
        uint32_t mark = marks[i], class = mark >> CLASS_SHIFT;
        bool blocked =
            starter == SIZE_MAX || (n > starter + 1 && marks[n - 1] >> CLASS_SHIFT >= class);
        uint32_t composed =
            blocked ? 0 : compose(segment->tables, marks[starter], mark & POINT_MASK);
        if (composed) {
            marks[starter] = composed;
            continue;
        }
        if (class == 0)
            starter = n;
        marks[n++] = mark;
    }
    segment->n = n;
}

static void write(const struct nfc_segment *segment, struct buffer *out)
{
    uint8_t bytes[UTF8_MAX];
    for (size_t i = 0; i < segment->n; i++)
        smol_buffer_add(out, (char *)bytes,
                        smol_utf8_encode(segment->marks[i] & POINT_MASK, bytes));
}

/* --- the text ------------------------------------------------------------------------------- */

/* Returns whether the first character of text[0..size), size > 0, may change the text before it, or
 * change itself: in form C by joining the preceding character, in form D by being decomposed or
 * moved. Sets *length to its bytes. */
static bool changes(const struct nfc_tables *tables, bool composes, const uint8_t *text,
                    size_t size, size_t *length)
{
    uint32_t point;
    *length = 1;
    if (text[0] < 0x80)
        return false;
    *length = smol_utf8_decode(text, size, &point);
    const struct nfc_letter *letter = letter_of(tables, point);
    return composes ? letter->joins
                    : letter->length || letter->combining_class || is_syllable(point);
}

size_t smol_normal_unchanged(const struct nfc_tables *tables, bool composes, const uint8_t *text,
                             size_t size)
{
    size_t base = 0, length;
    for (size_t i = 0; i < size; i += length) {
        if (changes(tables, composes, text + i, size - i, &length))
            return composes ? base : i;
        base = i;
    }
    return size;
}

void smol_normalize_text(const struct nfc_tables *tables, bool composes, const uint8_t *text,
                         size_t size, struct buffer *out)
{
    struct nfc_segment segment = {.tables = tables};
    while (size > 0) {
        size_t start = smol_normal_unchanged(tables, composes, text, size), end = start, length;
        smol_buffer_add(out, (const char *)text, start);
        if (composes && end < size && !changes(tables, true, text + end, size - end, &length))
            end += length;
        while (end < size && changes(tables, composes, text + end, size - end, &length))
            end += length;
        out->failed = out->failed || !fill(&segment, text + start, end - start);
        if (out->failed)
            break;
        reorder(&segment);
        if (composes)
            recompose(&segment);
        write(&segment, out);
        text += end;
        size -= end;
    }
    smol_free(segment.marks);
    smol_free(segment.scratch);
}
