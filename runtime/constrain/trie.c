/* The trie of the vocabulary, see trie.h: tokens are sorted by their bytes, and each one adds
 * the bytes that it does not share with the one before. */
#include "runtime/constrain/trie.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "runtime/tokenizer/tokenizer.h"

struct entry {
    uint64_t start; /* its first eight bytes, the first one highest */
    const uint8_t *bytes;
    uint32_t length, id;
};

static uint64_t start_of(const uint8_t *bytes, size_t length)
{
    uint64_t start = 0;
    for (size_t i = 0; i < 8; i++)
        start = start << 8 | (i < length ? bytes[i] : 0);
    return start;
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    if (order == 0)
        order = (x->length > y->length) - (x->length < y->length);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* Returns the room that the texts of special tokens need, with an edge on both sides. */
static size_t special_size(const struct tokenizer_tables *tables)
{
    size_t size = 0;
    for (uint32_t id = 0; id < tables->header.n_tokens; id++) {
        struct token_text text = smol_tokenizer_text(tables, id);
        size += text.special ? text.length + 2 : 0;
    }
    return size;
}

/* Lists the tokens in order of their bytes. `special` is room for the texts of special tokens.
 * Returns their number. */
static size_t list_entries(const struct tokenizer_tables *tables, uint8_t *special,
                           struct entry *entries)
{
    size_t n = 0;
    for (uint32_t id = 0; id < tables->header.n_tokens; id++) {
        struct token_text text = smol_tokenizer_text(tables, id);
        if (text.length == 0 || text.length > UINT16_MAX - 2 ||
            memchr(text.bytes, TRIE_SPECIAL, text.length))
            continue;
        if (text.special) {
            special[0] = special[text.length + 1] = TRIE_SPECIAL;
            memcpy(special + 1, text.bytes, text.length);
            text.bytes = special;
            text.length += 2;
            special += text.length;
        }
        entries[n++] = (struct entry){start_of(text.bytes, text.length), text.bytes,
                                      (uint32_t)text.length, id};
    }
    qsort(entries, n, sizeof *entries, compare);
    return n;
}

static uint32_t shared_length(const struct entry *a, const struct entry *b)
{
    uint32_t n = 0;
    while (n < a->length && n < b->length && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* Appends the nodes of one entry after those that it shares with the one before. */
static void add_entry(struct trie *v, const struct entry *entry, uint32_t shared)
{
    if (shared == entry->length) { /* the same text again */
        uint32_t *last = &v->nodes[v->n_nodes - 1].token;
        v->nodes[v->n_nodes - 1].has_twin = true;
        while (*last != NO_TOKEN)
            last = &v->twins[*last];
        *last = entry->id;
        return;
    }
    for (uint32_t i = shared; i < entry->length; i++)
        v->nodes[v->n_nodes++] = (struct trie_node){
            .token = i + 1 == entry->length ? entry->id : NO_TOKEN,
            .depth = (uint16_t)(i + 1),
            .byte = entry->bytes[i],
        };
    v->longest = entry->length > v->longest ? entry->length : v->longest;
}

/* Sets the ends: a node ends where the next one that is not deeper begins. */
static void set_ends(struct trie *v, uint32_t *open)
{
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < v->n_nodes; i++) {
        while (n_open > 0 && v->nodes[open[n_open - 1]].depth >= v->nodes[i].depth)
            v->nodes[open[--n_open]].end = i;
        open[n_open++] = i;
    }
    while (n_open > 0)
        v->nodes[open[--n_open]].end = v->n_nodes;
}

static bool build(struct trie *v, const struct entry *entries, size_t n)
{
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < n; i++)
        n_bytes += entries[i].length - (i ? shared_length(&entries[i - 1], &entries[i]) : 0);
    if (n_bytes >= UINT32_MAX)
        return false;
    v->nodes = smol_reallocarray(NULL, (size_t)n_bytes + 1, sizeof *v->nodes);
    if (!v->nodes)
        return false;
    for (size_t i = 0; i < n; i++)
        add_entry(v, &entries[i], i ? shared_length(&entries[i - 1], &entries[i]) : 0);
    uint32_t *open = smol_reallocarray(NULL, (size_t)v->longest + 1, sizeof *open);
    if (!open)
        return false;
    set_ends(v, open);
    smol_free(open);
    return true;
}

smol_status smol_trie_make(const struct tokenizer_tables *tables, uint32_t vocab_size,
                           struct trie *vocabulary, smol_error *error)
{
    uint32_t n_tokens = tables->header.n_tokens;
    *vocabulary = (struct trie){.n_tokens = n_tokens, .n_words = (vocab_size + 63) / 64};
    struct entry *entries = smol_reallocarray(NULL, (size_t)n_tokens + 1, sizeof *entries);
    uint8_t *special = smol_malloc(special_size(tables) + 1);
    vocabulary->twins = smol_reallocarray(NULL, (size_t)n_tokens + 1, sizeof *vocabulary->twins);
    bool made = entries && special && vocabulary->twins;
    if (made) {
        memset(vocabulary->twins, 0xff, n_tokens * sizeof *vocabulary->twins);
        made = build(vocabulary, entries, list_entries(tables, special, entries));
    }
    smol_free(entries);
    smol_free(special);
    if (made)
        return SMOL_OK;
    smol_trie_free(vocabulary);
    return smol_fail_memory(error, "the vocabulary's trie");
}

uint32_t smol_trie_node(const struct trie *vocabulary, const uint8_t *bytes, size_t n)
{
    const struct trie_node *nodes = vocabulary->nodes;
    uint32_t i = 0, end = vocabulary->n_nodes;
    for (size_t depth = 1; i < end;) {
        if (nodes[i].byte != bytes[depth - 1]) {
            i = nodes[i].end;
        } else if (depth == n) {
            return i;
        } else {
            end = nodes[i++].end;
            depth++;
        }
    }
    return NO_NODE;
}

uint32_t smol_trie_find(const struct trie *vocabulary, const uint8_t *bytes, size_t n)
{
    uint32_t i = smol_trie_node(vocabulary, bytes, n);
    return i == NO_NODE || vocabulary->nodes[i].has_twin ? NO_TOKEN : vocabulary->nodes[i].token;
}

void smol_trie_free(struct trie *vocabulary)
{
    smol_free(vocabulary->nodes);
    smol_free(vocabulary->twins);
    *vocabulary = (struct trie){0};
}
