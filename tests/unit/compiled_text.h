/* A tokenizer compiled from JSON, whose text section tests may damage before they open it. */
#ifndef SMOL_TESTS_COMPILED_TEXT_H
#define SMOL_TESTS_COMPILED_TEXT_H

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "convert/tokenizer/tokenizer.h"
#include "format/text.h"
#include "runtime/tokenizer/tokenizer.h"
#include "tests/unit/unit.h"

enum { VOCAB_SIZE = 32 };

struct compiled {
    struct tokenizer_section section;
    struct text_tables rules;
    struct tokenizer_tables tables;
    smol_error error;
};

static inline struct blob_text *header(struct compiled *c)
{
    return (struct blob_text *)c->section.text.data;
}

enum text_table {
    BEFORE,
    AFTER,
    STEPS,
    LATE,
    NAMES,
    POOL,
    INDEX,
    BLOCKS,
    LETTERS,
    TEXTS,
    PAIRS,
    MAP_INDEX,
    MAP_BLOCKS,
    NODES,
    SCORES,
    CLUSTER_INDEX,
    CLUSTER_BLOCKS,
    CLUSTER_TRANSITIONS,
    CLUSTERS,
};

/* Returns the first entry of a table. */
static inline void *table(struct compiled *c, enum text_table which)
{
    const struct blob_text *h = header(c);
    const size_t sizes[] = {
        [BEFORE] = h->n_before * 4,
        [AFTER] = h->n_after * 4,
        [STEPS] = h->n_steps * 16,
        [LATE] = h->n_late_steps * 16,
        [NAMES] = h->n_name_slots * 12,
        [POOL] = h->n_pool,
        [INDEX] = h->n_letter_index * 2,
        [BLOCKS] = (size_t)h->n_letter_blocks * 512,
        [LETTERS] = h->n_letters * 8,
        [TEXTS] = h->n_letter_texts * 4,
        [PAIRS] = (size_t)h->n_pairs * 12,
        [MAP_INDEX] = (size_t)h->n_maps * CLASS_INDEX_SIZE * 2,
        [MAP_BLOCKS] = (size_t)h->n_map_blocks * 1024,
        [NODES] = (size_t)h->n_nodes * 12,
        [SCORES] = (size_t)h->n_scores * 8,
        [CLUSTER_INDEX] = CLASS_INDEX_SIZE * 2,
        [CLUSTER_BLOCKS] = (size_t)h->n_cluster_blocks * 256,
        [CLUSTER_TRANSITIONS] = (size_t)h->n_cluster_states * h->n_cluster_classes,
    };
    size_t at = sizeof *h;
    for (unsigned i = 0; i < which; i++)
        at = round_up(at + sizes[i], BLOB_ALIGN);
    return c->section.text.data + at;
}

static inline smol_status compile(const char *json, struct compiled *c)
{
    struct tokenizer_rules rules;
    json_t *root = json_loads(json, 0, NULL);
    assert_non_null(root);
    memset(c, 0, sizeof *c);
    smol_status status = smol_tokenizer_check_rules(root, "test", &rules, &c->error);
    if (!status)
        status = smol_tokenizer_compile(root, "test", &rules, VOCAB_SIZE, &c->section, &c->error);
    smol_tokenizer_rules_free(&rules);
    json_decref(root);
    return status;
}

static inline smol_status open_all(struct compiled *c)
{
    smol_status status =
        smol_text_tables_open(c->section.text.data, c->section.text.size, &c->rules, &c->error);
    return status ? status
                  : smol_tokenizer_tables_open(c->section.data, c->section.size, VOCAB_SIZE,
                                               &c->rules, &c->tables, &c->error);
}

/* Returns a copy of the text section, to undo damage. The caller frees it. */
static inline uint8_t *intact_text(const struct compiled *c)
{
    uint8_t *copy = malloc(c->section.text.size);
    assert_non_null(copy);
    return memcpy(copy, c->section.text.data, c->section.text.size);
}

static inline void check_ids(struct compiled *c, const char *text, unsigned flags,
                             const uint32_t *expected, size_t n)
{
    struct token_list list = {0};
    assert_int_equal(smol_tokenizer_encode(&c->tables, text, strlen(text),
                                           &(struct encode_params){.flags = flags}, &list,
                                           &c->error),
                     SMOL_OK);
    assert_int_equal(list.n, n);
    if (n > 0)
        assert_memory_equal(list.ids, expected, n * sizeof *expected);
    free(list.ids);
}
#define CHECK_IDS(text, flags, ...)                                                                \
    check_ids(&c, text, flags, (const uint32_t[]){__VA_ARGS__},                                    \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

#endif
