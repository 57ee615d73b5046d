/* Builds the merge table, see vocabulary.h. */
#include "convert/tokenizer/vocabulary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/tokenizer/json_part.h"

enum { MAX_SLOTS = 1 << 27 }; /* 2 GiB: tables after it keep 32-bit offsets */

struct merge_reader {
    const char *path;
    const json_t *vocab; /* token -> id, already checked */
    char *joined;        /* room for the two longest tokens */
    smol_error *error;
};

static smol_status fail_form(const struct merge_reader *r, size_t index)
{
    return smol_fail(
        r->error, SMOL_ERROR_DAMAGED,
        "%s: a merge must be two tokens (entry %zu of model.merges): download it again", r->path,
        index);
}

static smol_status find_token(const struct merge_reader *r, const char *data, size_t size,
                              size_t index, uint32_t *id)
{
    const json_t *found = json_object_getn(r->vocab, data, size);
    if (!found)
        return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                         "%s: token %.*s of a merge is not in the vocabulary (entry %zu of "
                         "model.merges): download it again",
                         r->path, size < 80 ? (int)size : 80, data, index);
    *id = (uint32_t)json_integer_value(found);
    return SMOL_OK;
}

/* Splits an entry of the older form, "a b". Tokens contain no spaces, so there must be exactly one
 * space. */
static bool split_at_space(const json_t *entry, struct json_text *left, struct json_text *right)
{
    const char *line = json_string_value(entry);
    size_t size = json_string_length(entry);
    const char *space = memchr(line, ' ', size);
    if (!space)
        return false;
    *left = (struct json_text){line, (size_t)(space - line)};
    *right = (struct json_text){space + 1, size - left->size - 1};
    return !memchr(right->data, ' ', right->size);
}

static bool take_pair(const json_t *entry, struct json_text *left, struct json_text *right)
{
    const json_t *a = json_array_get(entry, 0), *b = json_array_get(entry, 1);
    if (json_array_size(entry) != 2 || !json_is_string(a) || !json_is_string(b))
        return false;
    *left = (struct json_text){json_string_value(a), json_string_length(a)};
    *right = (struct json_text){json_string_value(b), json_string_length(b)};
    return true;
}

static smol_status read_merge(const struct merge_reader *r, const json_t *entry, size_t index,
                              struct token_merge *merge)
{
    struct json_text left, right;
    if (!(json_is_string(entry) ? split_at_space : take_pair)(entry, &left, &right))
        return fail_form(r, index);
    smol_status status;
    if ((status = find_token(r, left.data, left.size, index, &merge->left)) ||
        (status = find_token(r, right.data, right.size, index, &merge->right)))
        return status;
    memcpy(r->joined, left.data, left.size);
    memcpy(r->joined + left.size, right.data, right.size);
    return find_token(r, r->joined, left.size + right.size, index, &merge->merged);
}

/* Returns whether an entry is a comment line, which the older form copies from merges.txt. It
 * counts as an entry but has no meaning. */
static bool is_comment(const json_t *entry)
{
    const char *line = json_string_value(entry);
    return line && starts_with(line, "#version");
}

/* Reads all merges in order, and sets *n to their number. */
static smol_status read_merges(struct merge_reader *r, const json_t *list,
                               struct token_merge *merges, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        if (is_comment(entry))
            continue;
        smol_status status = read_merge(r, entry, i, &merges[*n]);
        if (status)
            return status;
        merges[*n].rank = (uint32_t)*n;
        ++*n;
    }
    return SMOL_OK;
}

/* Inserts a merge. A pair that already exists gets the later rank, as in the reference. Returns the
 * number of slots probed, or 0 if MERGE_MAX_PROBE is exceeded. */
static uint32_t insert(struct token_merge *slots, uint32_t n_slots, const struct token_merge *merge)
{
    uint32_t slot = merge_hash(merge->left, merge->right) & (n_slots - 1);
    for (uint32_t probe = 1; probe <= MERGE_MAX_PROBE; probe++) {
        struct token_merge *place = &slots[slot];
        bool same = place->left == merge->left && place->right == merge->right;
        if (same || place->left == NO_TOKEN) {
            *place = *merge;
            return probe;
        }
        slot = (slot + 1) & (n_slots - 1);
    }
    return 0;
}

/* Fills the table in order of rank. Returns false if it is too small. */
static bool insert_all(struct merge_table *table, const struct token_merge *merges, size_t n)
{
    for (uint32_t slot = 0; slot < table->n_slots; slot++)
        table->slots[slot] = (struct token_merge){.left = NO_TOKEN};
    table->max_probe = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t probes = insert(table->slots, table->n_slots, &merges[i]);
        if (!probes)
            return false;
        if (probes > table->max_probe)
            table->max_probe = probes;
    }
    return true;
}

/* Builds the table, at most half full. If too many pairs collide, tries a larger table, up to eight
 * times the least size. Refuses pairs crafted to collide in tables of every size. */
static smol_status build(const struct merge_reader *r, const struct token_merge *merges, size_t n,
                         struct merge_table *table)
{
    uint64_t least = 1;
    while (least < 2 * n)
        least *= 2;
    for (uint64_t n_slots = least; n_slots <= 8 * least && n_slots <= MAX_SLOTS; n_slots *= 2) {
        free(table->slots);
        table->n_slots = (uint32_t)n_slots;
        table->slots = calloc(n_slots, sizeof *table->slots);
        if (!table->slots)
            return smol_fail_memory(r->error, "the merges");
        if (insert_all(table, merges, n))
            return SMOL_OK;
    }
    return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: its merges do not fit a hash table (%zu of them): use another model",
                     r->path, n);
}

static size_t longest_token(const json_t *vocab)
{
    size_t longest = 0;
    json_t *object = (json_t *)(uintptr_t)vocab; /* iterators are declared without const */
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i))
        if (json_object_iter_key_len(i) > longest)
            longest = json_object_iter_key_len(i);
    return longest;
}

smol_status smol_merge_table_read(const json_t *root, const char *path, struct merge_table *table,
                                  smol_error *error)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *list = json_object_get(model, "merges");
    struct merge_reader r = {
        .path = path, .vocab = json_object_get(model, "vocab"), .error = error};
    if (!json_is_array(list))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: has no merges (model.merges): download it again", path);
    size_t n = json_array_size(list);
    struct token_merge *merges = calloc(n + 1, sizeof *merges);
    r.joined = malloc(2 * longest_token(r.vocab) + 1);
    smol_status status = merges && r.joined ? SMOL_OK : smol_fail_memory(error, "the merges");
    if (!status)
        status = read_merges(&r, list, merges, &n);
    if (!status)
        status = build(&r, merges, n, table);
    free(merges);
    free(r.joined);
    return status;
}

smol_status smol_merge_table_empty(struct merge_table *table, smol_error *error)
{
    table->n_slots = 1;
    table->slots = calloc(1, sizeof *table->slots);
    if (!table->slots)
        return smol_fail_memory(error, "the merges");
    table->slots->left = NO_TOKEN;
    return SMOL_OK;
}

void smol_merge_table_free(struct merge_table *table)
{
    free(table->slots);
    *table = (struct merge_table){0};
}
