/* Tests of chat templates: the compiler (convert/template), the rules of its code
 * (format/template.c), the machine that runs it (runtime/template) and its caller (runtime/chat.c).
 * tests/oracle/test_template.py compares the text with the reference's. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "convert/template/template_compiler.h"
#include "format/template.h"
#include "runtime/chat.h"
#include "runtime/template/template_value.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

static const struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 9, .tm_hour = 7};

/* A compiled template. */
static struct template_section section;
static struct template_code code;
static const char *reason;
static smol_error error;

static void compile_bytes(const char *source, size_t size)
{
    static const struct template_token tokens[] = {{"bos_token", "<s>"}};
    const struct template_input input = {
        .name = "default", .plain = {"default", source, size}, .tokens = tokens, .n_tokens = 1};
    assert_int_equal(smol_template_compile(&input, &section, &reason, &error), SMOL_OK);
    assert_int_equal(smol_template_open(section.data, section.size, &code, &error), SMOL_OK);
}

static void compile(const char *source)
{
    compile_bytes(source, strlen(source));
}

static void forget(void)
{
    free(section.data);
    section = (struct template_section){0};
}

static smol_chat_text run(const char *messages, smol_status expected)
{
    const smol_chat_params params = {.messages_json = messages, .now = &now};
    smol_chat_text text;
    assert_null(reason);
    assert_int_equal(smol_chat_run(&code, &params, &text, &error), expected);
    return text;
}

static const char one[] = "[{\"role\": \"user\", \"content\": \"hi <s>\"}]";

static void gives(const char *source, const char *expected)
{
    compile(source);
    smol_chat_text text = run(one, SMOL_OK);
    assert_string_equal(text.text, expected);
    assert_int_equal(text.size, strlen(expected));
    smol_chat_text_free(&text);
    forget();
}

static void refuses(const char *source, smol_status status, const char *words)
{
    compile(source);
    smol_chat_text text = run(one, status);
    assert_null(text.text);
    if (!strstr(error.message, words))
        fail_msg("%s: %s", source, error.message);
    forget();
}

/* Returns the marks as a text: a for bytes from the conversation, t for the template's. */
static void marked(const char *source, const char *expected, const char *marks)
{
    compile(source);
    smol_chat_text text = run(one, SMOL_OK);
    assert_string_equal(text.text, expected);
    assert_int_equal(strlen(marks), text.size);
    for (size_t i = 0; i < text.size; i++)
        assert_int_equal(text.from_conversation[i], marks[i] == 'a');
    smol_chat_text_free(&text);
    forget();
}

/* --- compiling -------------------------------------------------------------------------------- */

TEST(what_is_not_supported_is_named_with_its_place)
{
    static const struct {
        const char *source, *reason;
    } cases[] = {
        {"a\n{{ x | groupby }}", "line 2, column 8: the filter \"groupby\" is not supported"},
        {"{{ x is sameas y }}", "line 1, column 9: the test \"sameas\" is not supported"},
        {"{% include 'x' %}", "line 1, column 4: the tag \"include\" is not supported"},
        {"\xc3\xa9{{ 'x }}", "line 1, column 5: a string without an end"},
        {"{{ f(**x) }}", "line 1, column 6: ** before an argument is not supported"},
        {"{{ x | f(*y) }}", "line 1, column 8: the filter \"f\" is not supported"},
        {"{{ x | trim(*y) }}", "line 1, column 13: * before an argument of a filter or test is not "
                               "supported"},
        {"{{ x | map('nope') }}", "line 1, column 12: the filter \"nope\" is not supported"},
        {"{{ x.__class__ }}",
         "line 1, column 5: an attribute that starts with __ is not supported"},
        {"{% for x in y recursive %}{% endfor %}", "line 1, column 15: the loop's word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        compile(cases[i].source);
        assert_non_null(reason);
        if (strncmp(reason, cases[i].reason, strlen(cases[i].reason)) != 0)
            fail_msg("%s: %s", cases[i].source, reason);
        assert_int_equal(code.header.n_functions, 0);
        forget();
    }
}

TEST(the_end_of_a_template_may_come_anywhere)
{
    static const char source[] = "a{%- for m in messages if m.role == 'user' -%}{{ m['content'] | "
                                 "default('x\\n') }}{# c #}{% endfor %}{% raw %}{{{% endraw %}b";
    for (size_t size = 0; size < sizeof source; size++) {
        compile_bytes(source, size);
        forget();
    }
}

/* Takes minutes if computing a position takes time proportional to its distance from the start of
 * the line. */
TEST(a_template_may_be_one_long_line)
{
    enum { N = 200000, EACH = 5 };
    char *source = malloc(N * EACH);
    assert_non_null(source);
    for (size_t i = 0; i < N; i++)
        memcpy(source + i * EACH, "{{1}}", EACH);
    compile_bytes(source, (size_t)N * EACH);
    assert_null(reason);
    assert_int_equal(code.header.n_operations, 2 * N + 1);
    forget();
    free(source);
}

/* Takes minutes if each name is compared with all others. */
TEST(variables_are_limited)
{
    static const char *const parts[] = {"{{n%06d}}", "{%% set n%06d=1 %%}",
                                        "{%% for n%06d in x %%}{%% endfor %%}"};
    const size_t most = TEMPLATE_MAX_SOURCE / (few_samples() ? 8 : 1);
    char *source = malloc(most);
    assert_non_null(source);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t size = 0;
        for (int n = 0; size < most - 64; n++)
            size += (size_t)sprintf(source + size, parts[i], n);
        compile_bytes(source, size);
        assert_non_null(
            strstr(reason, i == 2 ? "variables" : "more variables than 1024 are not supported"));
        forget();
    }
    free(source);
}

TEST(bytes_that_are_no_text_are_named)
{
    compile_bytes("a{{1}}\0b", 8);
    assert_string_equal(reason, "a NUL is not supported (byte 6)");
    forget();
    compile_bytes("a\xff\0", 3);
    assert_string_equal(reason, "not UTF-8 (byte 1)");
    forget();
}

TEST(nesting_is_limited)
{
    static char source[1 << 16];
    static const char *const parts[] = {"(",          "[",    "not ", "-",
                                        "{% if 1 %}", "1 + ", "a.",   "x | trim("};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        strcpy(source, parts[i][0] == '{' ? "" : "{{ ");
        for (int n = 0; n < 5000; n++)
            strcat(source + (size_t)n * strlen(parts[i]), parts[i]);
        compile(source);
        assert_non_null(reason);
        forget();
    }
}

/* --- the rules of the code -------------------------------------------------------------------- */

/* For any change of a byte, the code is refused or runs within bounds. */
TEST(every_changed_byte_is_refused_or_harmless)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    compile("{% macro f(a, b='x') %}{{ a ~ b }}{% endmacro %}{% for m in messages if m.role %}"
            "{{ f(m.content, loop.index) | upper }}{% set x = m if loop.last else 1 %}{% else %}"
            "{% endfor %}{% set y %}t{% endset %}{{ y and [1, 2][::-1] or {'a': 1}.a }}");
    size_t refused = 0;
    uint8_t *copy = malloc(section.size);
    assert_non_null(copy);
    const size_t stride = few_samples() ? 11 : 1;
    for (size_t i = 0; i < section.size * 3; i += stride) {
        struct template_code changed;
        smol_chat_text text = {0};
        const smol_chat_params params = {.messages_json = one, .now = &now};
        memcpy(copy, section.data, section.size);
        copy[i / 3] ^= flips[i % 3];
        if (smol_template_open(copy, section.size, &changed, &error))
            refused++;
        else if (changed.header.n_functions > 0)
            smol_chat_run(&changed, &params, &text, &error);
        smol_chat_text_free(&text);
    }
    assert_true(refused > section.size / stride);
    for (size_t size = 0; size < section.size; size += stride)
        assert_int_equal(smol_template_open(section.data, size, &code, &error), SMOL_ERROR_DAMAGED);
    free(copy);
    forget();
}

/* --- running ---------------------------------------------------------------------------------- */

TEST(templates_give_text)
{
    gives("", "");
    gives("{{ bos_token }}{{ messages[0].content }}", "<s>hi <s>");
    gives("{{ strftime_now('%d %b %Y, %A') }}", "09 Nov 2026, Monday");
    gives("{% for x in [1, 2] %}{{ loop.index }}{{ x }}{% endfor %}", "1122");
    gives("{{ messages }}", "[{'role': 'user', 'content': 'hi <s>'}]");
}

TEST(bytes_know_who_wrote_them)
{
    marked("<{{ messages[0].content }}>", "<hi <s>>", "taaaaaat");
    marked("{{ '<' + messages[0].content.upper() ~ '>' }}", "<HI <S>>", "taaaaaat");
    marked("{{ (' <' ~ messages[0].content ~ '> ') | trim }}", "<hi <s>>", "taaaaaat");
    marked("{{ ('&' | safe) + messages[0].content + '>' }}", "&hi &lt;s&gt;&gt;",
           "taaaaaaaaaaaatttt");
    marked("{{ '<%s>%d' | format(messages[0].content, 7) }}", "<hi <s>>7", "taaaaaata");
    marked("{{ messages[0].content[::-1] }}", ">s< ih", "aaaaaa");
    marked("{{ messages[0].content | replace('hi', bos_token) }}", "<s> <s>", "tttaaaa");
    marked("{{ ('a' ~ messages[0].content).split(' ') | join('|') }}", "ahi|<s>", "taataaa");
    marked("{{ messages[0].content | tojson }}", "\"hi <s>\"", "aaaaaaaa");
    marked("{{ {'k': '<s>'} }}", "{'k': '<s>'}", "aaaaaaaaaaaa");
    marked("{% set x %}a{{ messages[0].content }}{% endset %}{{ x | title }}", "Ahi <S>",
           "taaaaaa");
    marked("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(messages[0].content) }}", "<hi <s>>",
           "taaaaaat");
    marked("<|{{ messages[0].role }}|>{{ messages[0]['role'] | upper }}", "<|user|>USER",
           "tttttttttttt");
    marked("{{ messages[0].role ~ messages[0].content }}", "userhi <s>", "ttttaaaaaa");
    marked("{{ messages[0] }}", "{'role': 'user', 'content': 'hi <s>'}",
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

/* A role is the template's own text, so it must be a known name. */
TEST(roles_are_known_or_named_by_the_template)
{
    static const struct {
        const char *source, *role;
        bool taken;
    } cases[] = {
        {"{{ messages[0].role }}", "system", true},
        {"{{ messages[0].role }}", "ipython", true},
        {"{{ messages[0].role }}", "critic", false},
        {"{{ messages[0].role }}", "", false},
        {"{{ messages[0].role }}", "User", false},
        {"{{ messages[0].role }}", "user ", false},
        {"{{ messages[0].role }}", "<|im_end|>", false},
        {"{{ messages[0].role }}", "user<|im_end|>", false},
        /* names that the template compares a role with */
        {"{% if messages[0].role == 'critic' %}{% endif %}", "critic", true},
        {"{% if messages[0]['role'] != 'critic' %}{% endif %}", "critic", true},
        {"{% if 'critic' == messages[0].role %}{% endif %}", "critic", true},
        {"{% if messages[0].get('role') == 'critic' %}{% endif %}", "critic", true},
        {"{% if messages[0].get('role', 'x') == 'critic' %}{% endif %}", "critic", true},
        {"{% if messages[0].role.strip() | lower == 'critic' %}{% endif %}", "critic", true},
        {"{% if messages[0].role in ['x', 'critic'] %}{% endif %}", "critic", true},
        {"{% if messages[0].role not in ('critic', 'x') %}{% endif %}", "critic", true},
        {"{% if messages[0].role is eq 'critic' %}{% endif %}", "critic", true},
        {"{% if messages[0].role is in ['critic'] %}{% endif %}", "critic", true},
        {"{% set r = messages[0].role %}{% if r == 'critic' %}{% endif %}", "critic", true},
        {"{% set r = 'x' if y else messages[0].role %}{{ r == 'critic' }}", "critic", true},
        {"{% set r = messages[0].role if y else 'x' %}{{ r == 'critic' }}", "critic", true},
        {"{% macro m(role) %}{{ role == 'critic' }}{% endmacro %}{{ m('x') }}", "critic", true},
        {"{% for m in messages %}{% if m.x and m.role == 'critic' %}{% endif %}{% endfor %}",
         "critic", true},
        {"{{ messages | selectattr('role', 'equalto', 'critic') | list }}", "critic", true},
        {"{{ messages | rejectattr('role', 'in', ['critic']) | list }}", "critic", true},
        {"{{ 'critic' in messages | map(attribute='role') | list }}", "critic", true},
        /* names that it writes, or compares with something else, are not known */
        {"critic{{ 'critic' }}{{ messages[0].role == 'x' }}", "critic", false},
        {"{% if messages[0].content == 'critic' %}{% endif %}", "critic", false},
        {"{% if messages[0].content[0].type == 'critic' %}{% endif %}", "critic", false},
        {"{% set r = messages[0].content %}{% if r == 'critic' %}{% endif %}", "critic", false},
        {"{{ messages | selectattr('name', 'equalto', 'critic') | list }}", "critic", false},
        {"{{ messages[0].critic }}{{ messages[0]['critic'] }}{{ {'critic': 1} }}", "critic", false},
        {"{{ messages[0].content[0] == 'critic' }}{{ messages[0].role }}", "critic", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[256];
        snprintf(json, sizeof json, "[{\"role\": \"%s\", \"content\": \"hi\"}]", cases[i].role);
        compile(cases[i].source);
        const smol_chat_params params = {.messages_json = json, .now = &now};
        const smol_chat_message plain = {cases[i].role, "hi", 2};
        const smol_chat_params again = {.messages = &plain, .n_messages = 1, .now = &now};
        smol_chat_text text;
        smol_status status = smol_chat_run(&code, &params, &text, &error);
        if (!cases[i].taken && status == SMOL_ERROR_USAGE)
            assert_non_null(strstr(error.message, "unknown role \""));
        if (cases[i].taken ? status != SMOL_OK && strstr(error.message, "role \"")
                           : status != SMOL_ERROR_USAGE)
            fail_msg("%s: role %s: %d %s", cases[i].source, cases[i].role, status, error.message);
        smol_chat_text_free(&text);
        assert_int_equal(smol_chat_run(&code, &again, &text, &error), status);
        smol_chat_text_free(&text);
        forget();
    }
}

TEST(a_text_is_one_part_where_a_template_reads_parts_only)
{
    gives("{% for m in messages %}{{ m.role | capitalize }}:{% for p in m['content'] %}"
          "{% if p['type'] == 'text' %}{{ p['text'] }}{% endif %}{% endfor %}{% endfor %}",
          "User:hi <s>");
    gives("{% for p in messages[0].content | selectattr('type', 'equalto', 'text') %}"
          "{{ p['text'] + ' ' }}{% endfor %}",
          "hi <s> ");
    gives("{{ messages[0].content is string }}", "True");
    gives("{{ messages[0].content }}{{ messages[0].content is string }}", "hi <s>True");
    compile("<{{ messages[0].content | trim }}>");
    smol_chat_text text = run("[{\"role\": \"user\", \"content\": \" \"}]", SMOL_OK);
    assert_string_equal(text.text, "<>");
    smol_chat_text_free(&text);
    forget();
}

TEST(roles_that_are_no_strings_are_refused)
{
    static const char *const roles[] = {"1", "true", "[\"user\"]", "{\"user\": 1}"};
    compile("{{ messages[0].role }}");
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        char json[256];
        snprintf(json, sizeof json, "[{\"role\": \"user\"}, {\"role\": %s}]", roles[i]);
        const smol_chat_params params = {.messages_json = json, .now = &now};
        smol_chat_text text;
        assert_int_equal(smol_chat_run(&code, &params, &text, &error), SMOL_ERROR_USAGE);
        assert_string_equal(error.message, "messages: the role of message 2 must be a string");
    }
    forget();
}

TEST(what_python_refuses_is_refused)
{
    refuses("{{ raise_exception('no ' ~ 1) }}", SMOL_ERROR_USAGE, "line 1: no 1");
    refuses("\n\n{{ nope.x }}", SMOL_ERROR_USAGE,
            "line 3: an attribute of 'nope', which is undefined");
    refuses("{{ 1 + 'a' }}", SMOL_ERROR_USAGE, "cannot add");
    refuses("{{ 'a'.encode() }}", SMOL_ERROR_UNSUPPORTED, "encode of a str is not supported");
    refuses("{{ 9223372036854775807 + 1 }}", SMOL_ERROR_UNSUPPORTED, "beyond 64 bits");
}

TEST(calls_and_nesting_are_limited)
{
    refuses("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", SMOL_ERROR_UNSUPPORTED,
            "too deeply");
    refuses("{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x] %}"
            "{% endfor %}{{ ns.x }}",
            SMOL_ERROR_UNSUPPORTED, "nested ");
    refuses("{{ 'a' * 999999999 }}", SMOL_ERROR_UNSUPPORTED, "more than");
}

/* Limits that a template exceeds on its own are not blamed on the conversation. */
TEST(steps_and_memory_are_limited_and_what_exceeds_a_limit_is_blamed)
{
#define ALONE "the template does so even for an empty message: convert with"
    static const char shorter[] = "pass fewer or shorter messages";
    refuses("{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
            SMOL_ERROR_UNSUPPORTED, " steps: " ALONE);
    refuses("{% set ns = namespace(x='0123456789') %}{% for i in range(99) %}{% set ns.x = ns.x ~ "
            "ns.x %}{% endfor %}",
            SMOL_ERROR_UNSUPPORTED, " MiB of memory: " ALONE);
#undef ALONE
    refuses("{% set r = range(9999) %}{% if messages[0].content %}{% for a in r %}{% for b in r %}"
            "{% endfor %}{% endfor %}{% endif %}",
            SMOL_ERROR_UNSUPPORTED, shorter);
    refuses("{{ (messages[0].content * 99999) | length }}{{ messages[0].content * 19999999 }}",
            SMOL_ERROR_UNSUPPORTED, shorter);
}

/* --- arguments -------------------------------------------------------------------------------- */

TEST(conversations_are_checked)
{
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"", "not valid JSON"},
        {"[", "not valid JSON"},
        {"[]", "at least one"},
        {"{}", "a list of objects"},
        {"[1]", "a list of objects"},
        {"[{\"role\": }]", "expected a value (byte 10)"},
        {"[{\"a\": \"\\ud800\"}]", "surrogate"},
        {"[{\"a\": \"\\x\"}]", "unknown escape"},
        {"[{\"a\": \"\xff\"}]", "UTF-8"},
        {"[{\"a\": 01}]", "not a number (byte 8)"},
        {"[{\"a\": tru}]", "expected a value"},
        {"[{\"a\": 1}] x", "text after the end"},
        {"[{\"a\": \"\n\"}]", "control character"},
        {"[{\"a\": 99999999999999999999}]",
         "messages: an integer beyond 64 bits with its sign is not supported (byte 7)"},
        {"[{\"a\": 1e999}]",
         "messages: a number beyond a double's range is not supported (byte 7)"},
    };
    compile("{{ messages }}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const smol_chat_params params = {.messages_json = cases[i].json, .now = &now};
        smol_chat_text text;
        assert_int_not_equal(smol_chat_run(&code, &params, &text, &error), SMOL_OK);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: %s", cases[i].json, error.message);
    }
    forget();
}

TEST(json_is_read_as_it_is_written)
{
    compile("{{ messages[0] | tojson }}");
    smol_chat_text text =
        run(" [ {\"a\" : \"\\u00e9\\ud83d\\ude42\\n\\/\", \"b\": [ -0, -1.5e3, true, null ], "
            "\"a\": \"last\", \"c\": {} } ] ",
            SMOL_OK);
    assert_string_equal(text.text, "{\"a\": \"last\", \"b\": [0, -1500.0, true, null], \"c\": {}}");
    smol_chat_text_free(&text);
    forget();
}

TEST(deep_json_is_refused)
{
    static char json[100000];
    compile("{{ messages }}");
    memset(json, '[', sizeof json - 1);
    const smol_chat_params params = {.messages_json = json, .now = &now};
    smol_chat_text text;
    assert_int_equal(smol_chat_run(&code, &params, &text, &error), SMOL_ERROR_UNSUPPORTED);
    forget();
}

TEST(plain_messages_are_the_same_as_json)
{
    static const smol_chat_message messages[] = {{"user", "a\xff\0b", 4}};
    const smol_chat_params params = {.messages = messages, .n_messages = 1, .now = &now};
    smol_chat_text text;
    compile("{{ messages[0].role }}:{{ messages[0].content | length }}:{{ tools is none }}");
    assert_int_equal(smol_chat_run(&code, &params, &text, &error), SMOL_OK);
    assert_string_equal(text.text, "user:4:True");
    smol_chat_text_free(&text);
    forget();
}

/* The undefined behaviour sanitizer reports any use of NULL here. */
TEST(an_empty_message_may_be_at_null)
{
    static const smol_chat_message messages[] = {{"user", NULL, 0}};
    const smol_chat_params params = {.messages = messages, .n_messages = 1, .now = &now};
    smol_chat_text text;
    compile("<{{ messages[0].content }}{{ messages[0].content | trim }}>");
    assert_int_equal(smol_chat_run(&code, &params, &text, &error), SMOL_OK);
    assert_string_equal(text.text, "<>");
    smol_chat_text_free(&text);
    forget();
}

/* Numbers are read, computed and written as in the reference, in any rounding mode of the
 * caller. */
TEST(the_caller_s_rounding_mode_does_not_matter)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    compile("{{ messages[0].x }} {{ messages[0].x / 7 }} {{ 0.1 + 0.2 }} {{ 1 / 3 }}");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        fesetround(modes[i]);
        smol_chat_text text = run("[{\"x\": 0.3}]", SMOL_OK);
        assert_int_equal(fegetround(), modes[i]);
        fesetround(FE_TONEAREST);
        assert_string_equal(text.text,
                            "0.3 0.04285714285714286 0.30000000000000004 0.3333333333333333");
        smol_chat_text_free(&text);
    }
    forget();
}

int main(void)
{
    return run_all_tests("template", NULL, NULL);
}
