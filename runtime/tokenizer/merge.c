/* Byte-pair encoding, see words.h. Scans short words, which are nearly all words, and uses a heap
 * for long ones. */
#include "runtime/tokenizer/words.h"

#include <string.h>

#include "common/memory.h"

enum { SHORT_WORD = 32 };

/* --- short words ---------------------------------------------------------------------------- */

/* The merge of each symbol with its right neighbour. */
struct pairs {
    uint32_t ranks[SHORT_WORD]; /* or NO_RANK */
    uint32_t merged[SHORT_WORD];
};

static void look_up(const struct tokenizer_tables *tables, const uint32_t *ids, size_t i,
                    struct pairs *pairs)
{
    struct merge merge = tokenizer_merge(tables, ids[i], ids[i + 1]);
    pairs->ranks[i] = merge.rank;
    pairs->merged[i] = merge.merged;
}

static void remove_at(uint32_t *values, size_t n, size_t i)
{
    memmove(values + i, values + i + 1, (n - i - 1) * sizeof *values);
}

static size_t merge_short(const struct tokenizer_tables *tables, uint32_t *ids, size_t n)
{
    struct pairs pairs;
    for (size_t i = 0; i + 1 < n; i++)
        look_up(tables, ids, i, &pairs);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (pairs.ranks[i] < pairs.ranks[best])
                best = i;
        if (pairs.ranks[best] == NO_RANK)
            break;
        ids[best] = pairs.merged[best];
        remove_at(ids, n, best + 1);
        remove_at(pairs.ranks, n - 1, best);
        remove_at(pairs.merged, n - 1, best);
        n--;
        if (best > 0)
            look_up(tables, ids, best - 1, &pairs);
        if (best + 1 < n)
            look_up(tables, ids, best, &pairs);
    }
    return n;
}

/* --- long words ----------------------------------------------------------------------------- */

/* A symbol of the word, linked to its neighbours. */
struct word_symbol {
    uint32_t id;             /* NO_TOKEN if merged into its left neighbour */
    uint32_t previous, next; /* or NONE */
};
#define NONE UINT32_MAX

/* A min-heap of rank << 32 | position. It contains each pair of neighbours that has a merge, and
 * pairs that no longer exist. Every merge removes one entry and adds at most two, so 2 n entries
 * suffice for n symbols. */
struct heap {
    uint64_t *entries;
    size_t n;
};

static void heap_push(struct heap *heap, uint64_t entry)
{
    size_t i = heap->n++;
    for (; i > 0 && heap->entries[(i - 1) / 2] > entry; i = (i - 1) / 2)
        heap->entries[i] = heap->entries[(i - 1) / 2];
    heap->entries[i] = entry;
}

static uint64_t heap_pop(struct heap *heap)
{
    uint64_t top = heap->entries[0], entry = heap->entries[--heap->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && heap->entries[child + 1] < heap->entries[child])
            child++;
        if (heap->entries[child] >= entry)
            break;
        heap->entries[i] = heap->entries[child];
    }
    heap->entries[i] = entry;
    return top;
}

/* Returns the merge of the symbol at `position` with its right neighbour. */
static struct merge merge_at(const struct tokenizer_tables *tables,
                             const struct word_symbol *symbols, uint32_t position)
{
    const struct word_symbol *symbol = &symbols[position];
    if (symbol->id == NO_TOKEN || symbol->next == NONE)
        return (struct merge){NO_RANK, 0};
    return tokenizer_merge(tables, symbol->id, symbols[symbol->next].id);
}

static void push_pair(const struct tokenizer_tables *tables, const struct word_symbol *symbols,
                      uint32_t position, struct heap *heap)
{
    struct merge merge = merge_at(tables, symbols, position);
    if (merge.rank != NO_RANK)
        heap_push(heap, (uint64_t)merge.rank << 32 | position);
}

static void join_with_next(struct word_symbol *symbols, uint32_t position, uint32_t merged)
{
    struct word_symbol *left = &symbols[position], *right = &symbols[left->next];
    left->id = merged;
    left->next = right->next;
    right->id = NO_TOKEN;
    if (left->next != NONE)
        symbols[left->next].previous = position;
}

enum { MERGE_WORK = 16 }; /* work of one merge, see struct encode_watch */

/* Merges until no pair is left, or the watch cancels. */
static void merge_all(const struct tokenizer_tables *tables, struct word_symbol *symbols,
                      struct heap *heap, struct encode_watch *watch)
{
    while (heap->n > 0 && !watch_cancels(watch, MERGE_WORK)) {
        uint64_t entry = heap_pop(heap);
        uint32_t position = (uint32_t)entry;
        struct merge merge = merge_at(tables, symbols, position);
        if (merge.rank == NO_RANK || merge.rank != entry >> 32)
            continue; /* the pair no longer exists */
        join_with_next(symbols, position, merge.merged);
        if (symbols[position].previous != NONE)
            push_pair(tables, symbols, symbols[position].previous, heap);
        push_pair(tables, symbols, position, heap);
    }
}

static smol_status merge_long(const struct tokenizer_tables *tables, uint32_t *ids, size_t *n,
                              struct encode_watch *watch, smol_error *error)
{
    struct word_symbol *symbols = smol_calloc(*n, sizeof *symbols); /* calloc checks the product */
    struct heap heap = {smol_calloc(*n, 2 * sizeof *heap.entries), 0};
    smol_status status = SMOL_OK;
    if (symbols && heap.entries && *n < NONE) {
        uint32_t last = (uint32_t)*n - 1;
        for (uint32_t i = 0; i <= last; i++)
            symbols[i] =
                (struct word_symbol){ids[i], i > 0 ? i - 1 : NONE, i < last ? i + 1 : NONE};
        for (uint32_t i = 0; i <= last; i++)
            push_pair(tables, symbols, i, &heap);
        merge_all(tables, symbols, &heap, watch);
        size_t n_left = 0;
        for (uint32_t i = 0; i != NONE; i = symbols[i].next)
            ids[n_left++] = symbols[i].id;
        *n = n_left;
    } else {
        status = smol_fail_memory(error, "a long word");
    }
    smol_free(symbols);
    smol_free(heap.entries);
    return status;
}

smol_status smol_merge_word(const struct tokenizer_tables *tables, uint32_t *ids, size_t *n,
                            struct encode_watch *watch, smol_error *error)
{
    if (*n > SHORT_WORD)
        return merge_long(tables, ids, n, watch, error);
    *n = merge_short(tables, ids, *n);
    return SMOL_OK;
}
