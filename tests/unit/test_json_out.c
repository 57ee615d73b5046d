/* Tests of the JSON writer: a strict parser reads back what was written, for arbitrary bytes. */
#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "cli/json_out.h"
#include "tests/unit/unit.h"

struct written {
    struct json_out json;
    char *text;
    size_t size;
};

static void start(struct written *w)
{
    w->json = (struct json_out){.file = open_memstream(&w->text, &w->size)};
    assert_non_null(w->json.file);
}

/* The caller owns the value. */
static json_t *read_back(struct written *w)
{
    json_error_t error;
    fclose(w->json.file);
    json_t *value = json_loadb(w->text, w->size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!value)
        fail_msg("%s: %s", w->text, error.text);
    free(w->text);
    return value;
}

static void text_becomes(const char *bytes, size_t size, const char *expected, size_t expected_size)
{
    struct written w;
    start(&w);
    smol_json_text(&w.json, bytes, size);
    json_t *value = read_back(&w);
    assert_int_equal(json_string_length(value), expected_size);
    assert_memory_equal(json_string_value(value), expected, expected_size);
    json_decref(value);
}

TEST(every_ascii_character_comes_back)
{
    for (int c = 0; c < 128; c++)
        text_becomes((char[]){(char)c, 'x'}, 2, (char[]){(char)c, 'x'}, 2);
}

TEST(no_control_character_is_written_as_it_is)
{
    for (int c = 0; c < 0xa0; c++) {
        struct written w;
        const unsigned char text[] = {(unsigned char)(c < 0x80 ? c : 0xc2), (unsigned char)c};
        start(&w);
        smol_json_text(&w.json, (const char *)text, c < 0x80 ? 1 : 2);
        fflush(w.json.file);
        for (size_t i = 0; i < w.size; i++)
            if ((unsigned char)w.text[i] < 0x20 || (unsigned char)w.text[i] == 0x7f ||
                ((unsigned char)w.text[i] == 0xc2 && (c < 0x20 || c >= 0x7f)))
                fail_msg("U+%04X is written as it is", (unsigned)c);
        json_t *value = read_back(&w);
        assert_memory_equal(json_string_value(value), text, c < 0x80 ? 1 : 2);
        json_decref(value);
    }
}

TEST(wide_characters_come_back)
{
    static const char text[] = "\u00e9\u2028\uffff\U0001f600";
    text_becomes(text, sizeof text - 1, text, sizeof text - 1);
    text_becomes("", 0, "", 0);
}

TEST(ill_formed_bytes_become_replacement_characters)
{
    text_becomes("a\xff\xe2\x82z", 5, "a\xef\xbf\xbd\xef\xbf\xbdz", 8);
}

TEST(every_pair_of_bytes_gives_valid_json)
{
    for (int c = 0; c < 65536; c++) {
        struct written w;
        start(&w);
        smol_json_text(&w.json, (char[]){(char)c, (char)(c >> 8)}, 2);
        json_decref(read_back(&w));
    }
}

TEST(commas_stand_between_members_and_elements)
{
    struct written w;
    start(&w);
    smol_json_open(&w.json, '{');
    smol_json_member_text(&w.json, "a", "x");
    smol_json_member_open(&w.json, "b", '[');
    smol_json_whole(&w.json, 1);
    smol_json_whole(&w.json, UINT64_MAX);
    smol_json_close(&w.json, ']');
    smol_json_member_open(&w.json, "c", '{');
    smol_json_close(&w.json, '}');
    smol_json_member_whole(&w.json, "d", 0);
    smol_json_close(&w.json, '}');
    fclose(w.json.file);
    assert_string_equal(w.text,
                        "{\"a\": \"x\", \"b\": [1, 18446744073709551615], \"c\": {}, \"d\": 0}");
    free(w.text);
}

TEST(reals_read_back_as_the_same_double)
{
    static const double values[] = {0,       -0.0,        1,       0.1,      1.0 / 3, 1e300,
                                    DBL_MAX, DBL_MIN / 8, 12345.6, 1e-5 / 3, 1e22,    -2.5};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct written w;
        start(&w);
        smol_json_open(&w.json, '{');
        smol_json_member_real(&w.json, "x", values[i]);
        smol_json_close(&w.json, '}');
        json_t *object = read_back(&w);
        assert_true(json_number_value(json_object_get(object, "x")) == values[i]);
        json_decref(object);
    }
}

/* Returns how many digits a number has, without zeros at its ends. */
static int count_digits(const char *text)
{
    int n = 0, zeros = 0;
    for (; *text && *text != 'e'; text++)
        if (*text == '0')
            zeros += n > 0;
        else if (*text != '.')
            n += 1 + zeros, zeros = 0;
    return n;
}

static bool reads_as(const char *text, double value, bool single)
{
    return (single ? (double)strtof(text, NULL) : strtod(text, NULL)) == value;
}

/* Returns whether one of the numbers of n digits next to a value reads back as it. */
static bool has_digits(double value, int n, bool single)
{
    char text[64], *at = text;
    uint64_t whole = 0;
    snprintf(text, sizeof text, "%.*e", n - 1, value);
    for (; *at != 'e'; at++)
        if (*at != '.')
            whole = 10 * whole + (uint64_t)(*at - '0');
    const long exponent = strtol(at + 1, NULL, 10) - n + 1;
    for (uint64_t near = whole - 1; near <= whole + 1; near++) {
        snprintf(text, sizeof text, "%" PRIu64 "e%ld", near, exponent);
        if (reads_as(text, value, single))
            return true;
    }
    return false;
}

TEST(powers_of_two_have_the_fewest_digits)
{
    char digits[NUMBER_DIGITS];
    for (int i = -1074; i < 1024; i++)
        for (int single = 0; single < 1 + (i >= -149 && i < 128); single++) {
            const double value = ldexp(1, i);
            if (single)
                smol_float_digits((float)value, digits);
            else
                smol_real_digits(value, digits);
            assert_true(reads_as(digits, value, single));
            const int n = count_digits(digits);
            assert_false(n > 1 && has_digits(value, n - 1, single));
        }
}

TEST(reals_that_are_not_finite_are_null)
{
    static const double values[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        struct written w;
        start(&w);
        smol_json_open(&w.json, '{');
        smol_json_member_real(&w.json, "x", values[i]);
        smol_json_close(&w.json, '}');
        json_t *object = read_back(&w);
        assert_true(json_is_null(json_object_get(object, "x")));
        json_decref(object);
    }
}

TEST(values_are_repeated_without_control_characters)
{
    static const struct {
        const char *value, *expected;
    } cases[] = {
        {"-7", "{\"id\": -7, \"next\": 1}"},
        {"\"a\\u009b\\n\u00e9\"", "{\"id\": \"a\\u009b\\n\u00e9\", \"next\": 1}"},
        {"\"\x7f\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0\"",
         "{\"id\": \"\\u007f\\u0080\\u009b\\u009f\xc2\xa0\", \"next\": 1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct written w;
        start(&w);
        smol_json_open(&w.json, '{');
        smol_json_member_value(&w.json, "id", cases[i].value);
        smol_json_member_whole(&w.json, "next", 1);
        smol_json_close(&w.json, '}');
        fflush(w.json.file);
        assert_string_equal(w.text, cases[i].expected);
        json_decref(read_back(&w));
    }
}

TEST(flags_and_null_come_back)
{
    struct written w;
    start(&w);
    smol_json_open(&w.json, '{');
    smol_json_member_flag(&w.json, "yes", true);
    smol_json_member_flag(&w.json, "no", false);
    smol_json_key(&w.json, "none");
    smol_json_literal(&w.json, "null");
    smol_json_close(&w.json, '}');
    json_t *object = read_back(&w);
    assert_int_equal(json_object_size(object), 3);
    assert_true(json_is_true(json_object_get(object, "yes")));
    assert_true(json_is_false(json_object_get(object, "no")));
    assert_true(json_is_null(json_object_get(object, "none")));
    json_decref(object);
}

int main(void)
{
    return run_all_tests("json_out", NULL, NULL);
}
