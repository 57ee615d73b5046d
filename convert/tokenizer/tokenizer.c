/* tokenizer.json to tokenizer section, see tokenizer.h. The parts are read one by one and then
 * laid out one behind the other. */
#include "convert/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "convert/tokenizer/tokenizer_classes.h"
#include "convert/tokenizer/tokenizer_merges.h"
#include "convert/tokenizer/tokenizer_rules.h"
#include "convert/tokenizer/tokenizer_vocabulary.h"
#include "format/format.h"

struct parts {
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

static smol_status read_parts(const json_t *root, const char *path,
                              const struct tokenizer_rules *rules, uint32_t vocab_size,
                              struct parts *parts, smol_error *error)
{
    smol_status status;
    if ((status = smol_vocabulary_read(root, path, vocab_size, &rules->text, &parts->vocabulary,
                                       error)) ||
        (status = smol_merge_table_read(root, path, &parts->merges, error)) ||
        (status =
             smol_class_table_make(&parts->classes, has_single_words(&parts->vocabulary), error)))
        return status;
    return SMOL_OK;
}

static void free_parts(struct parts *parts)
{
    smol_vocabulary_free(&parts->vocabulary);
    smol_merge_table_free(&parts->merges);
    smol_class_table_free(&parts->classes);
}

/* A table of the section: its bytes, and the field of the header that says where it lies. */
struct table {
    const void *bytes;
    uint64_t size;
    uint32_t *offset;
};

static smol_status lay_out(const struct parts *parts, struct tokenizer_section *section,
                           smol_error *error)
{
    const struct vocabulary *v = &parts->vocabulary;
    const struct merge_table *m = &parts->merges;
    const struct class_table *c = &parts->classes;
    struct blob_tokenizer header = {
        .n_tokens = v->n_tokens,
        .n_text_bytes = v->n_text_bytes,
        .n_merge_slots = m->n_slots,
        .max_probe = m->max_probe,
        .n_added = v->n_added,
        .n_class_blocks = c->n_blocks,
        .pretokenizer = parts->pretokenizer,
    };
    const struct table tables[] = {
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
        if (tables[i].size > 0) /* else `bytes` may be NULL */
            memcpy(section->data + *tables[i].offset, tables[i].bytes, tables[i].size);
    return SMOL_OK;
}

smol_status smol_tokenizer_compile(const json_t *root, const char *path,
                                   const struct tokenizer_rules *rules, uint32_t vocab_size,
                                   struct tokenizer_section *section, smol_error *error)
{
    *section = (struct tokenizer_section){0};
    struct parts parts = {.pretokenizer = rules->pretokenizer.bits};
    smol_status status = read_parts(root, path, rules, vocab_size, &parts, error);
    if (!status)
        status =
            smol_text_compile(&rules->text, root, path, &parts.vocabulary, &section->text, error);
    if (!status)
        status = lay_out(&parts, section, error);
    free_parts(&parts);
    return status;
}

void smol_tokenizer_section_free(struct tokenizer_section *section)
{
    smol_text_section_free(&section->text);
    free(section->data);
    *section = (struct tokenizer_section){0};
}
