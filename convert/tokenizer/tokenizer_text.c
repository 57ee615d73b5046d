/* The text section, see tokenizer_text.h: what the rules say, laid out as tables. */
#include "convert/tokenizer/tokenizer_text.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/checked.h"
#include "common/hash.h"
#include "common/utf8.h"
#include "convert/tokenizer/byte_level.h"
#include "convert/tokenizer/tokenizer_nfc.h"
#include "convert/tokenizer/tokenizer_part.h"

/* --- rules ---------------------------------------------------------------------------------- */

static smol_status read_flag(const json_t *root, const char *path, const char *key, bool *flag,
                             smol_error *error)
{
    const json_t *value = json_object_get(json_object_get(root, "model"), key);
    *flag = json_is_true(value);
    if (!part_is_set(value) || json_is_boolean(value))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: %s is neither true nor false (of model): download it again", path, key);
}

static smol_status read_model(const json_t *root, const char *path, struct text_rules *rules,
                              smol_error *error)
{
    const json_t *unknown = json_object_get(json_object_get(root, "model"), "unk_token");
    if (part_is_set(unknown) && !json_is_string(unknown))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: unk_token is not a text (of model): download it again", path);
    rules->unknown = (struct rule_text){json_string_value(unknown), json_string_length(unknown)};
    smol_status status = read_flag(root, path, "byte_fallback", &rules->byte_fallback, error);
    if (!status)
        status = read_flag(root, path, "fuse_unk", &rules->fuse_unknown, error);
    if (!status)
        status = read_flag(root, path, "ignore_merges", &rules->whole_words, error);
    return status;
}

smol_status smol_text_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error)
{
    *rules = (struct text_rules){0};
    smol_status status = read_model(root, path, rules, error);
    if (!status)
        status = smol_decoder_rules_read(root, path, rules, error);
    if (!status)
        status = smol_step_rules_read(root, path, rules, error);
    if (!status)
        status = smol_around_rules_read(root, path, rules, error);
    return status;
}

/* --- parts ---------------------------------------------------------------------------------- */

/* Everything in a section. */
struct parts {
    const char *path;
    struct blob_text header;
    uint32_t before[TEXT_MAX_AROUND], behind[TEXT_MAX_AROUND];
    struct text_step steps[TEXT_MAX_STEPS], late_steps[TEXT_MAX_STEPS];
    struct token_name *names; /* those found, n_names; then the hash of them */
    size_t n_names;
    struct buffer pool;
    struct nfc_parts nfc;
    smol_error *error;
};

static uint32_t add_text(struct parts *parts, const char *text, size_t size)
{
    uint32_t start = (uint32_t)parts->pool.size;
    smol_buffer_add(&parts->pool, text, size);
    return start;
}

static smol_status place_steps(struct parts *parts, const struct rule_steps *rules,
                               struct text_step *steps, uint32_t *n)
{
    for (*n = 0; *n < rules->n; ++*n) {
        const struct rule_step *rule = &rules->steps[*n];
        struct text_step *step = &steps[*n];
        *step = (struct text_step){rule->kind, 0, (uint32_t)rule->pattern.size,
                                   (uint32_t)rule->text.size};
        if (rule->kind == STEP_NFC)
            continue;
        step->start = add_text(parts, rule->pattern.data, rule->pattern.size);
        add_text(parts, rule->text.data, rule->text.size);
    }
    return parts->pool.failed ? smol_fail_memory(parts->error, "the normalizer") : SMOL_OK;
}

/* What the reader checks too: steps that make texts ever longer are no normalizer. */
static smol_status check_growth(const struct parts *parts, const struct rule_steps *rules,
                                uint64_t *growth)
{
    for (uint32_t i = 0; i < rules->n; i++) {
        const struct rule_step *rule = &rules->steps[i];
        size_t text = rule->text.size, pattern = rule->pattern.size;
        if (rule->kind == STEP_NFC)
            *growth *= NFC_MAX_TEXT * UTF8_MAX;
        else if (pattern && text > pattern)
            *growth *= (text + pattern - 1) / pattern;
        if (*growth > TEXT_MAX_GROWTH)
            return smol_fail(parts->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: normalizer is not supported (texts more than %d times as long): "
                             "use another model",
                             parts->path, TEXT_MAX_GROWTH);
    }
    return SMOL_OK;
}

static bool has_nfc(const struct rule_steps *rules)
{
    for (uint32_t i = 0; i < rules->n; i++)
        if (rules->steps[i].kind == STEP_NFC)
            return true;
    return false;
}

static smol_status add_normalizer(struct parts *parts, const struct text_rules *rules)
{
    struct blob_text *h = &parts->header;
    uint64_t growth = 1;
    smol_status status = check_growth(parts, &rules->normalizer, &growth);
    if (!status)
        status = check_growth(parts, &rules->metaspace, &growth);
    if (!status)
        status = place_steps(parts, &rules->normalizer, parts->steps, &h->n_steps);
    if (!status)
        status = place_steps(parts, &rules->metaspace, parts->late_steps, &h->n_late_steps);
    if (status || !has_nfc(&rules->normalizer))
        return status;
    status = smol_nfc_parts_make(&parts->nfc, parts->error);
    h->n_letter_index = CLASS_INDEX_SIZE;
    h->n_letter_blocks = parts->nfc.n_blocks;
    h->n_letters = parts->nfc.n_letters;
    h->n_letter_texts = parts->nfc.n_texts;
    h->n_pairs = parts->nfc.n_pairs;
    return status;
}

/* --- names ---------------------------------------------------------------------------------- */

/* Writes the bytes that a name in byte-level letters stands for, at most its size, and returns how
 * many; 0 when it has other letters. */
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

/* Adds the name of a token if words are looked up by it: all names where a whole word may be one,
 * otherwise those of single characters. */
static smol_status add_name(struct parts *parts, const struct text_rules *rules, const char *name,
                            size_t size, uint32_t id)
{
    bool wanted = rules->whole_words || (rules->characters && is_character(name, size));
    char *spelled = wanted && !rules->characters ? malloc(size + 1) : NULL;
    if (wanted && !rules->characters && !spelled)
        return smol_fail_memory(parts->error, "names");
    if (spelled)
        size = spell_bytes(name, size, spelled);
    if (wanted && size > 0)
        parts->names[parts->n_names++] = (struct token_name){
            id, add_text(parts, spelled ? spelled : name, size), (uint32_t)size};
    free(spelled);
    return parts->pool.failed ? smol_fail_memory(parts->error, "names") : SMOL_OK;
}

static smol_status list_names(struct parts *parts, const struct text_rules *rules,
                              const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    json_t *vocab = json_object_get(model, "vocab");
    parts->names = calloc(json_object_size(vocab) + 1, sizeof *parts->names);
    if (!parts->names)
        return smol_fail_memory(parts->error, "names");
    smol_status status = SMOL_OK;
    for (void *i = json_object_iter(vocab); i && !status; i = json_object_iter_next(vocab, i))
        status = add_name(parts, rules, json_object_iter_key(i), json_object_iter_key_len(i),
                          (uint32_t)json_integer_value(json_object_iter_value(i)));
    return status;
}

/* Fills the hash of n_slots; false when it is too small. */
static bool fill_hash(struct parts *parts, struct token_name *slots, uint32_t n_slots)
{
    parts->header.max_probe = 0;
    for (uint32_t slot = 0; slot < n_slots; slot++)
        slots[slot] = (struct token_name){.id = NO_TOKEN};
    for (size_t i = 0; i < parts->n_names; i++) {
        const struct token_name *name = &parts->names[i];
        uint32_t slot = (uint32_t)smol_digest(parts->pool.text + name->start, name->length);
        uint32_t probe = 1;
        for (slot &= n_slots - 1; slots[slot].id != NO_TOKEN; slot = (slot + 1) & (n_slots - 1))
            if (++probe > MERGE_MAX_PROBE)
                return false;
        slots[slot] = *name;
        if (probe > parts->header.max_probe)
            parts->header.max_probe = probe;
    }
    return true;
}

/* At most half full; larger where too many names meet. */
static smol_status hash_names(struct parts *parts)
{
    uint64_t least = 1;
    while (least < 2 * parts->n_names)
        least *= 2;
    for (uint64_t n = least; parts->n_names > 0 && n <= 8 * least && n <= UINT32_MAX; n *= 2) {
        struct token_name *slots = calloc(n, sizeof *slots);
        if (!slots)
            return smol_fail_memory(parts->error, "names");
        if (fill_hash(parts, slots, (uint32_t)n)) {
            free(parts->names);
            parts->names = slots;
            parts->header.n_name_slots = (uint32_t)n;
            return SMOL_OK;
        }
        free(slots);
    }
    return parts->n_names == 0 ? SMOL_OK
                               : smol_fail(parts->error, SMOL_ERROR_UNSUPPORTED,
                                           "%s: its tokens do not fit a hash table (%zu of them): "
                                           "use another model",
                                           parts->path, parts->n_names);
}

/* --- ids ------------------------------------------------------------------------------------ */

static smol_status take_around(struct parts *parts, const uint32_t *ids, uint32_t n,
                               const struct vocabulary *vocabulary, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= vocabulary->n_tokens)
            return smol_fail(parts->error, SMOL_ERROR_DAMAGED,
                             "%s: there is no token %u, which is to stand around a text "
                             "(post_processor): download it again",
                             parts->path, ids[i]);
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

/* The token of what has none. */
static smol_status take_unknown(struct parts *parts, const struct text_rules *rules,
                                const json_t *root, const struct vocabulary *vocabulary)
{
    const json_t *model = json_object_get(root, "model");
    bool covered = !rules->characters && covers_all_bytes(vocabulary);
    parts->header.unknown_id = NO_TOKEN;
    if (rules->byte_fallback && !rules->characters && !covered)
        return smol_part_refuse(parts->path, "byte_fallback with bytes that have no token",
                                json_object_get(model, "byte_fallback"), parts->error);
    if (covered || rules->unknown.size == 0)
        return SMOL_OK;
    const json_t *id =
        json_object_getn(json_object_get(model, "vocab"), rules->unknown.data, rules->unknown.size);
    if (!id)
        return smol_fail(parts->error, SMOL_ERROR_DAMAGED,
                         "%s: unk_token %.80s is not in the vocabulary: download it again",
                         parts->path, rules->unknown.data);
    parts->header.unknown_id = (uint32_t)json_integer_value(id);
    parts->header.flags |= rules->fuse_unknown ? TEXT_FUSE_UNKNOWN : 0;
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

static smol_status add_tokens(struct parts *parts, const struct text_rules *rules,
                              const json_t *root, const struct vocabulary *vocabulary)
{
    struct blob_text *h = &parts->header;
    smol_status status;
    h->flags = flags_of(rules);
    h->split = rules->split;
    h->strip = rules->decoder.strip;
    h->n_strip = rules->decoder.n_strip;
    h->n_before = rules->n_before;
    h->n_behind = rules->n_behind;
    if ((status = take_around(parts, rules->before, rules->n_before, vocabulary, parts->before)) ||
        (status = take_around(parts, rules->behind, rules->n_behind, vocabulary, parts->behind)) ||
        (status = take_unknown(parts, rules, root, vocabulary)) ||
        (status = list_names(parts, rules, root)) || (status = hash_names(parts)))
        return status;
    return SMOL_OK;
}

/* --- the section ---------------------------------------------------------------------------- */

struct table {
    const void *bytes;
    uint64_t size;
};
enum { N_TABLES = 12 };

/* The section's tables in their order; its header is the first. */
static void list_tables(const struct parts *parts, struct table tables[N_TABLES])
{
    const struct blob_text *h = &parts->header;
    const struct table all[N_TABLES] = {
        {h, sizeof *h},
        {parts->before, h->n_before * sizeof *parts->before},
        {parts->behind, h->n_behind * sizeof *parts->behind},
        {parts->steps, h->n_steps * sizeof *parts->steps},
        {parts->late_steps, h->n_late_steps * sizeof *parts->late_steps},
        {parts->names, (uint64_t)h->n_name_slots * sizeof *parts->names},
        {parts->pool.text, h->n_pool},
        {parts->nfc.index, h->n_letter_index * sizeof *parts->nfc.index},
        {parts->nfc.blocks, (uint64_t)h->n_letter_blocks * 256 * sizeof *parts->nfc.blocks},
        {parts->nfc.letters, h->n_letters * sizeof *parts->nfc.letters},
        {parts->nfc.texts, h->n_letter_texts * sizeof *parts->nfc.texts},
        {parts->nfc.pairs, h->n_pairs * sizeof *parts->nfc.pairs},
    };
    memcpy(tables, all, sizeof all);
}

static smol_status lay_out(struct parts *parts, struct text_section *section)
{
    struct table tables[N_TABLES];
    uint64_t size = 0, at = 0;
    parts->header.n_pool = (uint32_t)parts->pool.size;
    list_tables(parts, tables);
    for (size_t i = 0; i < N_TABLES; i++)
        size = round_up(size, BLOB_ALIGN) + tables[i].size;
    if (parts->pool.size > BLOB_MAX_FRONT || size > BLOB_MAX_FRONT)
        return smol_fail(parts->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: too many names of tokens (%zu bytes): use another model", parts->path,
                         parts->pool.size);
    section->data = aligned_alloc(BLOB_ALIGN, round_up(size, BLOB_ALIGN));
    if (!section->data)
        return smol_fail_memory(parts->error, "the text section");
    memset(section->data, 0, round_up(size, BLOB_ALIGN));
    section->size = size;
    for (size_t i = 0; i < N_TABLES; at += tables[i++].size) {
        at = round_up(at, BLOB_ALIGN);
        if (tables[i].size > 0)
            memcpy(section->data + at, tables[i].bytes, tables[i].size);
    }
    return SMOL_OK;
}

static void free_parts(struct parts *parts)
{
    free(parts->names);
    free(parts->pool.text);
    smol_nfc_parts_free(&parts->nfc);
}

smol_status smol_normalizer_compile(const struct text_rules *rules, const char *path,
                                    struct text_section *section, smol_error *error)
{
    struct parts parts = {.path = path, .header.unknown_id = NO_TOKEN, .error = error};
    *section = (struct text_section){0};
    if (rules->normalizer.n == 0)
        return SMOL_OK;
    smol_status status = add_normalizer(&parts, rules);
    if (!status)
        status = lay_out(&parts, section);
    free_parts(&parts);
    return status;
}

/* Whether version 1.0's tokenizer section says it all. */
static bool is_plain(const struct parts *parts, const struct vocabulary *vocabulary)
{
    const struct blob_text *h = &parts->header;
    if (h->flags || h->unknown_id != NO_TOKEN || h->n_before || h->n_behind || h->n_steps)
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
    struct parts parts = {.path = path, .error = error};
    *section = (struct text_section){0};
    smol_status status = add_normalizer(&parts, rules);
    if (!status)
        status = add_tokens(&parts, rules, root, vocabulary);
    if (!status && !is_plain(&parts, vocabulary))
        status = lay_out(&parts, section);
    free_parts(&parts);
    return status;
}

void smol_text_section_free(struct text_section *section)
{
    free(section->data);
    *section = (struct text_section){0};
}
