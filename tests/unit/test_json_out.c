/* Tests of the JSON writer: a strict parser reads back what was written, for arbitrary bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "cli/json_out.h"

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

static void every_ascii_character_comes_back(void **state)
{
    (void)state;
    for (int c = 0; c < 128; c++)
        text_becomes((char[]){(char)c, 'x'}, 2, (char[]){(char)c, 'x'}, 2);
}

static void no_control_character_is_written_as_it_is(void **state)
{
    (void)state;
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

static void wide_characters_come_back(void **state)
{
    (void)state;
    static const char text[] = "\u00e9\u2028\uffff\U0001f600";
    text_becomes(text, sizeof text - 1, text, sizeof text - 1);
    text_becomes("", 0, "", 0);
}

static void ill_formed_bytes_become_replacement_characters(void **state)
{
    (void)state;
    text_becomes("a\xff\xe2\x82z", 5, "a\xef\xbf\xbd\xef\xbf\xbdz", 8);
}

static void every_pair_of_bytes_gives_valid_json(void **state)
{
    (void)state;
    for (int c = 0; c < 65536; c++) {
        struct written w;
        start(&w);
        smol_json_text(&w.json, (char[]){(char)c, (char)(c >> 8)}, 2);
        json_decref(read_back(&w));
    }
}

static void commas_stand_between_members_and_elements(void **state)
{
    (void)state;
    struct written w;
    start(&w);
    smol_json_open(&w.json, '{');
    smol_json_member_text(&w.json, "a", "x");
    smol_json_key(&w.json, "b");
    smol_json_open(&w.json, '[');
    smol_json_whole(&w.json, 1);
    smol_json_whole(&w.json, UINT64_MAX);
    smol_json_close(&w.json, ']');
    smol_json_key(&w.json, "c");
    smol_json_open(&w.json, '{');
    smol_json_close(&w.json, '}');
    smol_json_member_whole(&w.json, "d", 0);
    smol_json_close(&w.json, '}');
    fclose(w.json.file);
    assert_string_equal(w.text,
                        "{\"a\": \"x\", \"b\": [1, 18446744073709551615], \"c\": {}, \"d\": 0}");
    free(w.text);
}

static void reals_read_back_as_the_same_double(void **state)
{
    (void)state;
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

static void reals_that_are_not_finite_are_null(void **state)
{
    (void)state;
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

static void values_are_repeated_without_control_characters(void **state)
{
    (void)state;
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

static void flags_and_null_come_back(void **state)
{
    (void)state;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_ascii_character_comes_back),
        cmocka_unit_test(no_control_character_is_written_as_it_is),
        cmocka_unit_test(wide_characters_come_back),
        cmocka_unit_test(ill_formed_bytes_become_replacement_characters),
        cmocka_unit_test(every_pair_of_bytes_gives_valid_json),
        cmocka_unit_test(commas_stand_between_members_and_elements),
        cmocka_unit_test(reals_read_back_as_the_same_double),
        cmocka_unit_test(reals_that_are_not_finite_are_null),
        cmocka_unit_test(values_are_repeated_without_control_characters),
        cmocka_unit_test(flags_and_null_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
