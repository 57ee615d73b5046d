/* Tests of the reader of JSON files. */
#include <unistd.h>

#include "convert/base/json.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

static json_t *object;
static struct json_mark mark;
static smol_error error;

static void refuses(const char *text, size_t size, const char *part)
{
    const char *path = temporary_write(&temporary, "a.json", text, size);
    assert_error(&error, smol_json_load(path, &object, &mark, &error), SMOL_ERROR_DAMAGED, part);
    assert_non_null(strstr(error.message, "/a.json: "));
}

TEST(says_where_json_is_damaged)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "empty"},
        {"{\n \"a\": 1,\n}", "(line 3, column 1)"},
        {"{\"a\": 1, \"a\": 2}", "duplicate object key"},
        {"{} {}", "end of file expected"},
        {"{\"a\": \"\\u0000\"}", "not valid JSON: "},
        {"{\"a\": nan}", "not valid JSON: "},
        {"{\"a\": 1e999}", "real number overflow"},
        {"{\"a\": 1e999, \"b\": 99999999999999999999}", "real number overflow"},
        {"{\"\xff\": 1}", "unable to decode byte 0xff"},
        {"[1]",
         "must be an object, found a list (line 1, column 1): correct it or download it again"},
        {"12", "not valid JSON: "},
        {"version https://git-lfs.example/spec/v1\noid sha256:00\n", "a Git LFS pointer"},
        {"<html></html>", "a web page"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuses(bad[i].text, strlen(bad[i].text), bad[i].part);
}

TEST(refuses_bytes_after_json)
{
    static const char text[] = "{\"model_type\": \"llama\"}";
    refuses(text, sizeof text, "not valid JSON"); /* the zero byte too */
}

TEST(survives_deeply_nested_json)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '[', size);
    memcpy(text, "{\"a\":", 5);
    refuses(text, size, "maximum parsing depth");
    free(text);
}

TEST(refuses_json_over_the_limit)
{
    const char *path = temporary_write_text(&temporary, "a.json", "{}");
    assert_int_equal(truncate(path, (64 << 20) + 1), 0);
    assert_error(&error, smol_json_load(path, &object, &mark, &error), SMOL_ERROR_DAMAGED,
                 "too large for JSON (67108865 bytes, at most 67108864)");
}

TEST(a_path_with_an_invalid_component_is_no_missing_file)
{
    char path[600];
    temporary_write_text(&temporary, "a.json", "{}");
    snprintf(path, sizeof path, "%s/within", temporary.path);
    assert_error(&error, smol_json_load_optional(path, JSON_OBJECT, &object, &mark, &error),
                 SMOL_ERROR_FILE, "a.json/within: ");
}

TEST(integers_beyond_64_bits_become_reals)
{
    static const char text[] =
        "{\"size\": 48, \"a 99999999999999999999\": \"\\\\\", \"b\": 99999999999999999999,"
        " \"c\": -9223372036854775808, \"d\": [9223372036854775807,1.5e2,-1E-2]}";
    assert_int_equal(smol_json_parse("a.json", text, strlen(text), &object, &error), SMOL_OK);
    assert_int_equal(json_integer_value(json_object_get(object, "size")), 48);
    assert_string_equal(json_string_value(json_object_get(object, "a 99999999999999999999")), "\\");
    assert_true(json_real_value(json_object_get(object, "b")) == 1e20);
    assert_true(json_integer_value(json_object_get(object, "c")) == INT64_MIN);
    const json_t *list = json_object_get(object, "d");
    assert_true(json_integer_value(json_array_get(list, 0)) == INT64_MAX);
    assert_true(json_real_value(json_array_get(list, 1)) == 150);
    assert_true(json_real_value(json_array_get(list, 2)) == -0.01);
    json_decref(object);
}

int main(void)
{
    return run_all_tests("json", temporary_set_up, temporary_tear_down);
}
