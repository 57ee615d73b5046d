/* Merges of a SentencePiece tokenizer from its scores, see maker.h. */
#include "convert/gguf/maker.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"

struct cut {
    double score;         /* of the whole piece */
    uint32_t left, right; /* characters */
    uint32_t id;          /* of the whole piece */
    uint16_t bytes;       /* of the left part */
    struct gguf_text text;
};

struct cuts {
    struct cut *items; /* (n) */
    size_t n, capacity;
};

static bool add(struct cuts *cuts, struct cut cut)
{
    if (!GROW(cuts->items, cuts->n, &cuts->capacity))
        return false;
    cuts->items[cuts->n++] = cut;
    return true;
}

/* Orders cuts as transformers does: by score, then by the lengths of the parts, all descending,
 * then by id. */
static int compare(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left != y->left)
        return x->left > y->left ? -1 : 1;
    if (x->right != y->right)
        return x->right > y->right ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static bool is_part(const json_t *vocabulary, const bool *is_piece, const char *text, size_t size)
{
    const json_t *id = json_object_getn(vocabulary, text, size);
    return id && is_piece[json_integer_value(id)];
}

/* Adds the cuts of a piece, up to one more than there may be. */
static bool cut_piece(struct cuts *cuts, const json_t *vocabulary, const bool *is_piece,
                      struct cut whole)
{
    const char *text = whole.text.data;
    size_t size = (size_t)whole.text.size;
    for (size_t i = 1; i < size && cuts->n <= GGUF_MAX_MERGES; i++) {
        if (utf8_continues(text[i]) || !is_part(vocabulary, is_piece, text, i) ||
            !is_part(vocabulary, is_piece, text + i, size - i))
            continue;
        whole.bytes = (uint16_t)i;
        whole.left = (uint32_t)utf8_count(text, i);
        whole.right = (uint32_t)utf8_count(text + i, size - i);
        if (!add(cuts, whole))
            return false;
    }
    return true;
}

static json_t *list_cuts(const struct cuts *cuts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < cuts->n; i++) {
        const struct cut *cut = &cuts->items[i];
        json_t *pair = json_pack("[s%, s%]", cut->text.data, (size_t)cut->bytes,
                                 cut->text.data + cut->bytes, (size_t)cut->text.size - cut->bytes);
        if (json_array_append_new(list, pair)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

smol_status smol_gguf_merges(const struct maker *m, const json_t *vocabulary,
                             const struct gguf_value *scores, const bool *is_piece, json_t **list)
{
    struct cuts cuts = {0};
    const uint8_t *at = m->tokens->data;
    bool good = true;
    *list = NULL;
    for (uint64_t id = 0; id < m->tokens->n && good && cuts.n <= GGUF_MAX_MERGES; id++) {
        const struct gguf_text text = smol_gguf_next(m->tokens, &at);
        const struct cut whole = {
            .score = smol_gguf_item(scores, id), .id = (uint32_t)id, .text = text};
        if (is_piece[id])
            good = cut_piece(&cuts, vocabulary, is_piece, whole);
    }
    bool too_many = cuts.n > GGUF_MAX_MERGES;
    if (cuts.n > 0 && !too_many)
        qsort(cuts.items, cuts.n, sizeof *cuts.items, compare);
    if (good && !too_many)
        *list = list_cuts(&cuts);
    free(cuts.items);
    if (too_many)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: its tokens make more than %d merges: convert the original checkpoint",
                         m->gguf->path, GGUF_MAX_MERGES);
    return *list ? SMOL_OK : smol_fail_memory(m->error, "the merges");
}
