/* Tests of models that look words up by name: their rules in a text section, and their words.
 * tests/oracle/test_tokenizer_families.py compares real ones with the reference. */
#include "tests/unit/compiled_text.h"

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

#define RULE(name, ...)                                                                            \
    static void name(struct compiled *c)                                                           \
    {                                                                                              \
        struct blob_text *h = header(c);                                                           \
        struct name_node *nodes = table(c, NODES);                                                 \
        struct text_step *steps = table(c, STEPS);                                                 \
        struct text_cluster *clusters = table(c, CLUSTERS);                                        \
        (void)h, (void)nodes, (void)steps, (void)clusters;                                         \
        __VA_ARGS__;                                                                               \
    }
RULE(noSuchModel, h->model = 3)
RULE(modelOfBytes, h->flags &= ~1u)
RULE(modelWithoutUnknown, h->unknown_id = NO_TOKEN)
RULE(modelWithWholeWords, h->flags |= TEXT_WHOLE_WORDS)
RULE(mergesWithNodes, h->model = TEXT_MERGES)
RULE(anotherModel, h->model = 3 - h->model)
RULE(noNodes, h->n_nodes = 0)
RULE(tooManyNodes, h->n_nodes = UINT32_MAX)
RULE(nodeTooFew, h->n_nodes--)
RULE(tooManyScores, h->n_scores = UINT32_MAX)
RULE(tooManyMaps, h->n_maps = TEXT_MAX_MAPS + 1)
RULE(rootWithAToken, nodes[0].id = 0)
RULE(rootWithAByte, nodes[0].byte = 1)
RULE(childrenElsewhere, nodes[1].children--)
RULE(childrenOfTheRootElsewhere, nodes[0].children = 0)
RULE(nodeReserved, nodes[1].reserved = 1)
RULE(childrenOutOfOrder, nodes[2].byte = nodes[1].byte)
RULE(childTooMany, nodes[h->n_nodes - 1].n_children = 1)
RULE(childTooFew, nodes[0].n_children--)
RULE(noSuchId, nodes[1].id = VOCAB_SIZE)
RULE(prefixOutside, h->prefix = h->n_pool)
RULE(prefixWrapsAround, h->prefix = UINT32_MAX)
RULE(prefixTooLong, h->n_prefix = TEXT_MAX_PREFIX + 1)
RULE(noLongestWord, h->max_word = 0)
RULE(noSuchBlock, *(uint16_t *)table(c, MAP_INDEX) = (uint16_t)h->n_map_blocks)
RULE(changeOutside, *(uint32_t *)table(c, MAP_BLOCKS) = map_change(h->n_pool, 1))
RULE(changeTooLong, *(uint32_t *)table(c, MAP_BLOCKS) = map_change(0, TEXT_MAX_LENGTH + 1))
RULE(changeWithoutASize, *(uint32_t *)table(c, MAP_BLOCKS) = 1)
RULE(changeNotUtf8, *(uint8_t *)table(c, POOL) = 0x80)
RULE(noSuchMap, steps[0].start = 2)
RULE(mapOfAPattern, steps[0].pattern = 1)
RULE(noSuchStep, steps[0].kind = STEP_CLUSTERS + 1)
RULE(stepOfNoClusters, steps[0].kind = STEP_CLUSTERS)
RULE(scoreOfTokensMissing, h->n_scores = 1)
RULE(scoreNotANumber, ((uint64_t *)table(c, SCORES))[1] = 0x7ff8000000000000)
RULE(scoreInfinite, ((uint64_t *)table(c, SCORES))[1] = 0xfff0000000000000)
RULE(scoreTooLarge, ((double *)table(c, SCORES))[1] = -2e9)
RULE(clustersOfNoStep, steps[0].kind = STEP_MAP)
RULE(clustersOfAText, steps[0].text = 1)
RULE(noClusterBlocks, h->n_cluster_blocks = 0)
RULE(tooManyClusterBlocks, h->n_cluster_blocks = CLASS_INDEX_SIZE + 1)
RULE(noClusterClasses, h->n_cluster_classes = 0)
RULE(tooManyClusterClasses, h->n_cluster_classes = TEXT_MAX_CLUSTER_CLASSES + 1)
RULE(noClusterStates, h->n_cluster_states = 0)
RULE(tooManyClusterStates, h->n_cluster_states = TEXT_MAX_CLUSTER_STATES + 1)
RULE(tooManyClusters, h->n_clusters = UINT32_MAX)
RULE(reservedField, h->reserved[0] = 1)
RULE(noSuchClusterBlock, *(uint16_t *)table(c, CLUSTER_INDEX) = (uint16_t)h->n_cluster_blocks)
RULE(noSuchClass, *(uint8_t *)table(c, CLUSTER_BLOCKS) = (uint8_t)h->n_cluster_classes)
RULE(noSuchState, *(uint8_t *)table(c, CLUSTER_TRANSITIONS) = (uint8_t)(2 * h->n_cluster_states))
RULE(clusterTooLong, clusters[0].size = CLUSTER_TOO_LONG)
RULE(clusterOfNothing, memset(clusters[0].text, 0, 7), clusters[0].size = 0)
RULE(clusterOfOneCharacter, clusters[0].text[1] = 0, clusters[0].size = 1)
RULE(clusterWithoutPadding, clusters[0].text[6] = 1)
RULE(clusterWithAZero, clusters[0].text[0] = 0)
RULE(clusterNotUtf8, clusters[1].text[1] = 0x80)
RULE(clusterTwice, clusters[1] = clusters[0])
RULE(clustersOutOfOrder, clusters[1].text[0] = '0')
RULE(clusterStartsAnother, memcpy(clusters[1].text, "abc", 3), clusters[1].size = 3)
RULE(clusterUnchanged, clusters[0].change = 0)
RULE(clusterPadded, clusters[0].change = MAP_PADDED)
RULE(clusterChangeOutside, clusters[0].change = map_change(h->n_pool, 1))
RULE(clusterGrows, clusters[0].change = map_change(0, TEXT_MAX_LENGTH + 1))

typedef void change(struct compiled *c);
static change *const of_both[] = {
    noSuchModel,
    modelOfBytes,
    modelWithoutUnknown,
    modelWithWholeWords,
    mergesWithNodes,
    anotherModel,
    noNodes,
    tooManyNodes,
    nodeTooFew,
    tooManyScores,
    tooManyMaps,
    rootWithAToken,
    rootWithAByte,
    childrenElsewhere,
    nodeReserved,
    childrenOfTheRootElsewhere,
    childTooMany,
    childrenOutOfOrder,
    childTooFew,
    noSuchId,
};
static change *const of_wordpiece[] = {
    prefixOutside, prefixWrapsAround, prefixTooLong,    noLongestWord,      noSuchBlock,
    changeOutside, changeTooLong,     changeNotUtf8,    changeWithoutASize, noSuchMap,
    mapOfAPattern, noSuchStep,        stepOfNoClusters,
};
static change *const of_clusters[] = {
    noSuchMap,
    clustersOfNoStep,
    clustersOfAText,
    noClusterBlocks,
    tooManyClusterBlocks,
    noClusterClasses,
    tooManyClusterClasses,
    noClusterStates,
    tooManyClusterStates,
    tooManyClusters,
    reservedField,
    noSuchClusterBlock,
    noSuchClass,
    noSuchState,
    clusterTooLong,
    clusterOfNothing,
    clusterOfOneCharacter,
    clusterWithoutPadding,
    clusterWithAZero,
    clusterNotUtf8,
    clusterTwice,
    clustersOutOfOrder,
    clusterStartsAnother,
    clusterUnchanged,
    clusterPadded,
    clusterChangeOutside,
    clusterGrows,
};
static change *const of_unigram[] = {
    scoreOfTokensMissing, scoreNotANumber, scoreInfinite,
    scoreTooLarge,        prefixTooLong,   prefixWrapsAround,
};

static void refuse_all(const char *json, change *const *changes, size_t n)
{
    struct compiled c;
    assert_int_equal(compile(json, &c), SMOL_OK);
    uint8_t *intact = intact_text(&c);
    for (size_t i = 0; i < n; i++) {
        changes[i](&c);
        if (open_all(&c) != SMOL_ERROR_DAMAGED)
            fail_msg("rule %zu was not looked at", i);
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

TEST(everyBrokenRuleIsRefused)
{
    char *clusters = clusters_json();
    refuse_all(clusters, of_clusters, sizeof of_clusters / sizeof of_clusters[0]);
    refuse_all(clusters, of_both, sizeof of_both / sizeof of_both[0]);
    free(clusters);
    refuse_all(wordpiece_json, of_both, sizeof of_both / sizeof of_both[0]);
    refuse_all(unigram_json, of_both, sizeof of_both / sizeof of_both[0]);
    refuse_all(wordpiece_json, of_wordpiece, sizeof of_wordpiece / sizeof of_wordpiece[0]);
    refuse_all(unigram_json, of_unigram, sizeof of_unigram / sizeof of_unigram[0]);
}

TEST(everyOtherSizeIsRefused)
{
    struct compiled c;
    assert_int_equal(compile(unigram_json, &c), SMOL_OK);
    for (size_t size = 0; size < c.section.text.size; size++)
        assert_int_equal(smol_text_tables_open(c.section.text.data, size, &c.rules, &c.error),
                         SMOL_ERROR_DAMAGED);
    smol_tokenizer_section_free(&c.section);
}

/* --- files ---------------------------------------------------------------------------------- */

TEST(brokenFilesAreRefused)
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

TEST(wordPieceTakesTheLongestName)
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

TEST(unigramTakesTheBestSum)
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
