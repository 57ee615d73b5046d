/* Added tokens, see tokenizer_added.h: leftmost, then longest. */
#include "runtime/tokenizer/tokenizer_added.h"

#include <string.h>

#include "common/utf8.h"

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
               (tokenizer_added(tables, i).flags & ADDED_NORMALIZED) == kind &&
               added_byte(tables, i, 0) == byte)
            i++;
    }
    return i;
}

void smol_added_sets(const struct tokenizer_tables *tables, struct added_set sets[ADDED_KINDS])
{
    uint32_t end = find_set(tables, 0, 0, &sets[0]);
    find_set(tables, ADDED_NORMALIZED, end, &sets[1]);
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

/* --- tokens that strangers must not spell ---------------------------------------------------- */

static bool is_special(const struct tokenizer_tables *tables, const struct added_token *token)
{
    return token->flags & ADDED_SPECIAL || tokenizer_span(tables, token->id).flags & TOKEN_SPECIAL;
}

static bool is_white(const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        i += smol_utf8_decode(text + i, size - i, &code_point);
        if (!smol_utf8_is_space(code_point))
            return false;
    }
    return true;
}

bool smol_added_is_control(const struct tokenizer_tables *tables, const struct mixed_text *mixed,
                           const struct added_token *token)
{
    const uint8_t *text = tables->text + token->start;
    return is_special(tables, token) ||
           (memmem(mixed->literals, mixed->n_literals, text, token->length) &&
            !is_white(text, token->length));
}

static bool may_stand(const struct added_search *search, const struct added_token *token)
{
    if (!search->mixed)
        return true;
    bool argument = search->arguments
                        ? memchr(search->arguments + search->at, 1, token->length) != NULL
                        : search->argument;
    return !argument || !smol_added_is_control(search->tables, search->mixed, token);
}

/* The longest token of the set that stands where the search is; length 0: none. */
static struct added_token longest_added(const struct added_search *search)
{
    const struct tokenizer_tables *tables = search->tables;
    const struct added_set *set = search->set;
    const uint8_t *text = search->text + search->at;
    size_t size = search->size - search->at;
    struct added_token longest = {0};
    uint32_t low = set->first[text[0]], high = set->first[text[0] + 1];
    /* those left start with text[0..k) */
    for (size_t k = 1; low < high && k <= ADDED_TOKEN_MAX; k++) {
        struct added_token shortest = tokenizer_added(tables, low);
        if (shortest.length == k) {
            if (may_stand(search, &shortest))
                longest = shortest;
            low++;
        }
        if (k == size)
            break;
        low = lower_bound(tables, low, high, k, text[k]);
        high = lower_bound(tables, low, high, k, text[k] + 1u);
    }
    return longest;
}

/* --- what stands beside a token ------------------------------------------------------------- */

/* The classes of the character that text[0..size) starts with; none for an empty one. */
static unsigned classes_at(const struct added_search *search, size_t at, size_t *length)
{
    uint32_t point;
    *length = 0;
    if (at == search->size)
        return 0;
    *length = smol_utf8_decode(search->text + at, search->size - at, &point);
    return tokenizer_classes(search->tables, point);
}

/* The same for the character that ends at `end`. */
static unsigned classes_before(const struct added_search *search, size_t end, size_t *length)
{
    size_t start = end;
    *length = 0;
    if (end == 0)
        return 0;
    do
        start--;
    while (start > 0 && end - start < UTF8_MAX && (search->text[start] & 0xc0) == 0x80);
    unsigned classes = classes_at(search, start, length);
    *length = end - start;
    return classes;
}

static bool is_single_word(const struct added_search *search, const struct added_match *match)
{
    size_t length;
    return !(classes_before(search, match->start, &length) & CLASS_WORD) &&
           !(classes_at(search, match->end, &length) & CLASS_WORD);
}

/* No further back than the last token reaches, which bounds the work. */
static size_t before_space(const struct added_search *search, size_t start)
{
    size_t length;
    while (start > search->covered && classes_before(search, start, &length) & CLASS_SPACE)
        start -= length;
    return start > search->covered ? start : search->covered;
}

/* A run of white space in which many tokens end is looked at once. */
static size_t behind_space(struct added_search *search, size_t end)
{
    if (end >= search->space_start && end < search->space_end)
        return search->space_end;
    size_t length;
    search->space_start = end;
    while (classes_at(search, end, &length) & CLASS_SPACE)
        end += length;
    search->space_end = end;
    return end;
}

/* --- the walk ------------------------------------------------------------------------------- */

static bool is_text(const struct added_search *search, const struct added_token *token)
{
    return search->skip_special && is_special(search->tables, token);
}

bool smol_added_next(struct added_search *search, struct added_match *match)
{
    const struct added_set *set = search->set;
    while (search->at < search->size && set->first[256] > set->first[0]) {
        struct added_token token = longest_added(search);
        *match = (struct added_match){token.id, search->at, search->at + token.length};
        search->at += token.length ? token.length : 1;
        if (token.length == 0 || is_text(search, &token) ||
            (token.flags & ADDED_SINGLE_WORD && !is_single_word(search, match)))
            continue;
        if (token.flags & ADDED_LSTRIP)
            match->start = before_space(search, match->start);
        if (token.flags & ADDED_RSTRIP)
            match->end = behind_space(search, match->end);
        if (match->start >= match->end) /* all of it was taken by the one before */
            match->id = NO_TOKEN;
        search->covered = match->end;
        return true;
    }
    return false;
}
