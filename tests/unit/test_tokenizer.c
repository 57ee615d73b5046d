/* Tests of the tokenizer section's rules and of the encoder, with tables made by hand.
 * tests/oracle/test_tokenizer.py compares real tokenizers with the reference. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/tokenizer.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/words.h"
#include "tests/unit/guarded.h"
#include "tests/unit/rules.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

/* --- a small tokenizer ---------------------------------------------------------------------- */

enum token { UNUSED, A, B, C, AB, ABC, AA, AAAA, SPACE, ONE, START, START_X, E_ACUTE, N_TOKENS };
enum { VOCAB_SIZE = N_TOKENS + 1, N_SLOTS = 8, N_ADDED = 3 };

/* A complete section: the compiler lays out the tables as the format requires. */
struct section {
    _Alignas(64) struct blob_tokenizer header;
    _Alignas(64) struct token_span spans[N_TOKENS];
    _Alignas(64) uint8_t text[32];
    _Alignas(64) uint32_t byte_tokens[256];
    _Alignas(64) struct token_merge merges[N_SLOTS];
    _Alignas(64) struct added_token added[N_ADDED];
    _Alignas(64) uint16_t class_index[CLASS_INDEX_SIZE];
    _Alignas(64) uint8_t class_blocks[2][256];
};

static void put_header(struct section *s)
{
    s->header = (struct blob_tokenizer){
        .n_tokens = N_TOKENS,
        .n_text_bytes = sizeof s->text,
        .n_merge_slots = N_SLOTS,
        .max_probe = N_SLOTS,
        .n_added = N_ADDED,
        .n_class_blocks = 2,
        .pretokenizer = PRETOKENIZE_DIGITS | PRETOKENIZE_GPT2,
        .token_spans = offsetof(struct section, spans),
        .text = offsetof(struct section, text),
        .byte_tokens = offsetof(struct section, byte_tokens),
        .merges = offsetof(struct section, merges),
        .added = offsetof(struct section, added),
        .class_index = offsetof(struct section, class_index),
        .class_blocks = offsetof(struct section, class_blocks),
    };
}

static void put_tokens(struct section *s)
{
    static const char *const texts[N_TOKENS] = {
        [A] = "a",     [B] = "b",       [C] = "c",          [AB] = "ab",
        [ABC] = "abc", [AA] = "aa",     [AAAA] = "aaaa",    [ONE] = "1",
        [SPACE] = " ", [START] = "<s>", [START_X] = "<s>x", [E_ACUTE] = "\xc3",
    };
    uint32_t end = 0;
    s->spans[UNUSED].flags = TOKEN_UNUSED;
    for (uint32_t id = A; id < N_TOKENS; id++) {
        size_t length = strlen(texts[id]);
        s->spans[id] = (struct token_span){end, (uint16_t)length, id == START ? TOKEN_SPECIAL : 0};
        memcpy(s->text + end, texts[id], length);
        end += (uint32_t)length;
    }
    memset(s->byte_tokens, 0xff, sizeof s->byte_tokens);
    for (uint32_t id = A; id < N_TOKENS; id++)
        if (s->spans[id].length == 1)
            s->byte_tokens[s->text[s->spans[id].start]] = id;
}

static void put_merges(struct section *s)
{
    static const struct token_merge merges[] = {
        {A, B, 0, AB}, {AB, C, 1, ABC}, {A, A, 2, AA}, {AA, AA, 3, AAAA}};
    for (size_t i = 0; i < N_SLOTS; i++)
        s->merges[i].left = NO_TOKEN;
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        uint32_t slot = merge_hash(merges[i].left, merges[i].right) % N_SLOTS;
        while (s->merges[slot].left != NO_TOKEN)
            slot = (slot + 1) % N_SLOTS;
        s->merges[slot] = merges[i];
    }
}

static void put_added(struct section *s)
{
    uint32_t start = s->spans[START].start, start_x = s->spans[START_X].start;
    s->added[0] = (struct added_token){START, start, 3, 0};
    s->added[1] = (struct added_token){ABC, start, 2, ADDED_NORMALIZED};
    s->added[2] = (struct added_token){START_X, start_x, 4, ADDED_NORMALIZED};
}

static void put_classes(struct section *s)
{
    for (size_t i = 1; i < CLASS_INDEX_SIZE; i++)
        s->class_index[i] = 1;
    memset(&s->class_blocks[0]['a'], CLASS_LETTER, 26);
    memset(&s->class_blocks[0]['0'], CLASS_NUMBER | CLASS_NUMERIC, 10);
    s->class_blocks[0][' '] = s->class_blocks[0]['\n'] = CLASS_SPACE;
}

/* On the heap, so that a sanitizer finds every access beyond it. */
static struct section *make_section(void)
{
    struct section *s = aligned_alloc(64, sizeof *s);
    assert_non_null(s);
    memset(s, 0, sizeof *s);
    put_header(s);
    put_tokens(s);
    put_merges(s);
    put_added(s);
    put_classes(s);
    return s;
}

static smol_status open_tables(const struct section *s, size_t size,
                               struct tokenizer_tables *tables)
{
    smol_error error = {0};
    smol_status status =
        smol_tokenizer_tables_open((const uint8_t *)s, size, VOCAB_SIZE, NULL, tables, &error);
    assert_int_equal(status, error.status);
    return status;
}

/* --- the rules ------------------------------------------------------------------------------ */

TEST(well_formed_section_opens)
{
    struct section *s = make_section();
    struct tokenizer_tables tables;
    assert_int_equal(open_tables(s, sizeof *s, &tables), SMOL_OK);
    assert_ptr_equal(tables.spans, s->spans);
    assert_ptr_equal(tables.class_blocks, s->class_blocks);
    free(s);
}

TEST(limits_themselves_are_allowed)
{
    struct section *s = make_section();
    struct tokenizer_tables tables;
    smol_error error;
    s->header.max_probe = MERGE_MAX_PROBE;
    assert_int_equal(
        smol_tokenizer_tables_open((uint8_t *)s, sizeof *s, N_TOKENS, NULL, &tables, &error),
        SMOL_OK);
    free(s);
}

static struct token_merge *slot_of(struct section *s, uint32_t left)
{
    struct token_merge *slot = s->merges;
    while (slot->left != left)
        slot++;
    return slot;
}

static struct rules rules;

#define RULE(name, ...)                                                                            \
    static void name(void *subject)                                                                \
    {                                                                                              \
        struct section *s = subject;                                                               \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    ADD_RULE(rules, name)
RULE(more_tokens_than_rows, s->header.n_tokens = VOCAB_SIZE + 1)
RULE(slots_not_a_power_of_two, s->header.n_merge_slots = N_SLOTS - 1)
RULE(no_slots, s->header.n_merge_slots = 0)
RULE(probe_too_far, s->header.max_probe = MERGE_MAX_PROBE + 1)
RULE(unknown_pretokenizer, s->header.pretokenizer |= 4)
RULE(no_pretokenizer, s->header.pretokenizer = PRETOKENIZE_DIGITS)
RULE(reserved_not_zero, s->header.reserved0 = 1)
RULE(last_reserved_not_zero, s->header.reserved1 = 1)
RULE(table_too_early, s->header.text -= 64)
RULE(table_too_late, s->header.text += 64)
RULE(table_unaligned, s->header.token_spans += 4)
RULE(tables_swapped, s->header.merges = s->header.added)
RULE(table_far_outside, s->header.class_blocks = UINT32_MAX)
RULE(table_too_long, s->header.n_text_bytes = UINT32_MAX)
RULE(too_many_added, s->header.n_added = UINT32_MAX)
RULE(too_many_slots, s->header.n_merge_slots = 1u << 31)
RULE(too_few_blocks, s->header.n_class_blocks = 1)
RULE(padding_not_zero, memset(&s->spans[N_TOKENS], 1, 1))
RULE(span_outside_text, s->spans[A].start = sizeof s->text)
RULE(span_wraps_around, s->spans[A].start = UINT32_MAX)
RULE(span_too_long, s->spans[A].length = UINT16_MAX)
RULE(unknown_token_flag, s->spans[A].flags = 4)
RULE(unused_with_text, s->spans[UNUSED].length = 1)
RULE(unused_with_start, s->spans[UNUSED].start = 1)
RULE(unused_and_special, s->spans[UNUSED].flags |= TOKEN_SPECIAL)
RULE(byte_token_too_high, s->byte_tokens['z'] = N_TOKENS)
RULE(left_too_high, slot_of(s, AA)->left = N_TOKENS)
RULE(right_too_high, slot_of(s, AA)->right = N_TOKENS)
RULE(merged_too_high, slot_of(s, AA)->merged = N_TOKENS)
RULE(rank_too_high, slot_of(s, AA)->rank = N_SLOTS)
RULE(empty_slot_not_empty, slot_of(s, NO_TOKEN)->rank = 1)
RULE(pair_twice, *slot_of(s, NO_TOKEN) = *slot_of(s, AA))
RULE(pair_out_of_reach, s->header.max_probe = 0)
RULE(pair_after_an_empty_slot, struct token_merge merge = *slot_of(s, AA);
     for (size_t i = 0; i < N_SLOTS; i++) s->merges[i] = *slot_of(s, NO_TOKEN);
     s->merges[(merge_hash(AA, AA) + 1) % N_SLOTS] = merge)
RULE(added_id_too_high, s->added[0].id = N_TOKENS)
RULE(added_flag_unknown, s->added[2].flags = 2)
RULE(added_without_text, s->added[0].length = 0)
RULE(added_outside_text, s->added[0].start = sizeof s->text - 1)
RULE(added_too_long, s->added[0].length = ADDED_TOKEN_MAX + 1)
RULE(added_not_utf8, s->added[0].start = s->spans[E_ACUTE].start; s->added[0].length = 1)
RULE(added_twice, s->added[1] = s->added[2])
RULE(added_not_sorted, struct added_token first = s->added[1]; s->added[1] = s->added[2];
     s->added[2] = first)
RULE(added_kinds_not_sorted, s->added[0].flags = ADDED_NORMALIZED; s->added[2].flags = 0)
/* "abcababcaaaaaa 1<s><s>" is 22 of the pool's 32 bytes; other tokens share them. */
RULE(added_share_text, s->added[0].length = 7; s->added[1] = s->added[2];
     s->added[2] = (struct added_token){ABC, 0, 22, ADDED_NORMALIZED})
RULE(class_index_too_high, s->class_index[CLASS_INDEX_SIZE - 1] = 2)
RULE(unknown_class, s->class_blocks[1][255] = 16)
RULE(two_classes_at_once, s->class_blocks[0]['a'] |= CLASS_SPACE)
RULE(space_is_no_space, s->class_blocks[0][' '] = 0)

TEST(every_broken_rule_is_refused)
{
    for (size_t i = 0; i < rules.n; i++) {
        struct section *s = make_section();
        struct tokenizer_tables tables;
        rules.items[i].spoil(s);
        if (open_tables(s, sizeof *s, &tables) != SMOL_ERROR_DAMAGED)
            fail_msg("%s is accepted", rules.items[i].name);
        free(s);
    }
}

TEST(every_other_size_is_refused)
{
    struct section *s = make_section();
    struct tokenizer_tables tables;
    for (size_t size = 0; size < sizeof *s; size++) {
        uint8_t *data = aligned_alloc(64, (size + 64) / 64 * 64);
        assert_non_null(data);
        memcpy(data, s, size);
        assert_int_equal(open_tables((struct section *)data, size, &tables), SMOL_ERROR_DAMAGED);
        free(data);
    }
    struct section *longer = aligned_alloc(64, sizeof *s + 64);
    assert_non_null(longer);
    memset(longer, 0, sizeof *s + 64);
    memcpy(longer, s, sizeof *s);
    assert_int_equal(open_tables(longer, sizeof *s + 64, &tables), SMOL_ERROR_DAMAGED);
    free(longer);
    free(s);
}

/* --- encoding ------------------------------------------------------------------------------- */

static void encode(const struct section *s, const char *text, size_t size, unsigned flags,
                   struct token_list *list)
{
    struct tokenizer_tables tables;
    smol_error error;
    assert_int_equal(open_tables(s, sizeof *s, &tables), SMOL_OK);
    assert_int_equal(smol_tokenizer_encode(&tables, text, size,
                                           &(struct encode_params){.flags = flags}, list, &error),
                     SMOL_OK);
}

/* `expected` ends with 0, which is not a token here. */
static void check_ids(const char *text, size_t size, unsigned flags, const uint32_t *expected)
{
    struct section *s = make_section();
    struct token_list list = {0};
    encode(s, text, size, flags, &list);
    size_t n = 0;
    for (; expected[n]; n++) {
        assert_true(n < list.n);
        assert_int_equal(list.ids[n], expected[n]);
    }
    assert_int_equal(list.n, n);
    free(list.ids);
    free(s);
}
#define CHECK_IDS(text, ...)                                                                       \
    check_ids(text, sizeof text - 1, ENCODE_SPECIAL, (const uint32_t[]){__VA_ARGS__, 0})
#define CHECK_PLAIN_IDS(text, ...)                                                                 \
    check_ids(text, sizeof text - 1, 0, (const uint32_t[]){__VA_ARGS__, 0})

/* Damage in one place may produce another tokenizer, but never reads outside the tables. */
TEST(spoilt_sections_never_lead_astray)
{
    static const char text[] =
        "abc aab <s>x 11 a\n\n b\xc3\xa9\xff'll <s>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const uint8_t masks[] = {0x01, 0x08, 0x80, 0xff};
    struct section *s = make_section();
    uint8_t *data = (uint8_t *)s;
    size_t n_opened = 0;
    for (size_t i = 0; i < sizeof *s * sizeof masks; i++) {
        struct tokenizer_tables tables;
        struct token_list list = {0};
        smol_error error;
        data[i / sizeof masks] ^= masks[i % sizeof masks];
        if (!open_tables(s, sizeof *s, &tables)) {
            n_opened++;
            assert_int_equal(smol_tokenizer_encode(&tables, text, sizeof text - 1,
                                                   &(struct encode_params){.flags = ENCODE_SPECIAL},
                                                   &list, &error),
                             0);
            for (size_t k = 0; k < list.n; k++)
                assert_true(list.ids[k] < N_TOKENS);
        }
        free(list.ids);
        data[i / sizeof masks] ^= masks[i % sizeof masks];
    }
    assert_true(n_opened > 100);
    free(s);
}

/* --- tables that change while they are in use ------------------------------------------------- */

/* An open tokenizer whose section ends at inaccessible memory. */
struct live {
    struct guarded memory;
    struct section *section;
    struct tokenizer_tables tables;
};

static struct live make_live(void)
{
    struct live live = {.memory = guarded_new(sizeof *live.section, 64)};
    struct section *pristine = make_section();
    live.section = live.memory.data;
    memcpy(live.section, pristine, sizeof *pristine);
    free(pristine);
    assert_int_equal(open_tables(live.section, sizeof *live.section, &live.tables), SMOL_OK);
    return live;
}

/* Encodes and decodes. Any ids and texts are accepted if they exist. */
static void use(const struct live *live)
{
    static const char text[] =
        "abc aab <s>x 11 a\n\n b\xc3\xa9\xff'll  \0\0\0\0\xf4\x8f\xbf\xbf <s>  "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabcabcabcabcabc<s><s>x ";
    const uint8_t *pool = live->tables.text, *end = pool + live->tables.header.n_text_bytes;
    struct token_list list = {0};
    smol_error error;
    assert_int_equal(smol_tokenizer_encode(&live->tables, text, sizeof text,
                                           &(struct encode_params){.flags = ENCODE_SPECIAL}, &list,
                                           &error),
                     SMOL_OK);
    for (size_t i = 0; i < list.n; i++)
        assert_true(list.ids[i] < N_TOKENS);
    for (uint32_t id = 0; id <= N_TOKENS; id++) {
        struct token_text token = smol_tokenizer_text(&live->tables, id);
        assert_true(token.bytes >= pool && token.length <= (size_t)(end - token.bytes));
    }
    free(list.ids);
}

static uint32_t next_random(uint32_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 17;
    return *random ^= *random << 5;
}

/* The blob is mapped and some of its pages have changed to zeros or arbitrary bytes. */
TEST(tables_that_turn_into_zeros_never_lead_astray)
{
    struct live live = make_live();
    for (size_t begin = 0; begin < sizeof *live.section; begin += 64) {
        struct section saved = *live.section;
        memset((uint8_t *)live.section + begin, 0, sizeof *live.section - begin);
        use(&live);
        *live.section = saved;
        memset(live.section, 0, begin);
        use(&live);
        *live.section = saved;
    }
    guarded_free(&live.memory);
}

TEST(tables_scribbled_over_never_lead_astray)
{
    static const uint32_t values[] = {0, 1, NO_TOKEN, N_TOKENS, 0x7fffffff, 0x01010101, 0x00ff00ff};
    enum { N_WORDS = sizeof(struct section) / 4 };
    const int rounds = samples_only() ? 4000 : 20000;
    struct live live = make_live();
    struct section pristine = *live.section;
    uint32_t random = 1;
    for (int round = 0; round < rounds; round++) {
        uint32_t *words = (uint32_t *)live.section;
        size_t n = 1 + next_random(&random) % (round % 4 ? 64 : N_WORDS);
        for (size_t i = 0; i < n; i++) {
            uint32_t word = next_random(&random), choice = next_random(&random) % 16;
            words[word % N_WORDS] = choice < 7 ? values[choice] : next_random(&random);
        }
        use(&live);
        if (round % 8 == 7)
            *live.section = pristine;
    }
    guarded_free(&live.memory);
}

/* Changes tables as another program could, at any moment. Hidden from the thread sanitizer. */
struct scribbler {
    uint32_t *words;
    atomic_bool stop;
};
__attribute__((no_sanitize("thread"))) static void *scribble(void *argument)
{
    struct scribbler *scribbler = argument;
    uint32_t random = 1;
    while (!atomic_load(&scribbler->stop)) {
        uint32_t at = next_random(&random) % (sizeof(struct section) / 4);
        uint32_t saved = scribbler->words[at];
        *(volatile uint32_t *)&scribbler->words[at] = next_random(&random);
        *(volatile uint32_t *)&scribbler->words[at] = saved;
    }
    return NULL;
}

TEST(tables_that_change_meanwhile_never_lead_astray)
{
    struct live live = make_live();
    struct scribbler scribbler = {.words = (uint32_t *)live.section};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, scribble, &scribbler), 0);
    for (int round = 0; round < (samples_only() ? 2000 : 20000); round++)
        use(&live);
    atomic_store(&scribbler.stop, true);
    pthread_join(thread, NULL);
    guarded_free(&live.memory);
}

/* The token of 'x', which another program removes and restores. Hidden from the thread sanitizer.
 */
__attribute__((no_sanitize("thread"))) static void *toggle(void *argument)
{
    struct scribbler *scribbler = argument;
    while (!atomic_load_explicit(&scribbler->stop, memory_order_relaxed)) {
        *(volatile uint32_t *)&scribbler->words['x'] = NO_TOKEN;
        *(volatile uint32_t *)&scribbler->words['x'] = A;
    }
    return NULL;
}

/* Whatever Unigram sees, it falls back to bytes that all have a token, or to the unknown token. */
TEST(byte_tokens_that_change_meanwhile_give_no_invalid_id)
{
    enum { SIZE = 2 };
    static uint32_t byte_tokens[256];
    const struct name_node root = {.id = NO_TOKEN};
    const struct tokenizer_tables tables = {
        .header.n_tokens = N_TOKENS,
        .byte_tokens = byte_tokens,
        .rules = {.header = {.flags = TEXT_BYTE_FALLBACK, .unknown_id = B}, .trie = {&root, 1}}};
    struct scribbler scribbler = {.words = byte_tokens};
    pthread_t thread;
    byte_tokens['x'] = A;
    assert_int_equal(pthread_create(&thread, NULL, toggle, &scribbler), 0);
    for (int round = 0; round < 200000; round++) {
        struct encode_watch watch = {0};
        uint32_t ids[SIZE];
        size_t n;
        smol_error error;
        assert_int_equal(
            smol_unigram(&tables, (const uint8_t *)"xx", SIZE, ids, &n, &watch, &error), SMOL_OK);
        assert_true(n == SIZE ? ids[0] == A && ids[1] == A : n == 1 && ids[0] == B);
    }
    atomic_store(&scribbler.stop, true);
    pthread_join(thread, NULL);
}

/* --- encoding, in detail ---------------------------------------------------------------------- */

TEST(lowest_rank_merges_first)
{
    CHECK_IDS("abc", ABC);
    CHECK_IDS("aab", A, AB);
    CHECK_IDS("aabc", A, ABC);
}

TEST(leftmost_of_equals_merges_first)
{
    CHECK_IDS("aaa", AA, A);
    CHECK_IDS("aaaaa", AAAA, A);
    CHECK_IDS("aaaaaaa", AAAA, AA, A);
}

TEST(bytes_without_token_leave_no_gap)
{
    CHECK_IDS("azb", AB);
    check_ids("zzz", 3, ENCODE_SPECIAL, (const uint32_t[]){0});
}

TEST(words_are_merged_by_themselves)
{
    CHECK_IDS("ab ab", AB, SPACE, AB);
    CHECK_IDS("a\nb", A, B);
    CHECK_IDS("a'sb", A, B);
}

TEST(digits_stand_alone)
{
    CHECK_IDS("a11a", A, ONE, ONE, A);
}

TEST(piece_ends_white_space)
{
    struct section *s = make_section();
    struct token_list list = {0};
    s->spans[C] = s->spans[SPACE]; /* two adjacent spaces within one word become AA */
    s->byte_tokens[' '] = A;
    encode(s, "  1", 3, ENCODE_SPECIAL, &list);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.ids[0], AA);
    list.n = 0;
    encode(s, "  z", 3, ENCODE_SPECIAL, &list);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.ids[0], A);
    free(list.ids);
    free(s);
}

TEST(added_tokens_are_found_longest_first)
{
    CHECK_IDS("a<s>b", A, START, B);
    CHECK_IDS("<s<s>", ABC, START); /* "<s" is ABC when it is not "<s>" */
    CHECK_IDS("<s>xa", START, A);   /* the kind that is not normalized comes first */
    CHECK_IDS("<s", ABC);
    CHECK_IDS("<s><s><s>", START, START, START);
}

TEST(normalized_added_tokens_are_found_longest_first)
{
    struct section *s = make_section();
    struct token_list list = {0};
    s->added[0].start = s->spans[ABC].start; /* only "abc" precedes them now */
    encode(s, "<s>xabc<s>", 10, ENCODE_SPECIAL, &list);
    assert_int_equal(list.n, 3);
    assert_int_equal(list.ids[0], START_X);
    assert_int_equal(list.ids[1], START);
    assert_int_equal(list.ids[2], ABC);
    free(list.ids);
    free(s);
}

/* Added tokens that are not special are found too: "<s" is ABC. */
TEST(special_tokens_are_text_on_request)
{
    CHECK_PLAIN_IDS("<s>", ABC);
    CHECK_PLAIN_IDS("a<s>b", A, ABC, B);
}

TEST(ill_formed_text_counts_as_replacement)
{
    struct section *s = make_section();
    struct token_list list = {0};
    s->byte_tokens[0xef] = ONE;
    encode(s,
           "a\xc3"
           "b\xf0\x9f\x98",
           6, ENCODE_SPECIAL, &list);
    static const uint32_t expected[] = {A, ONE, B, ONE};
    assert_int_equal(list.n, 4);
    assert_memory_equal(list.ids, expected, sizeof expected);
    free(list.ids);
    free(s);
}

TEST(empty_text_appends_nothing)
{
    check_ids(NULL, 0, ENCODE_SPECIAL, (const uint32_t[]){0});
    check_ids("", 0, false, (const uint32_t[]){0});
    struct section *s = make_section();
    struct tokenizer_tables tables;
    struct token_list list = {0};
    const struct mixed_text mixed = {.literals = (const uint8_t *)""};
    smol_error error;
    assert_int_equal(open_tables(s, sizeof *s, &tables), SMOL_OK);
    assert_int_equal(
        smol_tokenizer_encode_mixed(&tables, &mixed, &(struct encode_params){0}, &list, &error),
        SMOL_OK);
    assert_int_equal(list.n, 0);
    free(s);
}

TEST(ids_are_appended)
{
    struct section *s = make_section();
    struct token_list list = {0};
    for (size_t n = 0; n < 1000; n++) {
        assert_int_equal(list.n, n);
        encode(s, "abc", 3, ENCODE_SPECIAL, &list);
        assert_int_equal(list.ids[n], ABC);
    }
    free(list.ids);
    free(s);
}

/* Implements the definition of merging literally. */
static size_t merge_slowly(const struct tokenizer_tables *tables, uint32_t *ids, size_t n)
{
    for (;;) {
        struct merge best = {NO_RANK, 0};
        size_t place = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            struct merge merge = tokenizer_merge(tables, ids[i], ids[i + 1]);
            if (merge.rank < best.rank) {
                best = merge;
                place = i;
            }
        }
        if (best.rank == NO_RANK)
            return n;
        ids[place] = best.merged;
        n--;
        memmove(ids + place + 1, ids + place + 2, (n - place - 1) * sizeof *ids);
    }
}

TEST(words_of_all_lengths_merge_alike)
{
    enum { LONGEST = 200 };
    struct section *s = make_section();
    struct tokenizer_tables tables;
    assert_int_equal(open_tables(s, sizeof *s, &tables), SMOL_OK);
    uint32_t random = 1;
    for (size_t n = 1; n <= LONGEST; n++) {
        char word[LONGEST];
        uint32_t expected[LONGEST];
        for (size_t i = 0; i < n; i++) {
            random = random * 1664525 + 1013904223;
            word[i] = "aaabbcz"[(random >> 16) % 7];
        }
        size_t n_known = 0;
        for (size_t i = 0; i < n; i++)
            if (word[i] != 'z')
                expected[n_known++] = (uint32_t)(word[i] - 'a') + A;
        n_known = merge_slowly(&tables, expected, n_known);
        struct token_list list = {0};
        encode(s, word, n, ENCODE_SPECIAL, &list);
        assert_int_equal(list.n, n_known);
        assert_memory_equal(list.ids, expected, n_known * sizeof *expected);
        free(list.ids);
    }
    free(s);
}

TEST(word_of_a_megabyte_merges)
{
    enum { SIZE = 1 << 20 };
    struct section *s = make_section();
    struct token_list list = {0};
    char *word = malloc(SIZE);
    assert_non_null(word);
    memset(word, 'a', SIZE);
    encode(s, word, SIZE, ENCODE_SPECIAL, &list);
    assert_int_equal(list.n, SIZE / 4);
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(list.ids[i], AAAA);
    free(word);
    free(list.ids);
    free(s);
}

/* --- decoding ------------------------------------------------------------------------------- */

TEST(tokens_give_their_bytes)
{
    struct section *s = make_section();
    struct tokenizer_tables tables;
    assert_int_equal(open_tables(s, sizeof *s, &tables), SMOL_OK);
    struct token_text text = smol_tokenizer_text(&tables, START);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.bytes, "<s>", 3);
    assert_true(text.special);
    assert_false(smol_tokenizer_text(&tables, ABC).special);
    free(s);
}

TEST(ids_without_a_token_give_nothing)
{
    struct section *s = make_section();
    struct tokenizer_tables tables;
    assert_int_equal(open_tables(s, sizeof *s, &tables), SMOL_OK);
    assert_int_equal(smol_tokenizer_text(&tables, UNUSED).length, 0);
    assert_int_equal(smol_tokenizer_text(&tables, N_TOKENS).length, 0);
    assert_int_equal(smol_tokenizer_text(&tables, NO_TOKEN).length, 0);
    free(s);
}

int main(void)
{
    return run_all_tests("tokenizer", NULL, NULL);
}
