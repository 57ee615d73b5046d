/* Compiles tokenizer.json to the tokenizer section, see tokenizer.h. Reads the tables one by one
 * and then lays them out in order. */
#include "convert/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "convert/tokenizer/text_tables.h"
#include "convert/tokenizer/unicode_classes.h"
#include "convert/tokenizer/vocabulary.h"
#include "format/format.h"

/* --- rules ----------------------------------------------------------------------------------- */

/* Refuses truncation and padding, but for the models of encoders: their files state how their
 * makers assembled batches, and blobs state the longest text themselves. */
static smol_status check_batches(const json_t *root, const char *path, enum text_model model,
                                 smol_error *error)
{
    static const char *const must_be_null[] = {"truncation", "padding"};
    for (size_t i = 0; i < 2 && model == TEXT_MERGES; i++) {
        const json_t *value = json_object_get(root, must_be_null[i]);
        if (part_is_set(value))
            return part_refuse(path, must_be_null[i], value, error);
    }
    return SMOL_OK;
}

smol_status smol_tokenizer_check_rules(const json_t *root, const char *path,
                                       struct tokenizer_rules *rules, smol_error *error)
{
    *rules = (struct tokenizer_rules){0};
    rules->pretokenizer.bits = PRETOKENIZE_GPT2; /* ignored by character-level tokenizers */
    smol_status status;
    if ((status = smol_text_rules_read(root, path, &rules->text, error)) ||
        (status = check_batches(root, path, rules->text.model, error)))
        return status;
    if (rules->text.model != TEXT_MERGES)
        return smol_pretokenizer_read_words(root, path, &rules->pretokenizer, error);
    return rules->text.characters ? SMOL_OK
                                  : smol_pretokenizer_read(root, path, &rules->pretokenizer, error);
}

void smol_tokenizer_rules_free(struct tokenizer_rules *rules)
{
    smol_pretokenizer_free(&rules->pretokenizer);
    smol_text_rules_free(&rules->text);
}

/* --- character classes ----------------------------------------------------------------------- */

/* The classes of unicode_classes.h in blocks. Equal blocks are stored once. */
struct class_table {
    uint16_t *index; /* (CLASS_INDEX_SIZE), allocated */
    uint8_t *blocks; /* (n_blocks, 256), allocated, all different */
    uint32_t n_blocks;
};

enum { BLOCK = 256, N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK };

/* Builds the table, with CLASS_WORD if `words`. */
static smol_status make_class_table(struct class_table *table, bool words, smol_error *error)
{
    table->index = calloc(CLASS_INDEX_SIZE, sizeof *table->index);
    table->blocks = calloc(N_CODE_POINTS, 1); /* one byte per code point, then compacted */
    if (!table->index || !table->blocks)
        return smol_fail_memory(error, "character classes");
    uint32_t mask = words ? UINT32_MAX : ~(uint32_t)CLASS_WORD;
    text_classes_fill(character_classes, sizeof character_classes, mask, table->blocks,
                      &table->n_blocks, table->index);
    return SMOL_OK;
}

static void free_class_table(struct class_table *table)
{
    free(table->index);
    free(table->blocks);
    *table = (struct class_table){0};
}

/* --- the section ----------------------------------------------------------------------------- */

struct compiled {
    uint32_t pretokenizer;
    struct vocabulary vocabulary;
    struct merge_table merges;
    struct class_table classes;
};

static bool has_single_words(const struct vocabulary *vocabulary)
{
    for (uint32_t i = 0; i < vocabulary->n_added; i++)
        if (vocabulary->added[i].flags & ADDED_SINGLE_WORD)
            return true;
    return false;
}

static smol_status read_tables(const json_t *root, const char *path,
                               const struct tokenizer_rules *rules, uint32_t vocab_size,
                               struct compiled *compiled, smol_error *error)
{
    smol_status status;
    if ((status = smol_vocabulary_read(root, path, vocab_size, &rules->text, &compiled->vocabulary,
                                       error)) ||
        (status = rules->text.model == TEXT_MERGES
                      ? smol_merge_table_read(root, path, &compiled->merges, error)
                      : smol_merge_table_empty(&compiled->merges, error)) ||
        (status =
             make_class_table(&compiled->classes, has_single_words(&compiled->vocabulary), error)))
        return status;
    return SMOL_OK;
}

static void free_tables(struct compiled *compiled)
{
    smol_vocabulary_free(&compiled->vocabulary);
    smol_merge_table_free(&compiled->merges);
    free_class_table(&compiled->classes);
}

/* A table of the section: its bytes, and the header field for its offset. */
struct located_table {
    const void *bytes;
    uint64_t size;
    uint32_t *offset;
};

static smol_status lay_out(const struct compiled *compiled, struct tokenizer_section *section,
                           smol_error *error)
{
    const struct vocabulary *v = &compiled->vocabulary;
    const struct merge_table *m = &compiled->merges;
    const struct class_table *c = &compiled->classes;
    struct blob_tokenizer header = {
        .n_tokens = v->n_tokens,
        .n_text_bytes = v->n_text_bytes,
        .n_merge_slots = m->n_slots,
        .max_probe = m->max_probe,
        .n_added = v->n_added,
        .n_class_blocks = c->n_blocks,
        .pretokenizer = compiled->pretokenizer,
    };
    const struct located_table tables[] = {
        {v->spans, (uint64_t)v->n_tokens * sizeof *v->spans, &header.token_spans},
        {v->text, v->n_text_bytes, &header.text},
        {v->byte_tokens, sizeof v->byte_tokens, &header.byte_tokens},
        {m->slots, (uint64_t)m->n_slots * sizeof *m->slots, &header.merges},
        {v->added, (uint64_t)v->n_added * sizeof *v->added, &header.added},
        {c->index, CLASS_INDEX_SIZE * sizeof *c->index, &header.class_index},
        {c->blocks, (uint64_t)c->n_blocks * 256, &header.class_blocks},
    };
    enum { N_TABLES = sizeof tables / sizeof tables[0] };
    uint64_t end = sizeof header;
    for (size_t i = 0; i < N_TABLES; i++) {
        *tables[i].offset = (uint32_t)round_up(end, BLOB_ALIGN);
        end = round_up(end, BLOB_ALIGN) + tables[i].size;
    }
    if (end > UINT32_MAX || !(section->data = calloc(end, 1)))
        return smol_fail_memory(error, "the tokenizer's tables");
    section->size = end;
    memcpy(section->data, &header, sizeof header);
    for (size_t i = 0; i < N_TABLES; i++)
        if (tables[i].size > 0) /* `bytes` may be NULL if the size is 0 */
            memcpy(section->data + *tables[i].offset, tables[i].bytes, tables[i].size);
    return SMOL_OK;
}

smol_status smol_tokenizer_compile(const json_t *root, const char *path,
                                   const struct tokenizer_rules *rules, uint32_t vocab_size,
                                   struct tokenizer_section *section, smol_error *error)
{
    *section = (struct tokenizer_section){0};
    struct compiled compiled = {.pretokenizer = rules->pretokenizer.bits};
    smol_status status = read_tables(root, path, rules, vocab_size, &compiled, error);
    if (!status)
        status = smol_text_compile(&rules->text, root, path, &compiled.vocabulary, &section->text,
                                   error);
    if (!status)
        status = lay_out(&compiled, section, error);
    free_tables(&compiled);
    return status;
}

void smol_tokenizer_section_free(struct tokenizer_section *section)
{
    smol_text_section_free(&section->text);
    free(section->data);
    *section = (struct tokenizer_section){0};
}
