/* Tokenizer sections from inputs, see build.h. */
#include "common/checked.h"
#include "common/utf8.h"
#include "tests/fuzz/build.h"

enum { MAX_MERGES = 64, MAX_SLOTS = 2 * MAX_MERGES, MAX_ADDED = 16, MAX_BLOCKS = 4, PATTERN = 16 };

struct tables {
    struct blob_tokenizer header;
    struct token_span spans[256];
    uint8_t text[256];
    uint32_t byte_tokens[256];
    struct token_merge merges[MAX_SLOTS];
    struct added_token added[MAX_ADDED];
    uint16_t class_index[CLASS_INDEX_SIZE];
    uint8_t class_blocks[MAX_BLOCKS][256];
};

/* start and length of a stretch of the text */
static void read_stretch(struct fuzz_input *in, uint32_t n_text, uint32_t *start, uint32_t *length)
{
    uint8_t place = fuzz_take_byte(in), wanted = fuzz_take_byte(in) % 32;
    *start = place % (n_text + 1);
    *length = wanted < n_text - *start ? wanted : n_text - *start;
}

static void read_spans(struct fuzz_input *in, struct tables *t, bool with_text)
{
    for (uint32_t id = 0; id < t->header.n_tokens; id++) {
        uint32_t start, length;
        read_stretch(in, t->header.n_text_bytes, &start, &length);
        uint16_t flags = start % 7 == 6 ? TOKEN_SPECIAL : 0;
        if (with_text)
            flags |=
                (uint16_t)((length == 1 ? TOKEN_BYTE : 0) | (start % 5 == 4 ? TOKEN_PLAIN : 0));
        t->spans[id] = (struct token_span){start, (uint16_t)length, flags};
    }
    for (unsigned byte = 0; byte < 256; byte++) { /* the upper half as the lower */
        uint32_t id = byte < 128 ? fuzz_take_byte(in) : t->byte_tokens[byte - 128];
        t->byte_tokens[byte] = id < t->header.n_tokens ? id : NO_TOKEN;
    }
}

/* Puts a merge into the hash unless its pair is there. */
static void insert(struct tables *t, struct token_merge merge)
{
    uint32_t mask = t->header.n_merge_slots - 1, probe = 1;
    uint32_t slot = merge_hash(merge.left, merge.right) & mask;
    for (; t->merges[slot].left != NO_TOKEN; slot = (slot + 1) & mask, probe++)
        if (t->merges[slot].left == merge.left && t->merges[slot].right == merge.right)
            return;
    t->merges[slot] = merge;
    if (probe > t->header.max_probe)
        t->header.max_probe = probe;
}

static void read_merges(struct fuzz_input *in, struct tables *t, uint32_t n)
{
    uint32_t n_tokens = t->header.n_tokens, n_slots = 1;
    while (n_slots < 2 * n)
        n_slots *= 2;
    t->header.n_merge_slots = n_slots;
    for (uint32_t slot = 0; slot < n_slots; slot++)
        t->merges[slot].left = NO_TOKEN;
    for (uint32_t rank = 0; rank < n; rank++) {
        uint8_t ids[3];
        fuzz_take(in, ids, sizeof ids);
        insert(t,
               (struct token_merge){ids[0] % n_tokens, ids[1] % n_tokens, rank, ids[2] % n_tokens});
    }
}

/* qsort has no context of its own */
static const uint8_t *compared_text;

static int compare_added(const void *left, const void *right)
{
    const struct added_token *a = left, *b = right;
    unsigned kind_a = a->flags & ADDED_NORMALIZED, kind_b = b->flags & ADDED_NORMALIZED;
    if (kind_a != kind_b)
        return kind_a < kind_b ? -1 : 1;
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(compared_text + a->start, compared_text + b->start, common);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static void read_added(struct fuzz_input *in, struct tables *t, uint32_t n, bool with_text)
{
    struct added_token *added = t->added;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct added_token token = {.id = fuzz_take_byte(in) % t->header.n_tokens};
        read_stretch(in, t->header.n_text_bytes, &token.start, &token.length);
        token.flags = fuzz_take_byte(in) & (with_text ? 31 : 1);
        token.length = (uint32_t)smol_utf8_well_formed(t->text + token.start, token.length);
        if (token.length > 0)
            added[t->header.n_added++] = token;
    }
    compared_text = t->text;
    qsort(added, t->header.n_added, sizeof *added, compare_added);
    for (uint32_t i = 0; i < t->header.n_added; i++)
        if (kept == 0 || compare_added(&added[kept - 1], &added[i]) != 0)
            added[kept++] = added[i];
    t->header.n_added = kept;
}

/* Blocks that repeat a pattern, and an index that repeats one of eight entries. */
static void read_classes(struct fuzz_input *in, struct tables *t, bool with_text)
{
    static const uint8_t legal[] = {0, 1, 2, 4, 8, 9, 10, 12};
    uint8_t pattern[PATTERN], order[8];
    for (uint32_t block = 0; block < t->header.n_class_blocks; block++) {
        fuzz_take(in, pattern, sizeof pattern);
        for (unsigned i = 0; i < 256; i++)
            t->class_blocks[block][i] = legal[pattern[i % PATTERN] % sizeof legal] |
                                        (with_text && i % 3 == 0 ? CLASS_WORD : 0);
        t->class_blocks[block][' '] = CLASS_SPACE;
    }
    fuzz_take(in, order, sizeof order);
    for (unsigned i = 0; i < CLASS_INDEX_SIZE; i++)
        t->class_index[i] = order[i % sizeof order] % t->header.n_class_blocks;
}

static void read_tables(struct fuzz_input *in, uint32_t vocab_size, bool with_text,
                        struct tables *t, uint8_t *n_damages)
{
    struct tokenizer_recipe recipe;
    fuzz_take(in, &recipe, sizeof recipe);
    *n_damages = recipe.n_damages % 8;
    t->header.n_tokens = 1 + recipe.n_tokens % vocab_size;
    t->header.n_text_bytes = recipe.n_text;
    t->header.n_class_blocks = 1 + recipe.n_class_blocks % MAX_BLOCKS;
    t->header.pretokenizer = PRETOKENIZE_GPT2 | (recipe.digits & PRETOKENIZE_DIGITS);
    fuzz_take(in, t->text, recipe.n_text);
    read_spans(in, t, with_text);
    read_merges(in, t, recipe.n_merges % (MAX_MERGES + 1));
    read_added(in, t, recipe.n_added % (MAX_ADDED + 1), with_text);
    read_classes(in, t, with_text);
}

/* Lays the tables out one after the other, as FORMAT.md says. */
static struct built lay_out(struct tables *t)
{
    struct blob_tokenizer *h = &t->header;
    const struct {
        const void *bytes;
        size_t size;
        uint32_t *offset;
    } parts[] = {
        {t->spans, h->n_tokens * sizeof t->spans[0], &h->token_spans},
        {t->text, h->n_text_bytes, &h->text},
        {t->byte_tokens, sizeof t->byte_tokens, &h->byte_tokens},
        {t->merges, h->n_merge_slots * sizeof t->merges[0], &h->merges},
        {t->added, h->n_added * sizeof t->added[0], &h->added},
        {t->class_index, sizeof t->class_index, &h->class_index},
        {t->class_blocks, h->n_class_blocks * sizeof t->class_blocks[0], &h->class_blocks},
    };
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    struct built section = {NULL, sizeof *h};
    for (size_t i = 0; i < N_PARTS; i++) {
        *parts[i].offset = (uint32_t)round_up(section.size, BLOB_ALIGN);
        section.size = *parts[i].offset + parts[i].size;
    }
    section.data = exact_zeros(section.size);
    memcpy(section.data, h, sizeof *h);
    for (size_t i = 0; i < N_PARTS; i++)
        memcpy(section.data + *parts[i].offset, parts[i].bytes, parts[i].size);
    return section;
}

struct built fuzz_build_tokenizer(struct fuzz_input *in, uint32_t vocab_size, bool with_text)
{
    static struct tables tables;
    uint8_t n_damages;
    memset(&tables, 0, sizeof tables);
    read_tables(in, vocab_size, with_text, &tables, &n_damages);
    struct built section = lay_out(&tables);
    fuzz_damage(in, n_damages, section.data, section.size);
    return section;
}
