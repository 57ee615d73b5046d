/* Unigram, see words.h. */
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"
#include "runtime/tokenizer/words.h"

/* The cost of an unknown character beyond that of the worst token, as in SentencePiece. */
#define UNKNOWN_PENALTY 10.0
#define NO_START UINT32_MAX

/* The best way to spell the word up to a place. */
struct path {
    double score;
    uint32_t start; /* of the last token; NO_START: no path */
    uint32_t id;    /* of the last token */
};

/* Makes the token the last one of the best path to `end`, unless a path at least as good is known.
 */
static void offer(struct path *paths, size_t start, size_t end, double score, uint32_t id)
{
    double sum = score + paths[start].score;
    if (paths[end].start == NO_START || sum > paths[end].score)
        paths[end] = (struct path){sum, (uint32_t)start, id};
}

/* Offers all tokens that start at `start`, where a character of `length` bytes starts. Returns the
 * steps taken. */
static size_t offer_all(const struct text_tables *rules, const uint8_t *word, size_t size,
                        struct path *paths, size_t start, size_t length)
{
    const struct name_trie *trie = &rules->trie;
    uint32_t node = 0;
    bool known = false;
    size_t end = start;
    while (end < size && (node = name_step(trie, node, word[end]))) {
        uint32_t id = trie->nodes[node].id;
        end++;
        if (id == NO_TOKEN)
            continue;
        offer(paths, start, end, rules->scores[id], id);
        known = known || end - start == length;
    }
    if (!known)
        offer(paths, start, start + length, rules->least_score - UNKNOWN_PENALTY,
              rules->header.unknown_id);
    return end - start + 1;
}

/* Fills paths (size + 1). */
static void search(const struct text_tables *rules, const uint8_t *word, size_t size,
                   struct path *paths, struct encode_watch *watch)
{
    size_t length;
    for (size_t i = 0; i <= size; i++)
        paths[i] = (struct path){0, NO_START, 0};
    for (size_t i = 0; i < size; i += length) {
        uint32_t point;
        length = smol_utf8_decode(word + i, size - i, &point);
        if (watch_cancels(watch, offer_all(rules, word, size, paths, i, length)))
            return;
    }
}

/* Writes the ids of an unknown text[0..size) so that they end before `end`, after at least `size`
 * free ones. Returns where they start. Reads each byte's token once: the file may change. */
static uint32_t *put_unknown(const struct tokenizer_tables *tables, const uint8_t *text,
                             size_t size, uint32_t *end)
{
    const struct text_tables *rules = &tables->rules;
    uint32_t node = name_walk(&rules->trie, 0, text, size);
    uint32_t id = rules->trie.nodes[node].id; /* the root has none */
    if (id == NO_TOKEN && rules->header.flags & TEXT_BYTE_FALLBACK) {
        uint32_t *first = end - size;
        size_t n = 0;
        while (n < size && (first[n] = tokenizer_byte(tables, text[n])) != NO_TOKEN)
            n++;
        if (n == size)
            return first;
    }
    *--end = id == NO_TOKEN ? rules->header.unknown_id : id;
    return end;
}

/* Follows the best path back from the end of the word. Returns the number of ids. */
static size_t collect(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                      const struct path *paths, uint32_t *ids)
{
    uint32_t *first = ids + size;
    uint32_t unknown = tables->rules.header.unknown_id;
    for (size_t end = size, start; end > 0; end = start) {
        start = paths[end].start;
        if (paths[end].id != unknown) {
            *--first = paths[end].id;
            continue;
        }
        while (start > 0 && paths[start].id == unknown)
            start = paths[start].start;
        first = put_unknown(tables, word + start, end - start, first);
    }
    size_t n = (size_t)(ids + size - first);
    memmove(ids, first, n * sizeof *ids);
    return n;
}

smol_status smol_unigram(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                         uint32_t *ids, size_t *n, struct encode_watch *watch, smol_error *error)
{
    struct path *paths = size < NO_START ? smol_reallocarray(NULL, size + 1, sizeof *paths) : NULL;
    *n = 0;
    if (!paths)
        return smol_fail_memory(error, "a word");
    search(&tables->rules, word, size, paths, watch);
    if (!watch->cancelled)
        *n = collect(tables, word, size, paths, ids);
    smol_free(paths);
    return SMOL_OK;
}
