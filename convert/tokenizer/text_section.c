/* Builds the text section from rules, see tokenizer.h. */
#include "convert/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/checked.h"
#include "common/hash.h"
#include "common/utf8.h"
#include "convert/tokenizer/byte_level.h"
#include "convert/tokenizer/text_tables.h"
#include "format/text.h"

/* --- steps ---------------------------------------------------------------------------------- */

/* A section under construction. */
struct text_section_builder {
    const char *path;
    struct blob_text header;
    uint32_t before[TEXT_MAX_AROUND], after[TEXT_MAX_AROUND];
    struct text_step steps[TEXT_MAX_STEPS], late_steps[TEXT_MAX_STEPS];
    struct token_name *names; /* (n_names), later replaced by their hash table */
    size_t n_names;
    struct buffer pool;
    struct nfc_arrays nfc;
    struct map_arrays maps;
    struct cluster_arrays clusters;
    struct name_array trie;
    const double *scores; /* (n_scores) */
    smol_error *error;
};

static uint32_t add_text(struct text_section_builder *b, const char *text, size_t size)
{
    uint32_t start = (uint32_t)b->pool.size;
    smol_buffer_add(&b->pool, text, size);
    return start;
}

/* Adds the map of a step, if it has one. */
static smol_status place_map(struct text_section_builder *b, const struct rule_step *rule,
                             struct text_step *step)
{
    if (rule->kind == STEP_MAP || rule->kind == STEP_CLUSTERS)
        step->start = b->maps.n_maps;
    if (rule->kind == STEP_MAP)
        return smol_map_arrays_add(&b->maps, rule->argument, &b->pool, b->error);
    if (rule->kind == STEP_CLUSTERS)
        return smol_charsmap_read(rule->text, b->path, &b->maps, &b->clusters, &b->pool, b->error);
    return SMOL_OK;
}

static smol_status place_steps(struct text_section_builder *b, const struct rule_steps *rules,
                               struct text_step *steps, uint32_t *n)
{
    for (*n = 0; *n < rules->n; ++*n) {
        const struct rule_step *rule = &rules->steps[*n];
        struct text_step *step = &steps[*n];
        *step = (struct text_step){rule->kind, rule->argument, 0, 0};
        smol_status status = place_map(b, rule, step);
        if (status)
            return status;
        if (rule->kind == STEP_CLUSTERS || rule->pattern.size + rule->text.size == 0)
            continue;
        step->pattern = (uint32_t)rule->pattern.size;
        step->text = (uint32_t)rule->text.size;
        step->start = add_text(b, rule->pattern.data, rule->pattern.size);
        add_text(b, rule->text.data, rule->text.size);
    }
    return b->pool.failed ? smol_fail_memory(b->error, "the normalizer") : SMOL_OK;
}

/* Refuses steps that make texts much longer, as the reader of a blob also does. */
static smol_status check_growth(const struct text_section_builder *b)
{
    const struct text_tables tables = {
        .header = b->header,
        .steps = b->steps,
        .late_steps = b->late_steps,
        .map_index = b->maps.index,
        .map_blocks = (const uint32_t(*)[256])b->maps.blocks,
        .clusters = {.clusters = b->clusters.clusters, .n_clusters = b->clusters.n_clusters},
    };
    uint64_t growth = 1;
    uint32_t n = b->header.n_steps, most = smol_text_most_growth(&tables);
    for (uint32_t i = 0; i < n + b->header.n_late_steps && growth <= most; i++)
        growth *= smol_text_growth(&tables, i < n ? &b->steps[i] : &b->late_steps[i - n]);
    return growth <= most ? SMOL_OK
                          : smol_fail(b->error, SMOL_ERROR_UNSUPPORTED,
                                      "%s: normalizer is not supported (texts more than %" PRIu32
                                      " times as long): use another model",
                                      b->path, most);
}

static bool needs_letters(const struct rule_steps *rules)
{
    for (uint32_t i = 0; i < rules->n; i++)
        if (rules->steps[i].kind == STEP_NFC || rules->steps[i].kind == STEP_NFD)
            return true;
    return false;
}

static smol_status add_normalizer(struct text_section_builder *b, const struct text_rules *rules)
{
    struct blob_text *h = &b->header;
    smol_status status = place_steps(b, &rules->normalizer, b->steps, &h->n_steps);
    if (!status)
        status = place_steps(b, &rules->metaspace, b->late_steps, &h->n_late_steps);
    h->n_maps = b->maps.n_maps;
    h->n_map_blocks = b->maps.n_blocks;
    h->n_cluster_blocks = b->clusters.n_blocks;
    h->n_cluster_classes = b->clusters.n_classes;
    h->n_cluster_states = b->clusters.n_states;
    h->n_clusters = b->clusters.n_clusters;
    if (!status)
        status = check_growth(b);
    if (status || !needs_letters(&rules->normalizer))
        return status;
    status = smol_nfc_arrays_make(&b->nfc, b->error);
    h->n_letter_index = CLASS_INDEX_SIZE;
    h->n_letter_blocks = b->nfc.n_blocks;
    h->n_letters = b->nfc.n_letters;
    h->n_letter_texts = b->nfc.n_texts;
    h->n_pairs = b->nfc.n_pairs;
    return status;
}

/* --- names ---------------------------------------------------------------------------------- */

/* Writes the bytes of a name in byte-level letters to `out` (size), and returns their number, or 0
 * if it contains other letters. */
static size_t spell_bytes(const char *name, size_t size, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t point;
        i += smol_utf8_decode((const uint8_t *)name + i, size - i, &point);
        int byte = byte_level_byte(point);
        if (byte < 0)
            return 0;
        out[n++] = (char)byte;
    }
    return n;
}

static bool is_character(const char *name, size_t size)
{
    uint32_t point;
    return size > 0 && size <= UTF8_MAX &&
           smol_utf8_decode((const uint8_t *)name, size, &point) == size;
}

/* Adds the name of a token if words are looked up by it: all names if a whole word may be a token,
 * else the names of single characters. */
static smol_status add_name(struct text_section_builder *b, const struct text_rules *rules,
                            const char *name, size_t size, uint32_t id)
{
    bool wanted = rules->whole_words || (rules->characters && is_character(name, size));
    char *spelled = wanted && !rules->characters ? malloc(size + 1) : NULL;
    if (wanted && !rules->characters && !spelled)
        return smol_fail_memory(b->error, "names");
    if (spelled)
        size = spell_bytes(name, size, spelled);
    if (wanted && size > 0)
        b->names[b->n_names++] =
            (struct token_name){id, add_text(b, spelled ? spelled : name, size), (uint32_t)size};
    free(spelled);
    return b->pool.failed ? smol_fail_memory(b->error, "names") : SMOL_OK;
}

static smol_status list_names(struct text_section_builder *b, const struct text_rules *rules)
{
    json_t *vocab = rules->vocab;
    b->names = calloc(json_object_size(vocab) + 1, sizeof *b->names);
    if (!b->names)
        return smol_fail_memory(b->error, "names");
    smol_status status = SMOL_OK;
    for (void *i = json_object_iter(vocab); i && !status; i = json_object_iter_next(vocab, i))
        status = add_name(b, rules, json_object_iter_key(i), json_object_iter_key_len(i),
                          (uint32_t)json_integer_value(json_object_iter_value(i)));
    return status;
}

/* Fills the hash table of n_slots. Returns false if it is too small. */
static bool fill_hash(struct text_section_builder *b, struct token_name *slots, uint32_t n_slots)
{
    b->header.max_probe = 0;
    for (uint32_t slot = 0; slot < n_slots; slot++)
        slots[slot] = (struct token_name){.id = NO_TOKEN};
    for (size_t i = 0; i < b->n_names; i++) {
        const struct token_name *name = &b->names[i];
        uint32_t slot = (uint32_t)smol_digest(b->pool.text + name->start, name->length);
        uint32_t probe = 1;
        for (slot &= n_slots - 1; slots[slot].id != NO_TOKEN; slot = (slot + 1) & (n_slots - 1))
            if (++probe > MERGE_MAX_PROBE)
                return false;
        slots[slot] = *name;
        if (probe > b->header.max_probe)
            b->header.max_probe = probe;
    }
    return true;
}

/* Builds the hash table of names, at most half full, and larger if too many names collide. */
static smol_status hash_names(struct text_section_builder *b)
{
    uint64_t least = 1;
    while (least < 2 * b->n_names)
        least *= 2;
    for (uint64_t n = least; b->n_names > 0 && n <= 8 * least && n <= UINT32_MAX; n *= 2) {
        struct token_name *slots = calloc(n, sizeof *slots);
        if (!slots)
            return smol_fail_memory(b->error, "names");
        if (fill_hash(b, slots, (uint32_t)n)) {
            free(b->names);
            b->names = slots;
            b->header.n_name_slots = (uint32_t)n;
            return SMOL_OK;
        }
        free(slots);
    }
    return b->n_names == 0 ? SMOL_OK
                           : smol_fail(b->error, SMOL_ERROR_UNSUPPORTED,
                                       "%s: its tokens do not fit a hash table (%zu of them): "
                                       "use another model",
                                       b->path, b->n_names);
}

/* --- ids ------------------------------------------------------------------------------------ */

static smol_status copy_around(struct text_section_builder *b, const uint32_t *ids, uint32_t n,
                               const struct vocabulary *vocabulary, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= vocabulary->n_tokens)
            return smol_fail(b->error, SMOL_ERROR_DAMAGED,
                             "%s: token %u, to be put around a text, does not exist "
                             "(post_processor): download it again",
                             b->path, ids[i]);
        out[i] = ids[i];
    }
    return SMOL_OK;
}

static bool covers_all_bytes(const struct vocabulary *vocabulary)
{
    for (unsigned byte = 0; byte < 256; byte++)
        if (vocabulary->byte_tokens[byte] == NO_TOKEN)
            return false;
    return true;
}

/* Finds the token for characters without a token. */
static smol_status find_unknown(struct text_section_builder *b, const struct text_rules *rules,
                                const json_t *root, const struct vocabulary *vocabulary)
{
    const json_t *model = json_object_get(root, "model");
    bool covered = !rules->characters && covers_all_bytes(vocabulary);
    b->header.unknown_id = NO_TOKEN;
    if (rules->byte_fallback && !rules->characters && !covered)
        return part_refuse(b->path, "byte_fallback with bytes that have no token",
                           json_object_get(model, "byte_fallback"), b->error);
    if (covered || rules->unknown.size == 0)
        return SMOL_OK;
    const json_t *id = json_object_getn(rules->vocab, rules->unknown.data, rules->unknown.size);
    if (!id)
        return smol_fail(b->error, SMOL_ERROR_DAMAGED,
                         "%s: unk_token %.80s is not in the vocabulary: download it again", b->path,
                         rules->unknown.data);
    b->header.unknown_id = (uint32_t)json_integer_value(id);
    b->header.flags |= rules->fuse_unknown ? TEXT_FUSE_UNKNOWN : 0;
    return SMOL_OK;
}

static uint32_t flags_of(const struct text_rules *rules)
{
    return (rules->characters ? TEXT_CHARACTERS : 0) |
           (rules->characters && rules->byte_fallback ? TEXT_BYTE_FALLBACK : 0) |
           (rules->whole_words ? TEXT_WHOLE_WORDS : 0) |
           (rules->decoder.bytes ? TEXT_BYTE_RUNS : 0) |
           (rules->decoder.bare ? TEXT_FIRST_BARE : 0);
}

/* Adds the tables of a model that looks words up by names. */
static smol_status add_model(struct text_section_builder *b, const struct text_rules *rules)
{
    struct blob_text *h = &b->header;
    h->model = rules->model;
    h->max_word = rules->max_word;
    h->n_prefix = (uint32_t)rules->prefix.size;
    h->prefix = h->n_prefix ? add_text(b, rules->prefix.data, rules->prefix.size) : 0;
    h->n_scores = rules->n_scores;
    b->scores = rules->scores;
    smol_status status = smol_name_trie_build(rules->vocab, b->path, &b->trie, b->error);
    h->n_nodes = b->trie.n;
    return status ? status : b->pool.failed ? smol_fail_memory(b->error, "names") : SMOL_OK;
}

static smol_status add_tokens(struct text_section_builder *b, const struct text_rules *rules,
                              const json_t *root, const struct vocabulary *vocabulary)
{
    struct blob_text *h = &b->header;
    smol_status status;
    h->flags = flags_of(rules);
    h->split = rules->split;
    h->strip = rules->decoder.strip;
    h->n_strip = rules->decoder.n_strip;
    h->n_before = rules->n_before;
    h->n_after = rules->n_after;
    if ((status = copy_around(b, rules->before, rules->n_before, vocabulary, b->before)) ||
        (status = copy_around(b, rules->after, rules->n_after, vocabulary, b->after)) ||
        (status = find_unknown(b, rules, root, vocabulary)))
        return status;
    if (rules->model != TEXT_MERGES)
        return add_model(b, rules);
    status = list_names(b, rules);
    return status ? status : hash_names(b);
}

/* --- the section ---------------------------------------------------------------------------- */

struct text_table {
    const void *bytes;
    uint64_t size;
};
enum { N_TABLES = 20, N_VOCABULARY_TABLES = 16, N_OLD_TABLES = 12 };

/* Lists the tables in the order of the section; the header is the first. */
static void list_tables(const struct text_section_builder *b, struct text_table tables[N_TABLES])
{
    const struct blob_text *h = &b->header;
    const struct text_table all[N_TABLES] = {
        {h, sizeof *h},
        {b->before, h->n_before * sizeof *b->before},
        {b->after, h->n_after * sizeof *b->after},
        {b->steps, h->n_steps * sizeof *b->steps},
        {b->late_steps, h->n_late_steps * sizeof *b->late_steps},
        {b->names, (uint64_t)h->n_name_slots * sizeof *b->names},
        {b->pool.text, h->n_pool},
        {b->nfc.index, h->n_letter_index * sizeof *b->nfc.index},
        {b->nfc.blocks, (uint64_t)h->n_letter_blocks * 256 * sizeof *b->nfc.blocks},
        {b->nfc.letters, h->n_letters * sizeof *b->nfc.letters},
        {b->nfc.texts, h->n_letter_texts * sizeof *b->nfc.texts},
        {b->nfc.pairs, h->n_pairs * sizeof *b->nfc.pairs},
        {b->maps.index, (uint64_t)h->n_maps * CLASS_INDEX_SIZE * sizeof *b->maps.index},
        {b->maps.blocks, (uint64_t)h->n_map_blocks * sizeof *b->maps.blocks},
        {b->trie.nodes, (uint64_t)h->n_nodes * sizeof *b->trie.nodes},
        {b->scores, (uint64_t)h->n_scores * sizeof *b->scores},
        {b->clusters.index, CLASS_INDEX_SIZE * sizeof *b->clusters.index},
        {b->clusters.blocks, (uint64_t)h->n_cluster_blocks * sizeof *b->clusters.blocks},
        {b->clusters.transitions, (uint64_t)h->n_cluster_states * h->n_cluster_classes},
        {b->clusters.clusters, (uint64_t)h->n_clusters * sizeof *b->clusters.clusters},
    };
    memcpy(tables, all, sizeof all);
}

static smol_status lay_out(struct text_section_builder *b, struct text_section *section)
{
    struct text_table tables[N_TABLES];
    uint64_t size = 0, at = 0;
    b->header.n_pool = (uint32_t)b->pool.size;
    list_tables(b, tables);
    size_t n = b->header.n_cluster_blocks            ? N_TABLES
               : b->header.model || b->header.n_maps ? N_VOCABULARY_TABLES
                                                     : N_OLD_TABLES;
    for (size_t i = 0; i < n; i++)
        size = round_up(size, BLOB_ALIGN) + tables[i].size;
    if (b->pool.size > BLOB_MAX_FRONT || size > BLOB_MAX_FRONT)
        return smol_fail(
            b->error, SMOL_ERROR_UNSUPPORTED,
            "%s: the names of its tokens are too long in all (%zu bytes): use another model",
            b->path, b->pool.size);
    section->data = aligned_alloc(BLOB_ALIGN, round_up(size, BLOB_ALIGN));
    if (!section->data)
        return smol_fail_memory(b->error, "the text section");
    memset(section->data, 0, round_up(size, BLOB_ALIGN));
    section->size = size;
    for (size_t i = 0; i < n; at += tables[i++].size) {
        at = round_up(at, BLOB_ALIGN);
        if (tables[i].size > 0)
            memcpy(section->data + at, tables[i].bytes, tables[i].size);
    }
    return SMOL_OK;
}

static void free_builder(struct text_section_builder *b)
{
    free(b->names);
    free(b->pool.text);
    free(b->nfc.index);
    free(b->nfc.blocks);
    free(b->nfc.letters);
    free(b->nfc.texts);
    free(b->nfc.pairs);
    free(b->maps.index);
    free(b->maps.blocks);
    free(b->clusters.index);
    free(b->clusters.blocks);
    free(b->clusters.clusters);
    free(b->trie.nodes);
}

smol_status smol_normalizer_compile(const struct text_rules *rules, const char *path,
                                    struct text_section *section, smol_error *error)
{
    struct text_section_builder b = {.path = path, .header.unknown_id = NO_TOKEN, .error = error};
    *section = (struct text_section){0};
    if (rules->normalizer.n == 0)
        return SMOL_OK;
    smol_status status = add_normalizer(&b, rules);
    if (!status)
        status = lay_out(&b, section);
    free_builder(&b);
    return status;
}

/* Returns whether version 1.0's tokenizer section suffices. */
static bool is_plain(const struct text_section_builder *b, const struct vocabulary *vocabulary)
{
    const struct blob_text *h = &b->header;
    if (h->flags || h->unknown_id != NO_TOKEN || h->n_before || h->n_after || h->n_steps)
        return false;
    for (uint32_t i = 0; i < vocabulary->n_added; i++)
        if (vocabulary->added[i].flags & ~(uint32_t)ADDED_NORMALIZED)
            return false;
    return true;
}

smol_status smol_text_compile(const struct text_rules *rules, const json_t *root, const char *path,
                              const struct vocabulary *vocabulary, struct text_section *section,
                              smol_error *error)
{
    struct text_section_builder b = {.path = path, .error = error};
    *section = (struct text_section){0};
    smol_status status = add_normalizer(&b, rules);
    if (!status)
        status = add_tokens(&b, rules, root, vocabulary);
    if (!status && !is_plain(&b, vocabulary))
        status = lay_out(&b, section);
    free_builder(&b);
    return status;
}

void smol_text_section_free(struct text_section *section)
{
    free(section->data);
    *section = (struct text_section){0};
}
