/* Text sections from inputs, see build.h. */
#include "common/checked.h"
#include "common/hash.h"
#include "common/utf8.h"
#include "tests/fuzz/build.h"

enum {
    POOL = 67, /* 64 bytes of ASCII, then U+2581 */
    MAX_NAMES = 16,
    MAX_SLOTS = 2 * MAX_NAMES,
    MAX_LETTERS = 8,
    MAX_PAIRS = 8,
    PATTERN = 32,
};

struct tables {
    struct blob_text header;
    uint32_t before[4], after[4];
    struct text_step steps[TEXT_MAX_STEPS], late_steps[TEXT_MAX_STEPS];
    struct token_name names[MAX_SLOTS];
    uint8_t pool[POOL];
    uint16_t index[CLASS_INDEX_SIZE], blocks[2][256];
    struct nfc_letter letters[MAX_LETTERS];
    uint32_t texts[MAX_LETTERS];
    struct nfc_pair pairs[MAX_PAIRS];
};

/* Code points that steps and letters have to do with. */
static const uint32_t points[] = {'a',    ' ',    'b',     0x2581,  0xe9,   0x301,
                                  0x327,  0x1100, 0x1161,  0x11a8,  0xac00, 0xd7a3,
                                  0x3099, 0x30ab, 0x1f600, 0x10ffff};
enum { N_POINTS = sizeof points / sizeof points[0] };

static void read_pool(struct fuzz_input *in, struct tables *t)
{
    fuzz_take(in, t->pool, POOL - 3);
    for (unsigned i = 0; i < POOL - 3; i++)
        t->pool[i] &= 0x7f;
    smol_utf8_encode(0x2581, t->pool + POOL - 3);
    t->header.n_pool = POOL;
}

/* A step that makes a text at most `*room` times as long, of which it takes its part. */
static struct text_step read_step(struct fuzz_input *in, bool letters, uint64_t *room)
{
    uint8_t bytes[4];
    fuzz_take(in, bytes, sizeof bytes);
    struct text_step step = {1 + bytes[0] % 5, bytes[1] % 60, 1 + bytes[2] % 3, 1 + bytes[3] % 2};
    bool special = bytes[1] >= 240; /* by U+2581 */
    if (step.kind == STEP_NFC && letters && *room >= NFC_MAX_TEXT * UTF8_MAX) {
        *room /= NFC_MAX_TEXT * UTF8_MAX;
        return (struct text_step){.kind = STEP_NFC};
    }
    if (step.kind == STEP_NFC)
        step.kind = STEP_REPLACE;
    if (special)
        step = (struct text_step){step.kind, POOL - 4, 1, 3};
    if (step.kind != STEP_REPLACE) {
        step.start += step.pattern;
        step.pattern = 0;
        return step;
    }
    uint64_t growth = (step.text + step.pattern - 1) / step.pattern;
    if (growth > *room)
        step.text = 0;
    else
        *room /= growth;
    return step;
}

static void read_names(struct fuzz_input *in, struct tables *t, uint32_t n, uint32_t n_tokens)
{
    uint32_t n_slots = 1;
    while (n_slots < 2 * n)
        n_slots *= 2;
    t->header.n_name_slots = n > 0 ? n_slots : 0;
    for (uint32_t slot = 0; slot < n_slots; slot++)
        t->names[slot].id = NO_TOKEN;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t start = fuzz_take_byte(in) % POOL, length = 1 + fuzz_take_byte(in) % 4;
        length = length < POOL - start ? length : POOL - start;
        uint32_t slot = (uint32_t)smol_digest(t->pool + start, length) & (n_slots - 1), probe = 1;
        for (; t->names[slot].id != NO_TOKEN; slot = (slot + 1) & (n_slots - 1), probe++)
            if (t->names[slot].length == length &&
                memcmp(t->pool + t->names[slot].start, t->pool + start, length) == 0)
                break;
        if (t->names[slot].id != NO_TOKEN)
            continue;
        t->names[slot] = (struct token_name){fuzz_take_byte(in) % n_tokens, start, length};
        t->header.max_probe = probe > t->header.max_probe ? probe : t->header.max_probe;
    }
}

/* Letters for the code points of the list, whatever they are, and for those that share their low
 * bytes. */
static void read_letters(struct fuzz_input *in, struct tables *t)
{
    struct blob_text *h = &t->header;
    h->n_letter_index = CLASS_INDEX_SIZE;
    h->n_letter_blocks = 2;
    h->n_letters = h->n_letter_texts = MAX_LETTERS;
    for (unsigned i = 1; i < CLASS_INDEX_SIZE; i++)
        t->index[i] = 1;
    for (unsigned i = 0; i < MAX_LETTERS; i++)
        t->texts[i] = points[fuzz_take_byte(in) % N_POINTS];
    for (unsigned i = 1; i < MAX_LETTERS; i++) {
        uint8_t length = fuzz_take_byte(in) % (NFC_MAX_TEXT + 1), class = fuzz_take_byte(in);
        t->letters[i] = (struct nfc_letter){length ? i % 4 : 0, length, class, class % 2, 0};
    }
    uint8_t pattern[PATTERN];
    fuzz_take(in, pattern, sizeof pattern);
    for (unsigned i = 0; i < 256; i++) {
        t->blocks[1][i] = pattern[i % PATTERN] % MAX_LETTERS;
        t->blocks[0][i] = i < 128 ? 0 : t->blocks[1][i];
    }
    struct nfc_pair *pairs = t->pairs;
    for (unsigned i = 0; i < MAX_PAIRS; i++) { /* in the order of code points */
        uint32_t first = 'a' + i, second = points[fuzz_take_byte(in) % N_POINTS];
        pairs[i] = (struct nfc_pair){first, second, points[fuzz_take_byte(in) % N_POINTS]};
    }
    h->n_pairs = MAX_PAIRS;
}

static void read_tables(struct fuzz_input *in, uint32_t n_tokens, struct tables *t)
{
    struct text_recipe r;
    struct blob_text *h = &t->header;
    uint64_t room = TEXT_MAX_GROWTH;
    fuzz_take(in, &r, sizeof r);
    h->flags = r.flags % 64;
    if (!(h->flags & TEXT_CHARACTERS))
        h->flags &= ~(uint32_t)TEXT_BYTE_FALLBACK;
    h->unknown_id = r.unknown < n_tokens ? r.unknown : NO_TOKEN;
    h->split = h->flags & TEXT_CHARACTERS && r.split ? points[r.split % N_POINTS] : 0;
    h->n_strip = r.n_strip % 4;
    h->strip = h->n_strip ? points[r.strip % N_POINTS] : 0;
    h->n_before = r.n_before % 4;
    h->n_after = r.n_after % 4;
    h->n_steps = r.n_steps % 4;
    h->n_late_steps = r.n_late_steps % 4;
    for (unsigned i = 0; i < 4; i++) {
        t->before[i] = i * r.n_before % n_tokens;
        t->after[i] = i * r.n_after % n_tokens;
    }
    read_pool(in, t);
    if (r.letters & 1)
        read_letters(in, t);
    for (uint32_t i = 0; i < h->n_steps; i++)
        t->steps[i] = read_step(in, r.letters & 1, &room);
    for (uint32_t i = 0; i < h->n_late_steps; i++)
        t->late_steps[i] = read_step(in, r.letters & 1, &room);
    read_names(in, t, r.n_names % (MAX_NAMES + 1), n_tokens);
}

/* Lays the tables out one after the other, as FORMAT.md says. */
static struct built lay_out(const struct tables *t)
{
    const struct blob_text *h = &t->header;
    const struct {
        const void *bytes;
        size_t size;
    } parts[] = {
        {h, sizeof *h},
        {t->before, h->n_before * sizeof t->before[0]},
        {t->after, h->n_after * sizeof t->after[0]},
        {t->steps, h->n_steps * sizeof t->steps[0]},
        {t->late_steps, h->n_late_steps * sizeof t->late_steps[0]},
        {t->names, h->n_name_slots * sizeof t->names[0]},
        {t->pool, h->n_pool},
        {t->index, h->n_letter_index * sizeof t->index[0]},
        {t->blocks, h->n_letter_blocks * sizeof t->blocks[0]},
        {t->letters, h->n_letters * sizeof t->letters[0]},
        {t->texts, h->n_letter_texts * sizeof t->texts[0]},
        {t->pairs, h->n_pairs * sizeof t->pairs[0]},
    };
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    struct built section = {NULL, 0};
    for (size_t i = 0; i < N_PARTS; i++)
        section.size = round_up(section.size, BLOB_ALIGN) + parts[i].size;
    section.data = exact_zeros(section.size);
    size_t at = 0;
    for (size_t i = 0; i < N_PARTS; i++) {
        at = round_up(at, BLOB_ALIGN);
        memcpy(section.data + at, parts[i].bytes, parts[i].size);
        at += parts[i].size;
    }
    return section;
}

struct built fuzz_build_text(struct fuzz_input *in, uint32_t n_tokens)
{
    static struct tables tables;
    memset(&tables, 0, sizeof tables);
    read_tables(in, n_tokens, &tables);
    return lay_out(&tables);
}
