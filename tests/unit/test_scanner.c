/* Tests of patterns, their automata, and cutting with them. tests/oracle/test_scanner.py compares
 * the results with the reference; this file tests each construct once, and one violation of each
 * rule of the section. */
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "convert/tokenizer/scanner.h"
#include "format/scanner.h"
#include "runtime/tokenizer/scanner.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

/* --- helpers -------------------------------------------------------------------------------- */

static smol_status compile_as(const char *pattern, enum split_behaviour behaviour, uint32_t flags,
                              struct scanner_section *section, smol_error *error)
{
    struct scanner_plan plan = {.n_stages = 1};
    uint32_t stage;
    plan.stages[0].behaviour = behaviour;
    plan.stages[0].flags = flags;
    *section = (struct scanner_section){0};
    smol_status status =
        smol_pattern_parse(pattern, strlen(pattern), &plan.stages[0].pattern, error);
    if (!status)
        status = smol_scanner_compile(&plan, section, &stage, error);
    smol_scanner_plan_free(&plan);
    return status;
}

/* Returns the section at an aligned address, as readers require. */
static uint8_t *placed(const struct scanner_section *section)
{
    uint8_t *data = aligned_alloc(64, round_up(section->size, 64));
    assert_non_null(data);
    memcpy(data, section->data, section->size);
    return data;
}

/* Writes the pieces of text[0..size), each after a "|". */
static void cut_bytes(const struct scanner_tables *tables, const char *text, size_t size, char *out)
{
    struct scan scan;
    smol_error error;
    size_t start, end, n = 0;
    smol_scanner_start(&scan, tables, 0, (const uint8_t *)text, size);
    for (;;) {
        assert_int_equal(smol_scanner_next(&scan, &start, &end, &error), SMOL_OK);
        if (start == size)
            break;
        out[n++] = '|';
        memcpy(out + n, text + start, end - start);
        n += end - start;
    }
    out[n] = 0;
    smol_scanner_end(&scan);
}

static void cuts_as(const char *pattern, enum split_behaviour behaviour, uint32_t flags,
                    const char *text, const char *expected)
{
    struct scanner_section section;
    struct scanner_tables tables;
    smol_error error;
    char pieces[256];
    if (compile_as(pattern, behaviour, flags, &section, &error))
        fail_msg("%s: %s", pattern, error.message);
    uint8_t *data = placed(&section);
    assert_int_equal(smol_scanner_tables_open(data, section.size, &tables, &error), SMOL_OK);
    cut_bytes(&tables, text, strlen(text), pieces);
    if (strcmp(pieces, expected) != 0)
        fail_msg("%s cuts %s into %s instead of %s", pattern, text, pieces, expected);
    free(data);
    free(section.data);
}

static void cuts(const char *pattern, const char *text, const char *expected)
{
    cuts_as(pattern, SPLIT_ISOLATED, 0, text, expected);
}

static void refuses(const char *pattern, const char *reason)
{
    struct scanner_section section;
    smol_error error;
    smol_status status = compile_as(pattern, SPLIT_ISOLATED, 0, &section, &error);
    if (status != SMOL_ERROR_UNSUPPORTED || !strstr(error.message, reason))
        fail_msg("%s: %d %s", pattern, status, status ? error.message : "is taken");
    assert_null(section.data);
}

/* --- the language --------------------------------------------------------------------------- */

TEST(alternatives_are_tried_in_their_order)
{
    cuts("a|ab", "abab", "|a|b|a|b");
    cuts("ab|a", "aba", "|ab|a");
    cuts("(?:a|ab)(?:c|bcd)", "abcd", "|abcd");
}

TEST(repetitions_are_greedy_lazy_or_possessive)
{
    cuts("a+", "aaab", "|aaa|b");
    cuts("a+?", "aab", "|a|a|b");
    cuts("ba?", "bab", "|ba|b");
    cuts("ba??", "ba", "|b|a");
    cuts("ba*", "baab", "|baa|b");
    cuts("a{2}", "aaaaa", "|aa|aa|a");
    cuts("a{2,3}", "aaaaa", "|aaa|aa");
    cuts("a{2,}", "aaaaab", "|aaaaa|b");
    cuts("ba{,2}", "baaa", "|baa|a");
    cuts("a{1,3}?b", "aab", "|aab");
    cuts("a{2}+", "aaaaa", "|aaaa|a"); /* once more, not possessive */
    cuts("a++a|b", "aab", "|aa|b");
    cuts("a*+a|b", "aab", "|aa|b");
    cuts("a?+a|b", "aab", "|aa|b");
    cuts("a?+b", "aab", "|a|ab");
    cuts("(?>a{1,2})b", "aaab", "|a|aab");
    cuts("(?>ab)c", "abc", "|abc");
    cuts("a(?>b|bc)", "abc", "|ab|c");
}

TEST(classes_are_what_they_say)
{
    cuts("[a-c]+", "abcd", "|abc|d");
    cuts("[^a-c]+", "abxy\nc", "|ab|xy\n|c");
    cuts("[a-d&&[^b]]+", "abcd", "|a|b|cd");
    cuts("[a[bc]]+", "abcd", "|abc|d");
    cuts("[\\d.-]+", "a1.-b", "|a|1.-|b");
    cuts("[[:alpha:]]+", "ab1", "|ab|1");
    cuts("[[:^alpha:]]+", "ab12", "|ab|12");
    cuts("\\p{L}+",
         "a\xc3\xa9"
         "1",
         "|a\xc3\xa9|1");
    cuts("\\P{L}+", "a12", "|a|12");
    cuts("\\p{^L}+", "a12", "|a|12");
    cuts("\\p{Uppercase_Letter}+", "aBC", "|a|BC");
    cuts("\\p{Han}+", "a\xe6\xbc\xa2", "|a|\xe6\xbc\xa2");
    cuts("\\x41\\x{42}\\u0043", "ABCD", "|ABC|D");
    cuts("[\\t\\n\\r\\f\\v\\a\\e]+", "a\t\nb", "|a|\t\n|b");
    cuts(".+", "ab\nc", "|ab|\n|c");
    cuts("(?m:.+)", "ab\nc", "|ab\nc");
    cuts("\\w+", "a_1 ", "|a_1| ");
    cuts("\\W+", "a  b", "|a|  |b");
    cuts("\\S+", "ab c", "|ab| |c");
    cuts("\\h+", "xAf0", "|x|Af0");
    cuts("\\.\\*", "a.*", "|a|.*");
}

TEST(case_is_ignored_with_unicode_s_folds)
{
    cuts("(?i:k)+", "kK\xe2\x84\xaax", "|kK\xe2\x84\xaa|x");
    cuts("(?i)'s|x", "'S'\xc5\xbfX", "|'S|'\xc5\xbf|X");
    cuts("(?i:[a-c])+", "aBd", "|aB|d");
    cuts("(?i:[^k])+", "aKb", "|a|K|b");
    cuts("(?i:\\p{Lu})+", "aAb", "|a|A|b");
    cuts("(?i:a(?-i:b))", "AbAB", "|Ab|AB");
}

TEST(places_are_looked_around_at)
{
    cuts("\\s+(?!\\S)|\\s+", "a   b", "|a|  | |b");
    cuts("a(?=b)", "abac", "|a|bac");
    cuts("a(?=b|$)", "aab\na", "|a|a|b\n|a");
    cuts("a$", "a\naba", "|a|\nab|a");
    cuts("a\\z", "a\na", "|a\n|a");
    cuts("^a", "a\naba", "|a|\n|a|ba");
    cuts("\\Aa", "aa", "|a|a");
    cuts("(?<=b)a", "aba", "|ab|a");
    cuts("(?<!b)a", "aba", "|a|ba");
    cuts("\\ba", "a ba", "|a| ba");
    cuts("\\Ba", "a ba", "|a b|a");
}

TEST(longer_texts_are_looked_ahead_at)
{
    cuts("a(?=bc)", "abdabc", "|abd|a|bc");
    cuts("a(?!bc)", "abdabc", "|a|bdabc");
    cuts("a(?=b{2})|b", "abbab", "|a|b|b|a|b");
    cuts("\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567x 1234567", "|1234567x |1|234|567");
    cuts("a(?=(?!bc)b)", "abcabd", "|abc|a|bd");
    cuts("a(?=\\b)|a(?=a\\B)", "aaa", "|a|a|a");
    cuts("(?=(\\d{3})+(?!\\d))", "12345678,1234", "|12|345|678,1|234");
    cuts("x*", "axxb", "|a|xx|b");
    cuts("", "abc", "|a|b|c");
}

TEST(what_cannot_be_followed_is_refused)
{
    refuses("(a)\\1", "escape");
    refuses("(?<=ab)c", "more than one character");
    refuses("(?=.{9}a)b", "in too many ways");
    refuses("(?=ab)a(?=bc)b(?=cd)c(?=de)d", "in too many places");
    refuses("(?:a|ab)++c", "possessive");
    refuses("(?:a?)*b", "empty");
    refuses("(?:a+?)*b", "repetition");
    refuses("^*a", "empty");
    refuses("$?a", "no character");
    refuses("(?i:ss)", "one character");
    refuses("(?i:s{2})", "one character");
    refuses("(?i:\xc3\x9f)", "several");
    refuses("(?x:a)", "group");
    refuses("a(?i)b", "group");
    refuses("(a", "without its )");
    refuses("a)", "on its own");
    refuses("[a", "without its ]");
    refuses("[]", "empty class");
    refuses("[a-\\d]", "range");
    refuses("[b-a]", "range");
    refuses("[a-b-c]", "-");
    refuses("*a", "nothing to repeat");
    refuses("a{", "count");
    refuses("a{3,2}", "count");
    refuses("a{1001}", "count");
    refuses("a?{2}{2}{2}{2}b", "empty");
    refuses("a{2}{2}{2}{2}{2}", "repeating repetitions");
    refuses("(?:a{900}){900}", "too many repetitions");
    refuses("(?:[ab]{30}|a){30}", "states");
    refuses("\\p{Klingon}", "property");
    refuses("\\p{\\w}", "property");
    refuses("\\p{[alpha}", "property");
    refuses("[[:klingon:]]", "class");
    refuses("\\xff", "byte");
    refuses("\\x{110000}", "number");
    refuses("\\ud800", "number");
    refuses("\\", "at the end");
}

/* --- pieces --------------------------------------------------------------------------------- */

TEST(behaviours_make_pieces)
{
    const char *text = "aXXbX";
    cuts_as("X", SPLIT_REMOVED, 0, text, "|a|b");
    cuts_as("X", SPLIT_ISOLATED, 0, text, "|a|X|X|b|X");
    cuts_as("X", SPLIT_PREVIOUS, 0, text, "|aX|X|bX");
    cuts_as("X", SPLIT_NEXT, 0, text, "|a|X|Xb|X");
    cuts_as("X", SPLIT_CONTIGUOUS, 0, text, "|a|XX|b|X");
    cuts_as("X", SPLIT_REMOVED, STAGE_INVERT, text, "|X|X|X");
    cuts_as("X", SPLIT_ISOLATED, STAGE_INVERT, text, "|a|X|X|b|X");
    cuts_as("X", SPLIT_PREVIOUS, STAGE_INVERT, text, "|a|X|Xb|X");
    cuts_as("X", SPLIT_NEXT, STAGE_INVERT, text, "|aX|X|bX");
    cuts_as("X", SPLIT_CONTIGUOUS, STAGE_INVERT, text, "|a|XX|b|X");
    cuts_as("X", SPLIT_REMOVED, 0, "XX", "");
}

TEST(bytes_are_seen_as_their_characters)
{
    /* the byte C3 is represented as U+00C3, a letter, A9 as U+00A9, no letter, and a space as
     * U+0120 */
    cuts_as("\\p{L}+", SPLIT_ISOLATED, STAGE_BYTES, "a\xc3\xa9 b", "|a\xc3|\xa9| b");
    cuts_as("\\s+", SPLIT_ISOLATED, STAGE_BYTES, "a b", "|a b");
}

TEST(ill_formed_text_is_cut_safely)
{
    cuts_as("\\p{L}+", SPLIT_ISOLATED, 0, "a\xff\xc3", "|a|\xff\xc3");
    cuts_as("(?<=a).", SPLIT_ISOLATED, 0, "x\x80\x80\x80\x80z", "|x\x80\x80\x80\x80z");
}

TEST(long_walks_in_vain_are_not_repeated)
{
    const size_t size = few_samples() ? 1 << 15 : 1 << 18;
    static const char *const patterns[] = {"a*b", "a*b|a", "(?:aaa)*b|aa", "a{70}b|[ac]+d"};
    smol_error error;
    char *text = malloc(size), *pieces = malloc(2 * size + 1);
    memset(text, 'a', size);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct scanner_section section;
        struct scanner_tables tables;
        assert_int_equal(compile_as(patterns[i], SPLIT_ISOLATED, 0, &section, &error), SMOL_OK);
        uint8_t *data = placed(&section);
        assert_int_equal(smol_scanner_tables_open(data, section.size, &tables, &error), SMOL_OK);
        cut_bytes(&tables, text, size, pieces); /* takes days if each walk continues to the end */
        assert_int_equal(strlen(pieces), i == 0 || i == 3 ? size + 1
                                         : i == 1         ? 2 * size
                                                          : size / 2 * 3);
        free(data);
        free(section.data);
    }
    free(text);
    free(pieces);
}

/* --- the section's rules -------------------------------------------------------------------- */

/* A section whose tables can be changed. */
struct fixture {
    struct scanner_section section;
    uint8_t *data;
    struct blob_scanner *header;
    struct scanner_tables tables;
};

static void open_fixture(struct fixture *f)
{
    smol_error error;
    assert_int_equal(compile_as("(?<=a)b+|c", SPLIT_ISOLATED, 0, &f->section, &error), SMOL_OK);
    f->data = placed(&f->section);
    f->header = (struct blob_scanner *)f->data;
    assert_int_equal(smol_scanner_tables_open(f->data, f->section.size, &f->tables, &error),
                     SMOL_OK);
}

/* Expects that the section is refused; undoes the change. */
static void is_refused(struct fixture *f, const char *reason)
{
    struct scanner_tables tables;
    smol_error error;
    assert_int_equal(smol_scanner_tables_open(f->data, f->section.size, &tables, &error),
                     SMOL_ERROR_DAMAGED);
    if (!strstr(error.message, reason))
        fail_msg("%s", error.message);
    memcpy(f->data, f->section.data, f->section.size);
}

#define CHANGED(type, field) (*(type *)(uintptr_t) & (field))

TEST(every_rule_is_kept)
{
    struct fixture f;
    open_fixture(&f);
    const struct blob_scanner *h = &f.tables.header;
    struct scanner_stage *stage = &CHANGED(struct scanner_stage, f.tables.stages[0]);
    uint16_t *starts = &CHANGED(uint16_t, f.tables.starts[0]);
    uint16_t *states = &CHANGED(uint16_t, f.tables.states[0]);
    f.header->reserved[8] = 1;
    is_refused(&f, "reserved");
    f.header->n_stages = SCANNER_MAX_STAGES + 1;
    is_refused(&f, "too many stages");
    f.header->n_stages = 2;
    is_refused(&f, "bad stage (1)");
    f.header->n_classes = 0;
    is_refused(&f, "n_classes");
    f.header->row = h->row - 1;
    is_refused(&f, "row");
    f.header->n_states++;
    is_refused(&f, "no room for a table (transitions");
    f.header->n_states = SCANNER_MAX_ENTRIES;
    is_refused(&f, "too large");
    f.data[f.section.size - 1] = 1; /* the last row's padding */
    is_refused(&f, "transitions");
    CHANGED(uint16_t, f.tables.class_index[7]) = (uint16_t)h->n_class_blocks;
    is_refused(&f, "class block");
    CHANGED(uint8_t, f.tables.class_blocks[9]) = (uint8_t)h->n_classes;
    is_refused(&f, "class byte 9");
    CHANGED(uint8_t, f.tables.byte_classes[9]) = (uint8_t)h->n_classes;
    is_refused(&f, "byte 9");
    stage->behaviour = SPLIT_COUNT;
    is_refused(&f, "stage");
    stage->flags = STAGE_EMPTY << 1;
    is_refused(&f, "stage");
    stage->flags = 0; /* but its start state differs */
    is_refused(&f, "stage");
    stage->n_ahead_states = 1;
    is_refused(&f, "stage");
    stage->n_states++;
    is_refused(&f, "stage");
    starts[0] = 0;
    is_refused(&f, "stage");
    starts[0] = (uint16_t)h->n_states;
    is_refused(&f, "stage");
    starts[h->row - 1] = 1;
    is_refused(&f, "stage");
    states[0] = 3 << 1; /* state 0 continues */
    is_refused(&f, "state 0");
    states[h->row] |= 1; /* an empty match */
    is_refused(&f, "state 1");
    states[h->row] = 1 << 1; /* back to the start state */
    is_refused(&f, "state 1");
    states[h->row] = (uint16_t)(h->n_states << 1);
    is_refused(&f, "state 1");
    states[h->row + h->n_classes] = 3 << 1; /* continues after the end */
    is_refused(&f, "state 1");
    free(f.data);
    free(f.section.data);
}

TEST(every_size_but_its_own_is_refused)
{
    struct fixture f;
    smol_error error;
    open_fixture(&f);
    for (size_t size = 0; size < f.section.size; size += size < 256 ? 1 : 97) {
        uint8_t *data = aligned_alloc(64, round_up(size + 1, 64));
        memcpy(data, f.section.data, size);
        assert_int_equal(smol_scanner_tables_open(data, size, &f.tables, &error),
                         SMOL_ERROR_DAMAGED);
        free(data);
    }
    free(f.data);
    free(f.section.data);
}

TEST(a_plan_without_stages_is_a_section)
{
    struct scanner_plan plan = {0};
    struct scanner_section section;
    struct scanner_tables tables;
    smol_error error;
    uint32_t stage;
    assert_int_equal(smol_scanner_compile(&plan, &section, &stage, &error), SMOL_OK);
    uint8_t *data = placed(&section);
    assert_int_equal(smol_scanner_tables_open(data, section.size, &tables, &error), SMOL_OK);
    assert_int_equal(tables.header.n_stages, 0);
    free(data);
    free(section.data);
}

int main(void)
{
    return run_all_tests("scanner", NULL, NULL);
}
