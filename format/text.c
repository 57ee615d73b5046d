/* The checks of the text section, made at every open. See FORMAT.md. */
#include "format/text.h"

#include <inttypes.h>
#include <string.h>

#include "common/checked.h"
#include "common/hash.h"
#include "common/utf8.h"
#include "format/cursor.h"

enum {
    ALL_FLAGS = TEXT_CHARACTERS | TEXT_BYTE_FALLBACK | TEXT_FUSE_UNKNOWN | TEXT_WHOLE_WORDS |
                TEXT_BYTE_RUNS | TEXT_FIRST_BARE,
    NFC_GROWTH = NFC_MAX_TEXT * UTF8_MAX,
    NFD_GROWTH = NFC_MAX_TEXT * UTF8_MAX / 2, /* ASCII does not change */
};

static bool is_scalar(uint32_t point)
{
    return point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

/* --- header and tables ---------------------------------------------------------------------- */

/* Checks the fields of FEATURE_VOCABULARY and FEATURE_CLUSTERS. */
static smol_status check_model(const struct blob_text *h, smol_error *error)
{
    bool wordpiece = h->model == TEXT_WORDPIECE, unigram = h->model == TEXT_UNIGRAM;
    if (h->model > TEXT_UNIGRAM)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "unknown model (%" PRIu32 ")", h->model);
    if (h->model && (!(h->flags & TEXT_CHARACTERS) || h->unknown_id == NO_TOKEN || !h->n_nodes ||
                     h->flags & TEXT_WHOLE_WORDS || h->n_name_slots))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a model of names without what it needs");
    if (!wordpiece != !h->max_word || (!wordpiece && (h->prefix || h->n_prefix)) ||
        h->n_prefix > TEXT_MAX_PREFIX || !range_within(h->prefix, h->n_prefix, h->n_pool))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "malformed prefix, or longest word");
    if (!h->model != !h->n_nodes || !unigram != !h->n_scores)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "nodes or scores that the model does not use");
    if (h->n_maps > TEXT_MAX_MAPS || !h->n_maps != !h->n_map_blocks)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "malformed maps");
    bool clusters = h->n_cluster_blocks;
    if (clusters != !!h->n_cluster_classes || clusters != !!h->n_cluster_states ||
        (!clusters && h->n_clusters) || h->n_cluster_blocks > CLASS_INDEX_SIZE ||
        h->n_cluster_classes > TEXT_MAX_CLUSTER_CLASSES ||
        h->n_cluster_states > TEXT_MAX_CLUSTER_STATES)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "malformed clusters");
    return SMOL_OK;
}

static smol_status check_header(const struct blob_text *h, smol_error *error)
{
    if (h->flags & ~(uint32_t)ALL_FLAGS)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "unknown flags (%#" PRIx32 ")", h->flags);
    if (!(h->flags & TEXT_CHARACTERS) && (h->flags & TEXT_BYTE_FALLBACK || h->split))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "byte fallback and split need words of characters");
    if (!is_scalar(h->split) || !is_scalar(h->strip) || h->n_strip > TEXT_MAX_STRIP ||
        !h->strip != !h->n_strip)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no such character (split or strip)");
    if (h->n_before > TEXT_MAX_AROUND || h->n_after > TEXT_MAX_AROUND ||
        h->n_steps > TEXT_MAX_STEPS || h->n_late_steps > TEXT_MAX_STEPS)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too many steps, or ids around a text");
    if (h->n_name_slots & (h->n_name_slots - 1) || h->max_probe > MERGE_MAX_PROBE)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "malformed hash of names");
    if (h->n_letter_index != 0 && h->n_letter_index != CLASS_INDEX_SIZE)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "malformed index of letters");
    if (h->n_letter_index == 0 &&
        (h->n_letter_blocks || h->n_letters || h->n_letter_texts || h->n_pairs))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "letters without an index");
    if (!all_zero(h->reserved, sizeof h->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    return check_model(h, error);
}

/* Takes the tables of FEATURE_VOCABULARY. Returns false and fills *error if they do not fit. */
static bool take_more_tables(struct cursor *cursor, struct text_tables *t, smol_error *error)
{
    const struct blob_text *h = &t->header;
    t->trie.n = h->n_nodes;
    return (t->map_index = smol_cursor_take(cursor, "map indexes", h->n_maps,
                                            CLASS_INDEX_SIZE * sizeof *t->map_index, error)) &&
           (t->map_blocks = smol_cursor_take(cursor, "map blocks", h->n_map_blocks,
                                             sizeof *t->map_blocks, error)) &&
           (t->trie.nodes =
                smol_cursor_take(cursor, "nodes", h->n_nodes, sizeof *t->trie.nodes, error)) &&
           (t->scores = smol_cursor_take(cursor, "scores", h->n_scores, sizeof *t->scores, error));
}

/* Takes the tables of FEATURE_CLUSTERS. Returns false and fills *error if they do not fit. */
static bool take_clusters(struct cursor *cursor, struct text_tables *tables, smol_error *error)
{
    const struct blob_text *h = &tables->header;
    struct cluster_tables *t = &tables->clusters;
    t->n_blocks = h->n_cluster_blocks;
    t->n_classes = h->n_cluster_classes;
    t->n_states = h->n_cluster_states;
    t->n_clusters = h->n_clusters;
    return (t->index = smol_cursor_take(cursor, "cluster index", CLASS_INDEX_SIZE, sizeof *t->index,
                                        error)) &&
           (t->blocks = smol_cursor_take(cursor, "cluster blocks", t->n_blocks, sizeof *t->blocks,
                                         error)) &&
           (t->transitions = smol_cursor_take(cursor, "cluster transitions", t->n_states,
                                              t->n_classes, error)) &&
           (t->clusters =
                smol_cursor_take(cursor, "clusters", t->n_clusters, sizeof *t->clusters, error));
}

static smol_status take_tables(const uint8_t *data, size_t size, struct text_tables *t,
                               smol_error *error)
{
    const struct blob_text *h = &t->header;
    struct cursor cursor = {data, size, sizeof *h};
    t->nfc.n_pairs = h->n_pairs;
    if (!(t->before =
              smol_cursor_take(&cursor, "ids before", h->n_before, sizeof *t->before, error)) ||
        !(t->after = smol_cursor_take(&cursor, "ids after", h->n_after, sizeof *t->after, error)) ||
        !(t->steps = smol_cursor_take(&cursor, "steps", h->n_steps, sizeof *t->steps, error)) ||
        !(t->late_steps = smol_cursor_take(&cursor, "late steps", h->n_late_steps,
                                           sizeof *t->late_steps, error)) ||
        !(t->names =
              smol_cursor_take(&cursor, "names", h->n_name_slots, sizeof *t->names, error)) ||
        !(t->pool = smol_cursor_take(&cursor, "pool", h->n_pool, 1, error)) ||
        !(t->nfc.index = smol_cursor_take(&cursor, "letter index", h->n_letter_index,
                                          sizeof *t->nfc.index, error)) ||
        !(t->nfc.blocks = smol_cursor_take(&cursor, "letter blocks", h->n_letter_blocks,
                                           256 * sizeof *t->nfc.blocks, error)) ||
        !(t->nfc.letters =
              smol_cursor_take(&cursor, "letters", h->n_letters, sizeof *t->nfc.letters, error)) ||
        !(t->nfc.texts = smol_cursor_take(&cursor, "letter texts", h->n_letter_texts,
                                          sizeof *t->nfc.texts, error)) ||
        !(t->nfc.pairs =
              smol_cursor_take(&cursor, "pairs", h->n_pairs, sizeof *t->nfc.pairs, error)) ||
        ((h->model || h->n_maps) && !take_more_tables(&cursor, t, error)) ||
        (h->n_cluster_blocks && !take_clusters(&cursor, t, error)))
        return SMOL_ERROR_DAMAGED;
    return smol_cursor_end(&cursor, error);
}

/* --- steps ---------------------------------------------------------------------------------- */

uint32_t smol_text_growth(const struct text_tables *t, const struct text_step *step)
{
    if (step->kind == STEP_NFC)
        return NFC_GROWTH;
    if (step->kind == STEP_NFD)
        return NFD_GROWTH;
    if (step->kind == STEP_MAP) {
        const struct character_map map = text_map(t, step->start);
        return smol_character_map_growth(&map);
    }
    if (step->kind == STEP_CLUSTERS) {
        const struct character_map map = text_map(t, step->start);
        return smol_clusters_growth(&t->clusters, &map);
    }
    bool grows = step->pattern && step->text > step->pattern;
    return grows ? (step->text + step->pattern - 1) / step->pattern : 1;
}

static bool step_is_valid(const struct text_tables *t, const struct text_step *step)
{
    bool replaces = step->kind == STEP_REPLACE || step->kind == STEP_COLLAPSE;
    if (step->kind < STEP_REPLACE || step->kind > STEP_CLUSTERS ||
        step->pattern > TEXT_MAX_LENGTH || step->text > TEXT_MAX_LENGTH ||
        replaces != (step->pattern > 0))
        return false;
    if (step->kind == STEP_NFC || step->kind == STEP_NFD)
        return step->text == 0 && step->start == 0 && t->header.n_letter_index > 0;
    if (step->kind == STEP_MAP)
        return step->text == 0 && step->start < t->header.n_maps;
    if (step->kind == STEP_CLUSTERS)
        return step->text == 0 && step->start < t->header.n_maps && t->header.n_cluster_blocks;
    if (step->kind == STEP_TRIM)
        return step->text == 0 && step->start > 0 && step->start <= 3;
    if (!range_within(step->start, step->pattern + step->text, t->header.n_pool))
        return false;
    const uint8_t *pattern = t->pool + step->start;
    return smol_utf8_well_formed(pattern, step->pattern) == step->pattern &&
           smol_utf8_well_formed(pattern + step->pattern, step->text) == step->text &&
           (replaces || step->text > 0);
}

/* Checks the steps and multiplies *growth by the factor by which each can lengthen a text. Text
 * that a step puts in front does not count. */
static smol_status check_steps(const struct text_tables *t, const struct text_step *steps, size_t n,
                               uint64_t *growth, smol_error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (!step_is_valid(t, &steps[i]))
            return text_damaged(error, "bad step", i);
        *growth *= smol_text_growth(t, &steps[i]);
        if (*growth > smol_text_most_growth(t))
            return text_damaged(error, "steps make a text too long", i);
    }
    return SMOL_OK;
}

/* Checks that a step uses the clusters, if there are any. */
static smol_status check_cluster_step(const struct text_tables *t, smol_error *error)
{
    bool used = !t->header.n_cluster_blocks;
    for (uint32_t i = 0; i < t->header.n_steps; i++)
        used |= t->steps[i].kind == STEP_CLUSTERS;
    for (uint32_t i = 0; i < t->header.n_late_steps; i++)
        used |= t->late_steps[i].kind == STEP_CLUSTERS;
    return used ? SMOL_OK : smol_fail(error, SMOL_ERROR_DAMAGED, "clusters that no step uses");
}

/* --- names and ids -------------------------------------------------------------------------- */

static void note_id(struct text_tables *t, uint32_t id)
{
    if (id >= t->id_bound)
        t->id_bound = id + 1;
}

/* Returns the slot that holds a name, or NO_TOKEN. */
static uint32_t find_name(const struct text_tables *t, const uint8_t *name, size_t size)
{
    uint32_t mask = t->header.n_name_slots - 1;
    uint32_t slot = (uint32_t)smol_digest(name, size) & mask;
    for (uint32_t n = t->header.max_probe; n > 0; n--, slot = (slot + 1) & mask) {
        const struct token_name *found = &t->names[slot];
        if (found->id == NO_TOKEN)
            break;
        if (found->length == size && memcmp(t->pool + found->start, name, size) == 0)
            return slot;
    }
    return NO_TOKEN;
}

/* Checks the hash of names. If the search for a slot's own name ends in that slot, then the name
 * can be found and no other slot has the same name. Each name has bytes of its own, so that the
 * searches take linear time. */
static smol_status check_names(struct text_tables *t, smol_error *error)
{
    uint64_t n_bytes = 0;
    for (uint32_t slot = 0; slot < t->header.n_name_slots; slot++) {
        const struct token_name *name = &t->names[slot];
        bool empty = name->id == NO_TOKEN;
        if (empty ? name->start || name->length
                  : !name->length || !range_within(name->start, name->length, t->header.n_pool))
            return text_damaged(error, "bad name", slot);
        if (empty)
            continue;
        note_id(t, name->id);
        n_bytes += name->length;
        if (name->length > t->longest_name)
            t->longest_name = name->length;
    }
    if (n_bytes > t->header.n_pool)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "names share text (%" PRIu64 " bytes, the pool has %" PRIu32 ")", n_bytes,
                         t->header.n_pool);
    for (uint32_t slot = 0; slot < t->header.n_name_slots; slot++) {
        const struct token_name *name = &t->names[slot];
        if (name->id != NO_TOKEN && find_name(t, t->pool + name->start, name->length) != slot)
            return text_damaged(error, "a name that is not found", slot);
    }
    return SMOL_OK;
}

static smol_status check_ids(struct text_tables *t, smol_error *error)
{
    if (t->header.unknown_id != NO_TOKEN)
        note_id(t, t->header.unknown_id);
    for (uint32_t i = 0; i < t->header.n_before + t->header.n_after; i++) {
        uint32_t id = i < t->header.n_before ? t->before[i] : t->after[i - t->header.n_before];
        if (id == NO_TOKEN)
            return text_damaged(error, "no id around a text", i);
        note_id(t, id);
    }
    return SMOL_OK;
}

/* --- letters -------------------------------------------------------------------------------- */

static smol_status check_letters(const struct text_tables *t, smol_error *error)
{
    const struct blob_text *h = &t->header;
    const struct nfc_tables *nfc = &t->nfc;
    for (uint32_t i = 0; i < h->n_letter_index; i++)
        if (nfc->index[i] >= h->n_letter_blocks)
            return text_damaged(error, "no such block of letters", i);
    for (uint64_t i = 0; i < (uint64_t)h->n_letter_blocks * 256; i++)
        if (nfc->blocks[i] >= h->n_letters)
            return text_damaged(error, "no such letter", i);
    for (uint32_t i = 0; i < h->n_letters; i++) {
        const struct nfc_letter *letter = &nfc->letters[i];
        bool plain = !letter->length && !letter->combining_class && !letter->joins;
        if (letter->length > NFC_MAX_TEXT || letter->joins > 1 || letter->reserved ||
            !range_within(letter->start, letter->length, h->n_letter_texts) ||
            (!letter->length && letter->start) || (i == 0 && !plain))
            return text_damaged(error, "bad letter", i);
    }
    for (uint32_t c = 0; c < 0x80 && h->n_letter_index; c++)
        if (nfc->blocks[nfc->index[0] * 256 + c])
            return text_damaged(error, "an ASCII character that may change", c);
    for (uint32_t i = 0; i < h->n_letter_texts; i++)
        if (!is_scalar(nfc->texts[i]))
            return text_damaged(error, "no character (letter texts)", i);
    return SMOL_OK;
}

static smol_status check_pairs(const struct text_tables *t, smol_error *error)
{
    const struct nfc_pair *pairs = t->nfc.pairs;
    for (uint32_t i = 0; i < t->header.n_pairs; i++) {
        bool ascends =
            i == 0 || pairs[i - 1].first < pairs[i].first ||
            (pairs[i - 1].first == pairs[i].first && pairs[i - 1].second < pairs[i].second);
        if (!ascends || !is_scalar(pairs[i].first) || !is_scalar(pairs[i].second) ||
            !is_scalar(pairs[i].composed) || !pairs[i].composed)
            return text_damaged(error, "bad pair", i);
    }
    return SMOL_OK;
}

/* --- maps, the trie and scores -------------------------------------------------------------- */

/* Returns whether a change is none, a padded character, or a text in the pool. */
static bool change_is_valid(const struct text_tables *t, uint32_t change)
{
    uint32_t start = change & MAP_START_MASK, size = (change >> MAP_SIZE_SHIFT) - 1;
    if (change == 0 || change == MAP_PADDED)
        return true;
    return change >> MAP_SIZE_SHIFT > 0 && size <= TEXT_MAX_LENGTH &&
           range_within(start, size, t->header.n_pool) &&
           smol_utf8_well_formed(t->pool + start, size) == size;
}

static smol_status check_maps(const struct text_tables *t, smol_error *error)
{
    for (uint32_t i = 0; i < t->header.n_maps * CLASS_INDEX_SIZE; i++)
        if (t->map_index[i] >= t->header.n_map_blocks)
            return text_damaged(error, "no such block of a map", i);
    for (uint64_t i = 0; i < (uint64_t)t->header.n_map_blocks * 256; i++)
        if (!change_is_valid(t, t->map_blocks[i / 256][i % 256]))
            return text_damaged(error, "bad change of a character", i);
    for (uint32_t i = 0; i < t->header.n_clusters; i++)
        if (!t->clusters.clusters[i].change || t->clusters.clusters[i].change == MAP_PADDED ||
            !change_is_valid(t, t->clusters.clusters[i].change))
            return text_damaged(error, "bad change of a cluster", i);
    return t->header.n_cluster_blocks ? smol_clusters_check(&t->clusters, error) : SMOL_OK;
}

/* Checks the model's names and scores, and finds what encoding needs to know of them. */
static smol_status check_names_of_model(struct text_tables *t, smol_error *error)
{
    uint32_t n_ids = 0;
    smol_status status = smol_name_trie_check(&t->trie, &n_ids, error);
    if (status)
        return status;
    if (n_ids > t->id_bound)
        t->id_bound = n_ids;
    if (t->header.model == TEXT_WORDPIECE)
        t->continuation = name_walk(&t->trie, 0, t->pool + t->header.prefix, t->header.n_prefix);
    if (t->header.model == TEXT_UNIGRAM && n_ids > t->header.n_scores)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "names without a score");
    t->least_score = t->header.n_scores ? t->scores[0] : 0;
    for (uint32_t i = 0; i < t->header.n_scores; i++) {
        if (!(t->scores[i] > -TEXT_MAX_SCORE && t->scores[i] < TEXT_MAX_SCORE))
            return text_damaged(error, "bad score", i);
        if (t->scores[i] < t->least_score)
            t->least_score = t->scores[i];
    }
    return SMOL_OK;
}

bool smol_text_is_extended(const struct text_tables *tables)
{
    const struct blob_text *h = &tables->header;
    bool late = false;
    for (uint32_t i = 0; i < h->n_steps + h->n_late_steps; i++) {
        const struct text_step *step =
            i < h->n_steps ? &tables->steps[i] : &tables->late_steps[i - h->n_steps];
        late |= step->kind > STEP_NFC;
    }
    return late || h->model || h->n_maps;
}

uint32_t smol_text_most_growth(const struct text_tables *tables)
{
    return tables->header.n_cluster_blocks ? TEXT_MAX_MOST
           : smol_text_is_extended(tables) ? TEXT_MAX_MORE
                                           : TEXT_MAX_GROWTH;
}

/* --- the whole section --------------------------------------------------------------------- */

smol_status smol_text_tables_open(const uint8_t *data, size_t size, struct text_tables *tables,
                                  smol_error *error)
{
    if (size < sizeof tables->header)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too small for its header");
    memset(tables, 0, sizeof *tables);
    memcpy(&tables->header, data, sizeof tables->header);
    const struct blob_text *h = &tables->header;
    uint64_t growth = 1;
    smol_status status;
    if ((status = check_header(h, error)) || (status = take_tables(data, size, tables, error)) ||
        (status = check_letters(tables, error)) || (status = check_pairs(tables, error)) ||
        (status = check_maps(tables, error)) || (status = check_names_of_model(tables, error)) ||
        (status = check_steps(tables, tables->steps, h->n_steps, &growth, error)) ||
        (status = check_steps(tables, tables->late_steps, h->n_late_steps, &growth, error)) ||
        (status = check_cluster_step(tables, error)) || (status = check_names(tables, error)) ||
        (status = check_ids(tables, error)))
        return status;
    return SMOL_OK;
}

uint32_t smol_text_name(const struct text_tables *tables, const uint8_t *name, size_t size)
{
    if (size == 0 || size > tables->longest_name)
        return NO_TOKEN;
    uint32_t slot = find_name(tables, name, size);
    return slot == NO_TOKEN ? NO_TOKEN : tables->names[slot].id;
}
