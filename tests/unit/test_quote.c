/* Tests of how tokens are shown, and how they rank among the others. */
#include <math.h>
#include <string.h>

#include "cli/quote.h"
#include "cli/request/likelihood.h"
#include "common/error.h"
#include "common/utf8.h"
#include "tests/unit/unit.h"

static void check(const char *text, size_t size, size_t most, const char *expected, size_t n)
{
    char out[QUOTE_BYTES(20)];
    assert_true(most <= 20);
    assert_int_equal(smol_quote(text, size, most, out), n);
    assert_string_equal(out, expected);
}

TEST(harmless_text_is_shown_as_it_is)
{
    check("", 0, 10, "\"\"", 2);
    check(" the", 4, 10, "\" the\"", 6);
    check("caf\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x98\x80", 14, 10,
          "\"caf\xc3\xa9 \xe2\x98\x83 \xf0\x9f\x98\x80\"", 11); /* the last is two wide */
    check("\xef\xbf\xbd", 3, 10, "\"\xef\xbf\xbd\"", 3);        /* U+FFFD itself */
}

TEST(what_steers_a_terminal_is_escaped)
{
    check("\n\t\r\"\\\a", 6, 20, "\"\\n\\t\\r\\\"\\\\\\a\"", 14);
    check("\0\x1b\x7f", 3, 20, "\"\\x00\\x1b\\x7f\"", 14);
    check("\xc2\x9b", 2, 20, "\"\\u009b\"", 8);
    check("\xe2\x80\xae", 3, 20, "\"\\u202e\"", 8);
    check("\xf3\xa0\x80\x81", 4, 20, "\"\\ue0001\"", 9);
}

TEST(bytes_that_are_no_text_are_shown_as_numbers)
{
    check("a\xff", 2, 20, "\"a\\xff\"", 7);
    check("\xe2\x98", 2, 20, "\"\\xe2\\x98\"", 10);
    check("\xed\xa0\x80", 3, 20, "\"\\xed\\xa0\\x80\"", 14);
}

TEST(long_text_is_cut_between_characters)
{
    check("abcdef", 6, 6, "\"abcdef\"", 8);
    check("abcdefg", 7, 6, "\"abc...\"", 8);
    check("ab\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 12, 6, "\"ab\xc3\xa9...\"", 8);
    check("ab\x1bzzzz", 7, 6, "\"ab...\"", 7);
}

TEST(columns_count_and_not_characters)
{
    check("\xe6\x97\xa5\xe6\x9c\xac", 6, 4, "\"\xe6\x97\xa5\xe6\x9c\xac\"", 6);
    check("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 9, 5, "\"\xe6\x97\xa5...\"", 7);
    check("e\xcc\x81", 3, 4, "\"e\xcc\x81\"", 3);           /* an acute accent */
    check("e\xcc\x81\xcc\x81\xcc\x81", 7, 3, "\"...\"", 5); /* several, for ever */
    check("e\xcc\x81\xcc\x81\xcc\x81", 7, 4, "\"e\xcc\x81\xcc\x81\xcc\x81\"", 3);
}

/* Tests every code point. */
TEST(nothing_gets_through)
{
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t text[UTF8_MAX];
        char out[QUOTE_BYTES(16)];
        size_t size = smol_utf8_encode(c >= 0xd800 && c < 0xe000 ? c & 0xff : c, text);
        smol_quote((const char *)text, size, 16, out);
        for (size_t i = 0; out[i]; i++)
            assert_true((uint8_t)out[i] >= 0x20 && out[i] != 0x7f);
        assert_int_equal(smol_utf8_well_formed((const uint8_t *)out, strlen(out)), strlen(out));
    }
}

TEST(ranks_and_the_most_likely_are_those_of_a_sort)
{
    const float logits[] = {1, 3, 3, -2, 5, 0, 3, 4};
    const uint32_t order[] = {4, 7, 1, 2, 6, 0, 5, 3}; /* equals by id */
    double sum = 0;
    for (size_t i = 0; i < 8; i++)
        sum += exp((double)logits[i]);
    for (size_t i = 0; i < 8; i++) {
        const struct choice choice = smol_choice(logits, 8, order[i]);
        assert_int_equal(choice.rank, i + 1);
        assert_true(fabs(exp(choice.token.log_probability) - exp((double)logits[order[i]]) / sum) <
                    1e-15);
        assert_int_equal(choice.n_top, CHOICE_TOP);
        for (size_t k = 0; k < CHOICE_TOP; k++)
            assert_int_equal(choice.top[k].id, order[k]);
    }
    const struct choice few = smol_choice(logits, 2, 0);
    assert_int_equal(few.n_top, 2);
    assert_int_equal(few.top[0].id, 1);
}

/* Control characters of both kinds become "?"; others with the same first byte stay. */
TEST(messages_do_not_steer_a_terminal)
{
    smol_error error;
    smol_fail(&error, SMOL_ERROR_USAGE, "%s",
              "a\x1b[1m\xc2\x9b"
              "2J\xc2\x80\x7f \xc2\xa0\xc3\x9f\xc2");
    assert_string_equal(error.message, "a?[1m??2J??? \xc2\xa0\xc3\x9f\xc2");
}

int main(void)
{
    return run_all_tests("quote", NULL, NULL);
}
