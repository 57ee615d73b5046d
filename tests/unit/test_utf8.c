/* Tests of UTF-8 against the tables of the Unicode Standard, chapter 3: which sequences are well
 * formed (3-7), the replacement of ill-formed ones (3-8 to 3-11), and the bytes that a stream must
 * hold back. */
#include <string.h>

#include "common/utf8.h"
#include "tests/unit/guarded.h"
#include "tests/unit/unit.h"

/* Table 3-7, one row in each line: the ranges of the bytes. */
static const struct {
    size_t length;
    uint8_t low[4], high[4];
} well_formed[] = {
    {1, {0x00}, {0x7f}},
    {2, {0xc2, 0x80}, {0xdf, 0xbf}},
    {3, {0xe0, 0xa0, 0x80}, {0xe0, 0xbf, 0xbf}},
    {3, {0xe1, 0x80, 0x80}, {0xec, 0xbf, 0xbf}},
    {3, {0xed, 0x80, 0x80}, {0xed, 0x9f, 0xbf}},
    {3, {0xee, 0x80, 0x80}, {0xef, 0xbf, 0xbf}},
    {4, {0xf0, 0x90, 0x80, 0x80}, {0xf0, 0xbf, 0xbf, 0xbf}},
    {4, {0xf1, 0x80, 0x80, 0x80}, {0xf3, 0xbf, 0xbf, 0xbf}},
    {4, {0xf4, 0x80, 0x80, 0x80}, {0xf4, 0x8f, 0xbf, 0xbf}},
};
enum { N_WELL_FORMED = sizeof well_formed / sizeof well_formed[0] };

/* Returns the number of bytes of text[0..size) that match row `row` of the table. */
static size_t matched(size_t row, const uint8_t *text, size_t size)
{
    size_t n = 0;
    while (n < size && n < well_formed[row].length && text[n] >= well_formed[row].low[n] &&
           text[n] <= well_formed[row].high[n])
        n++;
    return n;
}

/* Returns the size of the maximal subpart at the start of `text`, by the table; *complete: it is a
 * character. */
static size_t maximal_subpart(const uint8_t *text, size_t size, bool *complete)
{
    size_t best = 1;
    *complete = false;
    for (size_t row = 0; row < N_WELL_FORMED; row++) {
        size_t n = matched(row, text, size);
        best = n > best ? n : best;
        *complete = *complete || n == well_formed[row].length;
    }
    return best;
}

TEST(every_character_survives_the_round_trip)
{
    for (uint32_t code_point = 0; code_point < 0x110000; code_point++) {
        uint8_t bytes[UTF8_MAX];
        uint32_t decoded;
        bool complete;
        if (code_point >= 0xd800 && code_point <= 0xdfff)
            continue;
        size_t length = smol_utf8_encode(code_point, bytes);
        assert_int_equal(smol_utf8_decode(bytes, length, &decoded), length);
        assert_int_equal(decoded, code_point);
        assert_int_equal(maximal_subpart(bytes, length, &complete), length);
        assert_true(complete);
    }
}

/* Bytes around every boundary of table 3-7. */
static const uint8_t edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xfe, 0xff};
enum { N_EDGES = sizeof edges };

/* Calls check on every text of up to four edge bytes, at the end of a guarded page. */
static void for_each_text(void (*check)(const uint8_t *text, size_t size))
{
    for (size_t size = 1; size <= 4; size++) {
        struct guarded guarded = guarded_new(size, 1);
        uint8_t *text = guarded.data;
        size_t n = 1;
        for (size_t i = 0; i < size; i++)
            n *= N_EDGES;
        for (size_t index = 0; index < n; index++) {
            size_t rest = index;
            for (size_t i = 0; i < size; i++, rest /= N_EDGES)
                text[i] = edges[rest % N_EDGES];
            check(text, size);
        }
        guarded_free(&guarded);
    }
}

static void check_decode(const uint8_t *text, size_t size)
{
    bool complete;
    uint32_t code_point;
    size_t want = maximal_subpart(text, size, &complete);
    assert_int_equal(smol_utf8_decode(text, size, &code_point), want);
    if (!complete) {
        assert_int_equal(code_point, UTF8_REPLACEMENT);
        return;
    }
    uint8_t again[UTF8_MAX];
    assert_int_equal(smol_utf8_encode(code_point, again), want);
    assert_memory_equal(again, text, want);
}

TEST(an_ill_formed_sequence_takes_its_maximal_subpart)
{
    for_each_text(check_decode);
}

/* Decodes the text and compares it with the code points of `want`, which ends with 0. */
static void decodes_to(const char *text, const uint32_t *want)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; want++) {
        uint32_t code_point;
        i += smol_utf8_decode((const uint8_t *)text + i, size - i, &code_point);
        assert_int_equal(code_point, *want);
    }
    assert_int_equal(*want, 0);
}

TEST(replaces_as_the_standards_tables_show)
{
    enum { R = UTF8_REPLACEMENT };
    /* table 3-8: non-shortest forms */
    decodes_to("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
               (const uint32_t[]){R, R, R, R, R, R, R, R, 0x41, 0});
    /* table 3-9: surrogates */
    decodes_to("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
               (const uint32_t[]){R, R, R, R, R, R, R, R, 0x41, 0});
    /* table 3-10: other ill-formed sequences */
    decodes_to("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
               (const uint32_t[]){R, R, R, R, R, 0x41, R, R, 0x42, 0});
    /* table 3-11: truncated sequences */
    decodes_to("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", (const uint32_t[]){R, R, R, R, 0x41, 0});
}

static void check_well_formed(const uint8_t *text, size_t size)
{
    size_t want = 0;
    bool complete = true;
    while (want < size) {
        size_t n = maximal_subpart(text + want, size - want, &complete);
        if (!complete)
            break;
        want += n;
    }
    assert_int_equal(smol_utf8_well_formed(text, size), want);
}

TEST(counts_the_well_formed_bytes_in_front)
{
    for_each_text(check_well_formed);
    /* U+FFFD itself is well formed */
    assert_int_equal(smol_utf8_well_formed((const uint8_t *)"a\xef\xbf\xbd\xff", 5), 4);
    assert_int_equal(smol_utf8_well_formed((const uint8_t *)"", 0), 0);
}

/* Returns the number of bytes that must be held back, by the table: a maximal subpart at the very
 * end that starts a character but does not complete it. */
static size_t held_back(const uint8_t *text, size_t size)
{
    size_t at = 0, last = 0;
    bool complete = true;
    while (at < size) {
        last = maximal_subpart(text + at, size - at, &complete);
        at += last;
    }
    if (complete)
        return 0;
    for (size_t row = 0; row < N_WELL_FORMED; row++)
        if (matched(row, text + size - last, last) == last)
            return last;
    return 0;
}

static void check_unfinished(const uint8_t *text, size_t size)
{
    assert_int_equal(smol_utf8_unfinished(text, size), held_back(text, size));
}

TEST(holds_back_what_more_bytes_could_complete)
{
    for_each_text(check_unfinished);
    assert_int_equal(smol_utf8_unfinished((const uint8_t *)"", 0), 0);
}

/* Cuts `text` at every position; the parts that a stream shows must add up to the text. */
TEST(streamed_in_two_parts_no_character_is_torn)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xef\xbf\xbd\xf4\x8f\xbf\xbf";
    const uint8_t *bytes = (const uint8_t *)text;
    size_t size = sizeof text - 1;
    for (size_t cut = 0; cut <= size; cut++) {
        size_t shown = cut - smol_utf8_unfinished(bytes, cut);
        assert_int_equal(smol_utf8_well_formed(bytes, shown), shown);
        assert_int_equal(smol_utf8_well_formed(bytes + shown, size - shown), size - shown);
        assert_true(cut - shown < UTF8_MAX);
    }
}

int main(void)
{
    return run_all_tests("utf8", NULL, NULL);
}
