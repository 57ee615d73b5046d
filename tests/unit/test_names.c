/* Tests of models that look words up by name: their rules in a text section, and their words.
 * tests/oracle/test_tokenizer_families.py compares real ones with the reference. */
#include "tests/unit/compiled_text.h"
#include "tests/unit/rules.h"

static const char wordpiece_json[] =
    "{\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true,"
    "  \"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": true},"
    " \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true},"
    " \"model\": {\"type\": \"WordPiece\", \"unk_token\": \"?\", \"continuing_subword_prefix\":"
    "  \"##\", \"max_input_chars_per_word\": 4, \"vocab\": {\"?\": 0, \"a\": 1, \"ab\": 2,"
    "  \"##b\": 3, \"##bc\": 4, \"##\": 5}}}";
static const char unigram_json[] =
    "{\"decoder\": {\"type\": \"Metaspace\", \"replacement\": \"_\"},"
    " \"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"a\", -2],"
    "  [\"ab\", -1.5], [\"b\", -1], [\"bc\", -1], [\"c\", -3], [\"abc\", -9]]}}";

/* --- rules ---------------------------------------------------------------------------------- */

/* Each list is for tokenizers that have what its rules are about. */
static struct rules of_both, of_wordpiece, of_clusters, of_unigram;

#define RULE(list, name, ...)                                                                      \
    static void name(void *c)                                                                      \
    {                                                                                              \
        struct blob_text *h = header(c);                                                           \
        struct name_node *nodes = table(c, NODES);                                                 \
        struct text_step *steps = table(c, STEPS);                                                 \
        struct text_cluster *clusters = table(c, CLUSTERS);                                        \
        (void)h, (void)nodes, (void)steps, (void)clusters;                                         \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    ADD_RULE(list, name)
RULE(of_both, no_such_model, h->model = 3)
RULE(of_both, model_of_bytes, h->flags &= ~1u)
RULE(of_both, model_without_unknown, h->unknown_id = NO_TOKEN)
RULE(of_both, model_with_whole_words, h->flags |= TEXT_WHOLE_WORDS)
RULE(of_both, merges_with_nodes, h->model = TEXT_MERGES)
RULE(of_both, another_model, h->model = 3 - h->model)
RULE(of_both, no_nodes, h->n_nodes = 0)
RULE(of_both, too_many_nodes, h->n_nodes = UINT32_MAX)
RULE(of_both, node_too_few, h->n_nodes--)
RULE(of_both, too_many_scores, h->n_scores = UINT32_MAX)
RULE(of_both, too_many_maps, h->n_maps = TEXT_MAX_MAPS + 1)
RULE(of_both, root_with_a_token, nodes[0].id = 0)
RULE(of_both, root_with_a_byte, nodes[0].byte = 1)
RULE(of_both, children_elsewhere, nodes[1].children--)
RULE(of_both, children_of_the_root_elsewhere, nodes[0].children = 0)
RULE(of_both, node_reserved, nodes[1].reserved = 1)
RULE(of_both, children_out_of_order, nodes[2].byte = nodes[1].byte)
RULE(of_both, child_too_many, nodes[h->n_nodes - 1].n_children = 1)
RULE(of_both, child_too_few, nodes[0].n_children--)
RULE(of_both, no_such_id, nodes[1].id = VOCAB_SIZE)
RULE(of_wordpiece, prefix_outside, h->prefix = h->n_pool)
RULE(of_wordpiece, prefix_wraps_around, h->prefix = UINT32_MAX)
RULE(of_wordpiece, prefix_too_long, h->n_prefix = TEXT_MAX_PREFIX + 1)
RULE(of_wordpiece, no_longest_word, h->max_word = 0)
RULE(of_wordpiece, no_such_block, *(uint16_t *)table(c, MAP_INDEX) = (uint16_t)h->n_map_blocks)
RULE(of_wordpiece, change_outside, *(uint32_t *)table(c, MAP_BLOCKS) = map_change(h->n_pool, 1))
RULE(of_wordpiece, change_too_long,
     *(uint32_t *)table(c, MAP_BLOCKS) = map_change(0, TEXT_MAX_LENGTH + 1))
RULE(of_wordpiece, change_without_a_size, *(uint32_t *)table(c, MAP_BLOCKS) = 1)
RULE(of_wordpiece, change_not_utf8, *(uint8_t *)table(c, POOL) = 0x80)
RULE(of_wordpiece, no_such_map, steps[0].start = 2)
RULE(of_wordpiece, map_of_a_pattern, steps[0].pattern = 1)
RULE(of_wordpiece, no_such_step, steps[0].kind = STEP_CLUSTERS + 1)
RULE(of_wordpiece, step_of_no_clusters, steps[0].kind = STEP_CLUSTERS)
RULE(of_unigram, score_of_tokens_missing, h->n_scores = 1)
RULE(of_unigram, score_not_a_number, ((uint64_t *)table(c, SCORES))[1] = 0x7ff8000000000000)
RULE(of_unigram, score_infinite, ((uint64_t *)table(c, SCORES))[1] = 0xfff0000000000000)
RULE(of_unigram, score_too_large, ((double *)table(c, SCORES))[1] = -2e9)
RULE(of_clusters, clusters_of_no_step, steps[0].kind = STEP_MAP)
RULE(of_clusters, clusters_of_a_text, steps[0].text = 1)
RULE(of_clusters, no_cluster_blocks, h->n_cluster_blocks = 0)
RULE(of_clusters, too_many_cluster_blocks, h->n_cluster_blocks = CLASS_INDEX_SIZE + 1)
RULE(of_clusters, no_cluster_classes, h->n_cluster_classes = 0)
RULE(of_clusters, too_many_cluster_classes, h->n_cluster_classes = TEXT_MAX_CLUSTER_CLASSES + 1)
RULE(of_clusters, no_cluster_states, h->n_cluster_states = 0)
RULE(of_clusters, too_many_cluster_states, h->n_cluster_states = TEXT_MAX_CLUSTER_STATES + 1)
RULE(of_clusters, too_many_clusters, h->n_clusters = UINT32_MAX)
RULE(of_clusters, reserved_field, h->reserved[0] = 1)
RULE(of_clusters, no_such_cluster_block,
     *(uint16_t *)table(c, CLUSTER_INDEX) = (uint16_t)h->n_cluster_blocks)
RULE(of_clusters, no_such_class,
     *(uint8_t *)table(c, CLUSTER_BLOCKS) = (uint8_t)h->n_cluster_classes)
RULE(of_clusters, no_such_state,
     *(uint8_t *)table(c, CLUSTER_TRANSITIONS) = (uint8_t)(2 * h->n_cluster_states))
RULE(of_clusters, cluster_too_long, clusters[0].size = CLUSTER_TOO_LONG)
RULE(of_clusters, cluster_of_nothing, memset(clusters[0].text, 0, 7), clusters[0].size = 0)
RULE(of_clusters, cluster_of_one_character, clusters[0].text[1] = 0, clusters[0].size = 1)
RULE(of_clusters, cluster_without_padding, clusters[0].text[6] = 1)
RULE(of_clusters, cluster_with_a_zero, clusters[0].text[0] = 0)
RULE(of_clusters, cluster_not_utf8, clusters[1].text[1] = 0x80)
RULE(of_clusters, cluster_twice, clusters[1] = clusters[0])
RULE(of_clusters, clusters_out_of_order, clusters[1].text[0] = '0')
RULE(of_clusters, cluster_starts_another, memcpy(clusters[1].text, "abc", 3), clusters[1].size = 3)
RULE(of_clusters, cluster_unchanged, clusters[0].change = 0)
RULE(of_clusters, cluster_padded, clusters[0].change = MAP_PADDED)
RULE(of_clusters, cluster_change_outside, clusters[0].change = map_change(h->n_pool, 1))
RULE(of_clusters, cluster_grows, clusters[0].change = map_change(0, TEXT_MAX_LENGTH + 1))
ADD_RULE(of_unigram, prefix_wraps_around)
ADD_RULE(of_unigram, prefix_too_long)
ADD_RULE(of_clusters, no_such_map)

static void refuse_all(const char *json, const struct rules *rules)
{
    struct compiled c;
    assert_int_equal(compile(json, &c), SMOL_OK);
    uint8_t *intact = intact_text(&c);
    for (size_t i = 0; i < rules->n; i++) {
        rules->items[i].spoil(&c);
        if (open_all(&c) != SMOL_ERROR_DAMAGED)
            fail_msg("%s is accepted", rules->items[i].name);
        memcpy(c.section.text.data, intact, c.section.text.size);
    }
    assert_int_equal(open_all(&c), SMOL_OK); /* the changes were to blame */
    free(intact);
    smol_tokenizer_section_free(&c.section);
}

/* Returns a unit of a map's trie. */
static uint32_t unit_of(uint32_t at, uint32_t children, bool ends, char label)
{
    return (uint8_t)label | (at ^ children) << 10 | (uint32_t)ends << 8;
}

/* Returns a tokenizer with a map: "ab" and "ac" become texts. The caller frees it. */
static char *clusters_json(void)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t map[1 + 768 + 2] = {768 * 4}, *units = map + 1; /* then the texts */
    units[0] = 256 << 10;
    units[256 ^ 'a'] = unit_of(256 ^ 'a', 512, false, 'a');
    units[512 ^ 'b'] = unit_of(512 ^ 'b', 1, true, 'b');
    units[512 ^ 'c'] = unit_of(512 ^ 'c', 2, true, 'c');
    units[2] = 2;
    memcpy(map + 1 + 768, "x\0yz", 4);
    char base64[sizeof map / 3 * 4 + 5] = "", *out = base64;
    const uint8_t *bytes = (const uint8_t *)map;
    for (size_t i = 0; i + 2 < sizeof map; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6)
            *out++ = digits[bits >> shift & 63];
    }
    size_t size = sizeof base64 + sizeof unigram_json + 200;
    char *json = malloc(size);
    assert_non_null(json);
    snprintf(json, size,
             "{\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"%s\"}, %s",
             base64, unigram_json + 1);
    return json;
}

TEST(every_broken_rule_is_refused)
{
    char *clusters = clusters_json();
    refuse_all(clusters, &of_clusters);
    refuse_all(clusters, &of_both);
    free(clusters);
    refuse_all(wordpiece_json, &of_both);
    refuse_all(unigram_json, &of_both);
    refuse_all(wordpiece_json, &of_wordpiece);
    refuse_all(unigram_json, &of_unigram);
}

TEST(every_other_size_is_refused)
{
    struct compiled c;
    assert_int_equal(compile(unigram_json, &c), SMOL_OK);
    for (size_t size = 0; size < c.section.text.size; size++)
        assert_int_equal(smol_text_tables_open(c.section.text.data, size, &c.rules, &c.error),
                         SMOL_ERROR_DAMAGED);
    smol_tokenizer_section_free(&c.section);
}

/* --- files ---------------------------------------------------------------------------------- */

TEST(broken_files_are_refused)
{
    static const struct {
        const char *model;
        smol_status status;
    } files[] = {
        {"\"Unigram\", \"unk_id\": 0, \"vocab\": []", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": 0, \"vocab\": {\"a\": 0}", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": 1, \"vocab\": [[\"a\", 0]]", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": -1, \"vocab\": [[\"a\", 0]]", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": null, \"vocab\": [[\"a\", 0]]", SMOL_ERROR_UNSUPPORTED},
        {"\"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", 0], [\"a\", 1]]", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\"]]", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", \"b\"]]", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", 1e300]]", SMOL_ERROR_DAMAGED},
        {"\"Unigram\", \"unk_id\": 0, \"byte_fallback\": 1, \"vocab\": [[\"a\", 0]]",
         SMOL_ERROR_DAMAGED},
        {"\"WordPiece\", \"vocab\": {\"a\": 0}", SMOL_ERROR_UNSUPPORTED},
        {"\"WordPiece\", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 0",
         SMOL_ERROR_UNSUPPORTED},
        {"\"WordPiece\", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 9,"
         " \"unk_token\": \"b\", \"vocab\": {\"a\": 0}",
         SMOL_ERROR_DAMAGED},
        {"\"WordPiece\", \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 9,"
         " \"unk_token\": \"a\", \"vocab\": [\"a\"]",
         SMOL_ERROR_DAMAGED},
        {"\"WordLevel\", \"vocab\": {\"a\": 0}", SMOL_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        bool unigram = strncmp(files[i].model, "\"Unigram", 8) == 0;
        char json[512];
        struct compiled c;
        snprintf(json, sizeof json, "{\"decoder\": {\"type\": \"%s\"}, \"model\": {\"type\": %s}}",
                 unigram ? "Metaspace\", \"replacement\": \"_"
                         : "WordPiece\", \"cleanup\": true, \"prefix\": \"##",
                 files[i].model);
        assert_int_equal(compile(json, &c), files[i].status);
        smol_tokenizer_section_free(&c.section);
    }
}

/* --- words ---------------------------------------------------------------------------------- */

TEST(word_piece_takes_the_longest_name)
{
    struct compiled c;
    assert_int_equal(compile(wordpiece_json, &c), SMOL_OK);
    assert_int_equal(open_all(&c), SMOL_OK);
    CHECK_IDS("ab", 0, 2);
    CHECK_IDS("abbc", 0, 2, 4);
    CHECK_IDS("abb", 0, 2, 3);
    CHECK_IDS("abc", 0, 0);   /* "ab" is the longest, and then nothing fits */
    CHECK_IDS("abbbb", 0, 0); /* too long */
    CHECK_IDS("\xc3\x81"
              "B",
              0, 2);
    CHECK_IDS("##", 0, 5);
    smol_tokenizer_section_free(&c.section);
}

TEST(unigram_takes_the_best_sum)
{
    struct compiled c;
    assert_int_equal(compile(unigram_json, &c), SMOL_OK);
    assert_int_equal(open_all(&c), SMOL_OK);
    CHECK_IDS("ab", 0, 2);
    CHECK_IDS("abc", 0, 1, 4); /* -3, not -4.5 or -9 */
    CHECK_IDS("xaxx", 0, 0, 1, 0);
    CHECK_IDS("?", 0, 0);
    smol_tokenizer_section_free(&c.section);
}

int main(void)
{
    return run_all_tests("names", NULL, NULL);
}
