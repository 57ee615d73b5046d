/* Tests of the text section: its rules, and its use by encoder and stream, with tokenizers compiled
 * from JSON. tests/oracle/test_tokenizer_families.py compares real tokenizers with the
 * reference. */
#include "runtime/tokenizer/stream.h"
#include "tests/unit/compiled_text.h"
#include "tests/unit/rules.h"
#include "tests/unit/sanitized.h"

/* "\u2581" represents a space; <0xC3> and <0xA9> are the bytes of \u00e9 */
static const char characters_json[] =
    "{\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true, \"normalized\": "
    "false,"
    "  \"lstrip\": true, \"rstrip\": true, \"single_word\": false},"
    " {\"id\": 11, \"content\": \"one\", \"special\": false, \"normalized\": true,"
    "  \"lstrip\": false, \"rstrip\": false, \"single_word\": true}],"
    " \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"},"
    "  {\"type\": \"Replace\", \"pattern\": {\"String\": \"x\"}, \"content\": \"\"}]},"
    " \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\\u2581\","
    "  \"prepend_scheme\": \"always\", \"split\": true},"
    " \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\":"
    "  [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
    "  \"special_tokens\": {\"<s>\": {\"ids\": [0]}}},"
    " \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\":"
    "  {\"String\": \"\\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"},"
    "  {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": "
    "0}]},"
    " \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"fuse_unk\": true,"
    "  \"unk_token\": \"<unk>\", \"vocab\": {\"<s>\": 0, \"<unk>\": 1, \"\\u2581\": 2, \"a\": 3,"
    "  \"b\": 4, \"\\u2581a\": 5, \"ab\": 6, \"\\u00e8\": 7, \"<0xC3>\": 8, \"<0xA9>\": 9, \"c\": "
    "10},"
    "  \"merges\": [[\"\\u2581\", \"a\"], [\"a\", \"b\"]]}}";

enum { START, UNKNOWN, SPACE, A, B, SPACE_A, AB, E_GRAVE, BYTE_C3, BYTE_A9, C, ONE, N_TOKENS };

/* --- rules ---------------------------------------------------------------------------------- */

static struct token_name *some_name(struct compiled *c, bool empty)
{
    struct token_name *name = table(c, NAMES);
    while ((name->id == NO_TOKEN) != empty)
        name++;
    return name;
}

static struct rules rules;

#define RULE(name, ...)                                                                            \
    static void name(void *c)                                                                      \
    {                                                                                              \
        struct blob_text *h = header(c);                                                           \
        struct text_step *steps = table(c, STEPS), *late = table(c, LATE);                         \
        (void)h, (void)steps, (void)late;                                                          \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    ADD_RULE(rules, name)
RULE(unknown_flag, h->flags |= 64)
RULE(falls_back_from_bytes, h->flags &= ~1u; h->split = 0)
RULE(splits_bytes, h->flags &= ~3u)
RULE(splits_at_a_surrogate, h->split = 0xd800)
RULE(splits_beyond_unicode, h->split = 0x110000)
RULE(strips_a_surrogate, h->strip = 0xdfff)
RULE(strips_too_much, h->n_strip = TEXT_MAX_STRIP + 1)
RULE(strips_never, h->n_strip = 0)
RULE(strips_nothing, h->strip = 0)
RULE(probes_too_far, h->max_probe = 256)
RULE(probes_too_near, h->max_probe = 0)
RULE(too_many_before, h->n_before = TEXT_MAX_AROUND + 1)
RULE(too_many_after, h->n_after = TEXT_MAX_AROUND + 1)
RULE(too_many_steps, h->n_steps = TEXT_MAX_STEPS + 1)
RULE(too_many_late_steps, h->n_late_steps = TEXT_MAX_STEPS + 1)
RULE(slots_not_a_power_of_two, h->n_name_slots--)
RULE(pool_too_large, h->n_pool = UINT32_MAX)
RULE(pool_too_small, h->n_pool -= 64)
RULE(index_of_another_size, h->n_letter_index--)
RULE(letters_without_an_index, h->n_letter_index = 0)
RULE(too_many_blocks, h->n_letter_blocks = UINT32_MAX)
RULE(pair_too_many, h->n_pairs += 16)
RULE(reserved_not_zero, h->reserved[2] = 1)
RULE(padding_not_zero, ((uint32_t *)table(c, BEFORE))[1] = 1)
RULE(no_id_before, *(uint32_t *)table(c, BEFORE) = NO_TOKEN)
RULE(no_such_step, steps[0].kind = 10)
RULE(step_of_kind_zero, steps[0].kind = 0)
RULE(normalizes_by_a_text, steps[0].text = 1)
RULE(normalizes_somewhere, steps[0].start = 1)
RULE(replaces_nothing, steps[1].pattern = 0)
RULE(pattern_too_long, steps[1].pattern = 65)
RULE(text_too_long, late[0].text = 65)
RULE(step_outside_the_pool, steps[1].start = h->n_pool)
RULE(step_wraps_around, steps[1].start = UINT32_MAX)
RULE(parts_of_a_character, late[0].text--)
RULE(prepends_nothing, late[1].text = 0)
RULE(prepends_a_pattern, late[1].pattern = 1)
RULE(grows_too_much, late[0] = (struct text_step){STEP_REPLACE, 0, 1, 62})
RULE(name_outside, some_name(c, false)->length = h->n_pool + 1)
RULE(empty_name, some_name(c, false)->length = 0)
RULE(name_that_is_not_found, some_name(c, false)->start++)
RULE(empty_slot_not_empty, some_name(c, true)->length = 1)
RULE(no_such_block, *(uint16_t *)table(c, INDEX) = (uint16_t)h->n_letter_blocks)
RULE(no_such_letter, ((uint16_t *)table(c, BLOCKS))[255] = (uint16_t)h->n_letters)
RULE(ascii_changes, ((uint16_t *)table(c, BLOCKS))['a'] = 1)
RULE(first_letter_joins, ((struct nfc_letter *)table(c, LETTERS))->joins = 1)
RULE(letter_joins_twice, ((struct nfc_letter *)table(c, LETTERS))[1].joins = 2)
RULE(letter_too_long, ((struct nfc_letter *)table(c, LETTERS))[1].length = 5)
RULE(letter_outside, ((struct nfc_letter *)table(c, LETTERS))[1].start = UINT32_MAX)
RULE(letter_reserved, ((struct nfc_letter *)table(c, LETTERS))[1].reserved = 1)
RULE(surrogate_in_a_text, *(uint32_t *)table(c, TEXTS) = 0xd800)
RULE(pairs_out_of_order, ((struct nfc_pair *)table(c, PAIRS))[1].first = 0)
RULE(pair_of_nothing, ((struct nfc_pair *)table(c, PAIRS))[1].composed = 0)
RULE(pair_beyond_unicode, ((struct nfc_pair *)table(c, PAIRS))[1].second = 0x110000)

TEST(every_broken_rule_is_refused)
{
    struct compiled c;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    uint8_t *intact = intact_text(&c);
    for (size_t i = 0; i < rules.n; i++) {
        rules.items[i].spoil(&c);
        if (smol_text_tables_open(c.section.text.data, c.section.text.size, &c.rules, &c.error) !=
            SMOL_ERROR_DAMAGED)
            fail_msg("%s is accepted", rules.items[i].name);
        memcpy(c.section.text.data, intact, c.section.text.size);
    }
    assert_int_equal(open_all(&c), SMOL_OK); /* the changes were to blame */
    free(intact);
    smol_tokenizer_section_free(&c.section);
}

TEST(every_other_size_is_refused)
{
    struct compiled c;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    for (size_t size = 0; size < c.section.text.size; size += 1 + size / 64)
        assert_int_equal(smol_text_tables_open(c.section.text.data, size, &c.rules, &c.error),
                         SMOL_ERROR_DAMAGED);
    smol_tokenizer_section_free(&c.section);
}

TEST(ids_without_a_token_are_refused)
{
    struct compiled c;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    header(&c)->unknown_id = N_TOKENS;
    assert_int_equal(open_all(&c), SMOL_ERROR_DAMAGED);
    header(&c)->unknown_id = N_TOKENS - 1;
    assert_int_equal(open_all(&c), SMOL_OK);
    some_name(&c, false)->id = N_TOKENS;
    assert_int_equal(open_all(&c), SMOL_ERROR_DAMAGED);
    smol_tokenizer_section_free(&c.section);
}

/* Features of a text section are refused without one. */
TEST(flags_need_a_section)
{
    struct compiled c;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    assert_int_equal(smol_tokenizer_tables_open(c.section.data, c.section.size, VOCAB_SIZE, NULL,
                                                &c.tables, &c.error),
                     SMOL_ERROR_DAMAGED);
    smol_tokenizer_section_free(&c.section);
}

/* --- encoding ------------------------------------------------------------------------------- */

TEST(texts_are_prepared_cut_and_looked_up)
{
    struct compiled c;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    assert_int_equal(open_all(&c), SMOL_OK);
    CHECK_IDS("ab", 0, SPACE_A, B); /* the space is put before it, and merges first */
    CHECK_IDS("ab ab", 0, SPACE_A, B, SPACE_A, B);
    CHECK_IDS("bab", 0, SPACE, B, AB);
    CHECK_IDS("axb", 0, SPACE_A, B);           /* x is replaced by nothing */
    CHECK_IDS("e\xcc\x80", 0, SPACE, E_GRAVE); /* composed */
    CHECK_IDS("\xc3\xa9", 0, SPACE, BYTE_C3, BYTE_A9);
    CHECK_IDS("zz\xc3\xa9z", 0, SPACE, BYTE_C3, BYTE_A9, UNKNOWN);
    CHECK_IDS("zbz", 0, SPACE, UNKNOWN, B, UNKNOWN);
    CHECK_IDS("a", ENCODE_AROUND, START, SPACE_A);
    CHECK_IDS("", ENCODE_AROUND, START);
    CHECK_IDS("x", ENCODE_AROUND, START);
    CHECK_IDS("a <s>  b", ENCODE_SPECIAL, SPACE_A, START, SPACE, B);
    CHECK_IDS("<s>", 0, SPACE, UNKNOWN);
    CHECK_IDS("one a", 0, ONE, SPACE_A);
    CHECK_IDS("aone", 0, SPACE_A, UNKNOWN);
    smol_tokenizer_section_free(&c.section);
}

/* --- decoding ------------------------------------------------------------------------------- */

static void check_text(struct compiled *c, const uint32_t *ids, size_t n, const char *expected)
{
    char text[256];
    size_t size = 0;
    struct stream *stream;
    struct stream_text out;
    assert_int_equal(smol_stream_create(NULL, 0, &stream, &c->error), SMOL_OK);
    for (size_t i = 0; i <= n; i++) {
        smol_status status =
            i < n ? smol_stream_token(stream, &c->tables, ids[i], false, &out, &c->error)
                  : smol_stream_finish(stream, &out, &c->error);
        assert_int_equal(status, SMOL_OK);
        memcpy(text + size, out.text, out.size);
        size += out.size;
    }
    smol_stream_free(stream);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(text, expected, size);
}
#define CHECK_TEXT(expected, ...)                                                                  \
    check_text(&c, (const uint32_t[]){__VA_ARGS__},                                                \
               sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), expected)

TEST(tokens_are_shown_together)
{
    struct compiled c;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    assert_int_equal(open_all(&c), SMOL_OK);
    CHECK_TEXT("ab ab", SPACE_A, B, SPACE_A, B); /* one space is left out, at the start alone */
    CHECK_TEXT(" a", SPACE, SPACE_A);
    CHECK_TEXT("a\xc3\xa9", SPACE_A, BYTE_C3, BYTE_A9);
    CHECK_TEXT("\xc3\xa9", BYTE_C3, START, 31, BYTE_A9); /* what is not shown is not between */
    CHECK_TEXT("\xef\xbf\xbd"
               "a\xef\xbf\xbd",
               BYTE_C3, A, BYTE_A9);
    CHECK_TEXT("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", BYTE_C3, BYTE_A9, BYTE_A9);
    CHECK_TEXT("a", START, SPACE_A, START);
    smol_tokenizer_section_free(&c.section);
}

/* --- damage --------------------------------------------------------------------------------- */

static void encode_and_show(struct compiled *c)
{
    static const char text[] = "ab <s> one x\xc3\xa9 e\xcc\x80\xcc\xa7 \xea\xb0\x80\xe1\x86\xa8 zz";
    struct token_list list = {0};
    struct stream *stream;
    struct stream_text out;
    assert_int_equal(
        smol_tokenizer_encode(&c->tables, text, sizeof text - 1,
                              &(struct encode_params){.flags = ENCODE_SPECIAL | ENCODE_AROUND},
                              &list, &c->error),
        SMOL_OK);
    assert_int_equal(smol_stream_create(NULL, 0, &stream, &c->error), SMOL_OK);
    for (size_t i = 0; i < list.n; i++) {
        assert_true(list.ids[i] < N_TOKENS);
        assert_int_equal(smol_stream_token(stream, &c->tables, list.ids[i], i % 2, &out, &c->error),
                         SMOL_OK);
    }
    assert_int_equal(smol_stream_finish(stream, &out, &c->error), SMOL_OK);
    smol_stream_free(stream);
    free(list.ids);
}

/* Damage may produce another tokenizer, but never reads outside the tables. */
TEST(spoilt_sections_never_lead_astray)
{
    struct compiled c;
    size_t n_opened = 0;
    assert_int_equal(compile(characters_json, &c), SMOL_OK);
    uint8_t *data = c.section.text.data;
    const size_t stride = few_samples() ? 3 : 1;
    for (size_t i = 0; i < c.section.text.size; i += stride * (1 + i / 512)) {
        for (unsigned bit = 0; bit < 8; bit += 1 + bit % 3) {
            data[i] ^= (uint8_t)(1u << bit);
            if (open_all(&c) == SMOL_OK) {
                n_opened++;
                encode_and_show(&c);
            }
            data[i] ^= (uint8_t)(1u << bit);
        }
    }
    assert_true(n_opened > 100 / stride);
    smol_tokenizer_section_free(&c.section);
}

int main(void)
{
    return run_all_tests("text", NULL, NULL);
}
