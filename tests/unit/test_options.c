/* Tests of command lines: which values parse, and to what. tests/oracle/test_cli_run.py tests
 * refusals from outside; this file tests only numbers, which have many edge cases. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "cli/numerals.h"
#include "smolrun/settings.h"
#include "tests/unit/unit.h"

static const char *const verify_words[] = {"first", "open", "off", NULL};

static const struct option_rule rules[] = {
    {"", 'n', "N", "", OPTION_LIMIT, FIELD(max_tokens), 0, 0, NULL},
    {"temp", 0, "T", "", OPTION_REAL, FIELD(sampler.temperature), 0, FLT_MAX, NULL},
    {"top-k", 'k', "K", "", OPTION_COUNT, FIELD(sampler.top_k), 0, UINT32_MAX, NULL},
    {"seed", 0, "S", "", OPTION_SEED, FIELD(sampler.seed), 0, 0, NULL},
    {"stop", 0, "STRING", "", OPTION_TEXTS, FIELD(stop), 0, 0, NULL},
    {"ids", 'i', "", "", OPTION_FLAG, FIELD(ids), 0, 0, NULL},
    {"verify", 0, "WHEN", "", OPTION_CHOICE, FIELD(open.verify), 0, 0, verify_words},
    RULE_THREADS,
    RULE_KV,
    RULE_JSON,
};

static const struct command_line command = {
    .program = "test",
    .words = "FILE TEXT",
    .about = "",
    .notes = "",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* Parses words separated by single spaces; the settings point into `line`. */
static struct settings parse(char *line)
{
    char *words[16] = {"smolrun"};
    const char *found[2];
    int n = 1;
    bool shown;
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        words[n++] = word;
    struct settings settings = {0};
    smol_status status = smol_options_parse(&command, n, words, &settings, found, &shown, NULL);
    assert_int_equal(status, SMOL_OK);
    assert_false(shown);
    settings.model = found[0];
    settings.text = found[1];
    return settings;
}

TEST(options_may_stand_anywhere)
{
    char line[] = "-n 5 file --temp 0.5 text --ids";
    struct settings s = parse(line);
    assert_string_equal(s.model, "file");
    assert_string_equal(s.text, "text");
    assert_int_equal(s.max_tokens, 5);
    assert_true(s.sampler.temperature == 0.5f);
    assert_int_equal(s.ids, 1);
    assert_int_equal(s.json, 0);
}

TEST(values_may_be_joined_to_their_options)
{
    char line[] = "file --temp=0.25 -n-1 -ik7 --seed=18446744073709551615";
    struct settings s = parse(line);
    assert_true(s.sampler.temperature == 0.25f);
    assert_int_equal(s.max_tokens, SIZE_MAX);
    assert_int_equal(s.ids, 1);
    assert_int_equal(s.sampler.top_k, 7);
    assert_true(s.sampler.seed == UINT64_MAX);
}

TEST(two_dashes_end_the_options)
{
    char line[] = "--ids -- file --json";
    struct settings s = parse(line);
    assert_string_equal(s.model, "file");
    assert_string_equal(s.text, "--json");
    assert_int_equal(s.json, 0);
}

TEST(a_dash_is_a_word)
{
    char line[] = "file - -n 3";
    struct settings s = parse(line);
    assert_string_equal(s.text, "-");
    assert_int_equal(s.max_tokens, 3);
}

TEST(stop_strings_add_up)
{
    char line[] = "file --stop a --stop -b";
    struct settings s = parse(line);
    assert_int_equal(s.stop.n, 2);
    assert_string_equal(s.stop.items[0], "a");
    assert_string_equal(s.stop.items[1], "-b");
}

TEST(choices_have_names)
{
    char line[] = "file --kv int8 --verify open --threads 3";
    struct settings s = parse(line);
    assert_int_equal(s.context.kv, SMOL_KV_INT8);
    assert_int_equal(s.open.verify, SMOL_VERIFY_OPEN);
    assert_int_equal(s.context.n_threads, 3);
}

TEST(the_environment_does_not_change_the_order)
{
    setenv("POSIXLY_CORRECT", "1", 1);
    char line[] = "file text --ids";
    assert_int_equal(parse(line).ids, 1);
    unsetenv("POSIXLY_CORRECT");
}

TEST(whole_numbers_are_digits_within_their_range)
{
    static const char *const good[] = {"1", "007", "10"};
    static const char *const bad[] = {
        "",    "0",   "11",  "-1",  "+1", " 1",       "1 ",
        "1.0", "0x1", "1e1", "ten", "1k", "\xd9\xa1", "18446744073709551617"};
    uint64_t value;
    smol_error error;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(smol_parse_whole("-n", good[i], 1, 10, &value, &error), SMOL_OK);
        assert_int_equal(value, atoi(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(smol_parse_whole("-n", bad[i], 1, 10, &value, &error), SMOL_ERROR_USAGE);
    assert_int_equal(smol_parse_whole("-n", "x", 1, 10, &value, &error), SMOL_ERROR_USAGE);
    assert_string_equal(error.message, "-n: \"x\" is not a whole number from 1 to 10");
    assert_int_equal(smol_parse_whole("-n", "18446744073709551615", 0, UINT64_MAX, &value, &error),
                     SMOL_OK);
    assert_true(value == UINT64_MAX);
}

TEST(reals_are_decimal_and_within_their_range)
{
    static const char *const good[] = {"0", "1", "0.5", ".5", "5e-1", "+1", "1.", "-0"};
    static const char *const bad[] = {"",  "1.1", "-0.1", "nan", "inf", "0x1",  "0,5", " 1",
                                      ".", "1e",  "1f",   "e",   "-",   "1e99", "1 ",  "0.5.5"};
    float value;
    smol_error error;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(smol_parse_real("--top-p", good[i], 0, 1, &value, &error), SMOL_OK);
        assert_true(value == (float)atof(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(smol_parse_real("--top-p", bad[i], 0, 1, &value, &error),
                         SMOL_ERROR_USAGE);
}

TEST(messages_about_reals_say_what_is_wrong_and_what_would_be_right)
{
    float value;
    smol_error error;
    smol_parse_real("--temp", "x", 0, FLT_MAX, &value, &error);
    assert_string_equal(error.message, "--temp: \"x\" is not a number: give one of at least 0");
    smol_parse_real("--top-p", "1.5", 0, 1, &value, &error);
    assert_string_equal(error.message, "--top-p: \"1.5\" is out of range: give one from 0 to 1");
    smol_parse_real("--repeat-penalty", "0", FLT_MIN, FLT_MAX, &value, &error);
    assert_string_equal(error.message, "--repeat-penalty: \"0\" is out of range: give one above 0");
}

int main(void)
{
    return run_all_tests("options", NULL, NULL);
}
