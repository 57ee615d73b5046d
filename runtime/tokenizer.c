/* Text to token ids and back, see tokenizer.h. The stages, each handing what it has cut to the
 * next: well-formed UTF-8, added tokens, pieces, words, merges. */
#include "runtime/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/utf8.h"
#include "runtime/tokenizer_merge.h"
#include "runtime/tokenizer_words.h"

/* One kind of added tokens, a stretch of their table. */
struct added_set {
    uint32_t first[257]; /* tokens that start with byte b: entries first[b] to first[b + 1] */
};

enum { ADDED_KINDS = 2 };

struct encoder {
    const struct tokenizer_tables *tables;
    struct added_set added[ADDED_KINDS];
    struct token_list *list;
    struct error *error;
};

/* --- words ---------------------------------------------------------------------------------- */

static enum status reserve(struct encoder *encoder, size_t n_more)
{
    struct token_list *list = encoder->list;
    if (n_more <= list->capacity - list->n)
        return STATUS_OK;
    uint64_t capacity, size;
    if (!checked_add(list->n, n_more, &capacity) ||
        !checked_add(capacity, capacity / 2, &capacity) ||
        !checked_mul(capacity, sizeof *list->ids, &size) || size > SIZE_MAX)
        return smol_fail_memory(encoder->error, "token ids");
    uint32_t *ids = realloc(list->ids, (size_t)size);
    if (!ids)
        return smol_fail_memory(encoder->error, "token ids");
    list->ids = ids;
    list->capacity = (size_t)capacity;
    return STATUS_OK;
}

static enum status encode_word(struct encoder *encoder, const uint8_t *word, size_t size)
{
    enum status status = reserve(encoder, size);
    if (status)
        return status;
    uint32_t *ids = encoder->list->ids + encoder->list->n;
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        ids[n] = tokenizer_byte(encoder->tables, word[i]);
        n += ids[n] != NO_TOKEN; /* a byte without a token leaves no trace, not even a gap */
    }
    status = smol_merge_word(encoder->tables, ids, &n, encoder->error);
    if (!status)
        encoder->list->n += n;
    return status;
}

static enum status encode_words(struct encoder *encoder, const uint8_t *text, size_t size)
{
    const uint8_t *end = text + size;
    while (text < end) {
        const uint8_t *piece_end = text + smol_piece_length(encoder->tables, text, end - text);
        while (text < piece_end) {
            size_t length = smol_word_length(encoder->tables, text, piece_end - text);
            enum status status = encode_word(encoder, text, length);
            if (status)
                return status;
            text += length;
        }
    }
    return STATUS_OK;
}

/* --- added tokens --------------------------------------------------------------------------- */

/* Byte `k` of an entry's text; 0 behind its end, where nobody looks unless the table has changed.
 */
static unsigned added_byte(const struct tokenizer_tables *tables, uint32_t entry, size_t k)
{
    struct added_token added = tokenizer_added(tables, entry);
    return k < added.length ? tables->text[added.start + k] : 0;
}

/* Sorts out the table: the tokens of `kind` start at `begin`; returns where they end. */
static uint32_t find_set(const struct tokenizer_tables *tables, uint32_t kind, uint32_t begin,
                         struct added_set *set)
{
    uint32_t i = begin;
    for (unsigned byte = 0; byte <= 256; byte++) {
        set->first[byte] = i;
        while (byte < 256 && i < tables->header.n_added &&
               tokenizer_added(tables, i).flags == kind && added_byte(tables, i, 0) == byte)
            i++;
    }
    return i;
}

/* The first of entries [low, high) whose byte `k` is at least `byte`. Their first k bytes are the
 * same, and all are longer than that. */
static uint32_t lower_bound(const struct tokenizer_tables *tables, uint32_t low, uint32_t high,
                            size_t k, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (added_byte(tables, middle, k) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token of the set that text[0..size), size > 0, starts with. */
struct match {
    uint32_t id;
    size_t length; /* 0: none */
};
static struct match longest_added(const struct tokenizer_tables *tables,
                                  const struct added_set *set, const uint8_t *text, size_t size)
{
    struct match longest = {0};
    uint32_t low = set->first[text[0]], high = set->first[text[0] + 1];
    /* those left start with text[0..k) */
    for (size_t k = 1; low < high && k <= ADDED_TOKEN_MAX; k++) {
        struct added_token shortest = tokenizer_added(tables, low);
        if (shortest.length == k) {
            longest = (struct match){shortest.id, k};
            low++;
        }
        if (k == size)
            break;
        low = lower_bound(tables, low, high, k, text[k]);
        high = lower_bound(tables, low, high, k, text[k] + 1u);
    }
    return longest;
}

static enum status append(struct encoder *encoder, uint32_t id)
{
    enum status status = reserve(encoder, 1);
    if (!status)
        encoder->list->ids[encoder->list->n++] = id;
    return status;
}

/* Finds the added tokens of `kind` and later kinds in the text, and words between them. */
static enum status encode_added(struct encoder *encoder, const uint8_t *text, size_t size,
                                unsigned kind)
{
    if (kind == ADDED_KINDS)
        return encode_words(encoder, text, size);
    const struct added_set *set = &encoder->added[kind];
    size_t start = 0, i = 0;
    while (i < size && set->first[256] > set->first[0]) {
        struct match token = longest_added(encoder->tables, set, text + i, size - i);
        if (token.length == 0) {
            i++;
            continue;
        }
        enum status status = encode_added(encoder, text + start, i - start, kind + 1);
        if (status || (status = append(encoder, token.id)))
            return status;
        start = i += token.length;
    }
    return encode_added(encoder, text + start, size - start, kind + 1);
}

/* --- the whole ------------------------------------------------------------------------------ */

/* A copy of text[0..*size) with U+FFFD for whatever is not UTF-8; *size becomes its length. */
static uint8_t *well_formed_copy(const uint8_t *text, size_t *size)
{
    uint64_t room; /* the worst: every byte is replaced by three */
    uint8_t *copy = checked_mul(*size, 3, &room) && room <= SIZE_MAX ? malloc((size_t)room) : NULL;
    if (!copy)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < *size;) {
        uint32_t code_point;
        i += smol_utf8_decode(text + i, *size - i, &code_point);
        n += smol_utf8_encode(code_point, copy + n);
    }
    *size = n;
    return copy;
}

enum status smol_tokenizer_encode(const struct tokenizer_tables *tables, const char *text,
                                  size_t size, bool parse_added, struct token_list *list,
                                  struct error *error)
{
    if (size == 0)
        return STATUS_OK; /* and `text` may be NULL */
    struct encoder encoder = {.tables = tables, .list = list, .error = error};
    const uint8_t *bytes = (const uint8_t *)text;
    uint8_t *copy = NULL;
    if (utf8_well_formed(bytes, size) < size && !(bytes = copy = well_formed_copy(bytes, &size)))
        return smol_fail_memory(error, "the text");
    size_t n_before = list->n;
    unsigned first_kind = ADDED_KINDS;
    if (parse_added) {
        first_kind = 0;
        uint32_t end = find_set(tables, 0, 0, &encoder.added[0]);
        find_set(tables, ADDED_NORMALIZED, end, &encoder.added[1]);
    }
    enum status status = encode_added(&encoder, bytes, size, first_kind);
    if (status)
        list->n = n_before;
    free(copy);
    return status;
}

struct token_text smol_tokenizer_text(const struct tokenizer_tables *tables, uint32_t id)
{
    struct token_span span = tokenizer_span(tables, id);
    return (struct token_text){
        .bytes = tables->text + span.start,
        .length = span.length,
        .special = span.flags & TOKEN_SPECIAL,
    };
}
