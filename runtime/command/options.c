/* Parsing and --help, see options.h. */
#include "runtime/command/options.h"

#include <float.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/command/number_in.h"
#include "runtime/command/print.h"

/* What getopt_long returns: a letter, or FIRST_LONG + the index of a rule without one. */
enum { WORD = 1, HELP = 'h', FIRST_LONG = 256, VERSION = FIRST_LONG + 1000 };
enum { MAX_RULES = 32, NAME_SIZE = 32 };

/* --- help --------------------------------------------------------------------------------- */

static void name_rule(const struct option_rule *rule, char *name)
{
    if (rule->name)
        snprintf(name, NAME_SIZE, "--%s", rule->name);
    else
        snprintf(name, NAME_SIZE, "-%c", rule->letter);
}

static void print_row(const char *left, const char *help)
{
    printf("  %-18s %s\n", left, help);
}

static void print_rule(const struct option_rule *rule)
{
    char name[NAME_SIZE], left[2 * NAME_SIZE];
    name_rule(rule, name);
    snprintf(left, sizeof left, "%s %s", name, rule->value ? rule->value : "");
    print_row(left, rule->help);
}

static void print_usage(FILE *out, const struct command *command)
{
    fprintf(out, "usage: smolrun %s [OPTION]...\n", command->words);
}

static void print_help(const struct command *command)
{
    print_usage(stdout, command);
    printf("\n%s\n", command->about);
    for (size_t i = 0; i < command->n_rules; i++)
        print_rule(&command->rules[i]);
    print_row("-h, --help", "print this and exit");
    print_row("--version", "print the release and exit");
    printf("\n%s", command->notes);
}

/* --- values ------------------------------------------------------------------------------- */

/* The index of `text` among names (n). */
static smol_status parse_choice(const char *name, const char *text, const char *const *names,
                                size_t n, size_t *choice, smol_error *error)
{
    char list[64] = "";
    for (*choice = 0; *choice < n; ++*choice) {
        if (strcmp(text, names[*choice]) == 0)
            return SMOL_OK;
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "", names[*choice]);
    }
    return smol_command_fail(error, SMOL_ERROR_USAGE, "%s: \"%s\" is not one of %s", name, text,
                             list);
}

static smol_status parse_kv(const char *name, const char *text, smol_kv *kv, smol_error *error)
{
    static const char *const names[] = {"f32", "f16", "int8"};
    size_t choice;
    smol_status status = parse_choice(name, text, names, 3, &choice, error);
    *kv = (smol_kv)(SMOL_KV_F32 + choice);
    return status;
}

static smol_status parse_verify(const char *name, const char *text, smol_verify *verify,
                                smol_error *error)
{
    static const char *const names[] = {"first", "open", "off"};
    size_t choice;
    smol_status status = parse_choice(name, text, names, 3, &choice, error);
    *verify = (smol_verify)(SMOL_VERIFY_FIRST + choice);
    return status;
}

static smol_status parse_count(const char *name, const char *text, const struct option_rule *rule,
                               uint32_t *count, smol_error *error)
{
    uint64_t value = 0;
    smol_status status =
        smol_parse_whole(name, text, (uint64_t)rule->low, (uint64_t)rule->high, &value, error);
    *count = (uint32_t)value;
    return status;
}

static smol_status parse_limit(const char *name, const char *text, size_t *limit, smol_error *error)
{
    uint64_t value = SIZE_MAX;
    smol_status status = SMOL_OK;
    if (strcmp(text, "-1") != 0)
        status = smol_parse_whole(name, text, 0, UINT32_MAX, &value, error);
    *limit = (size_t)value;
    return status;
}

static smol_status add_stop(const char *name, const char *text, struct settings *settings,
                            smol_error *error)
{
    if (settings->n_stop == MAX_STOP)
        return smol_command_fail(error, SMOL_ERROR_USAGE, "%s: more than %d of them", name,
                                 MAX_STOP);
    settings->stop[settings->n_stop++] = text;
    return SMOL_OK;
}

static smol_status set_option(const struct option_rule *rule, const char *name, const char *text,
                              struct settings *settings, smol_error *error)
{
    void *field = (char *)settings + rule->field;
    switch (rule->kind) {
    case OPTION_FLAG:
        *(int *)field = 1;
        return SMOL_OK;
    case OPTION_COUNT:
        return parse_count(name, text, rule, field, error);
    case OPTION_LIMIT:
        return parse_limit(name, text, field, error);
    case OPTION_SEED:
        return smol_parse_whole(name, text, 0, UINT64_MAX, field, error);
    case OPTION_REAL:
        return smol_parse_real(name, text, (float)rule->low, (float)rule->high, field, error);
    case OPTION_TEXT:
        *(const char **)field = text;
        return SMOL_OK;
    case OPTION_STOP:
        return add_stop(name, text, settings, error);
    case OPTION_KV:
        return parse_kv(name, text, field, error);
    case OPTION_VERIFY:
        return parse_verify(name, text, field, error);
    }
    return SMOL_OK;
}

/* --- words -------------------------------------------------------------------------------- */

/* The rules as getopt_long wants them. */
struct getopt_tables {
    char letters[2 * MAX_RULES + 8];
    struct option names[MAX_RULES + 3];
};

static struct getopt_tables make_tables(const struct command *command)
{
    /* "-": words come in their place among the options, as code WORD; ":": a missing value is
     * told from an unknown option. */
    struct getopt_tables tables = {.letters = "-:h"};
    size_t n_letters = strlen(tables.letters), n_names = 0;
    for (size_t i = 0; i < command->n_rules; i++) {
        const struct option_rule *rule = &command->rules[i];
        if (rule->letter) {
            tables.letters[n_letters++] = rule->letter;
            if (rule->value)
                tables.letters[n_letters++] = ':';
        }
        if (rule->name)
            tables.names[n_names++] =
                (struct option){rule->name, rule->value ? required_argument : no_argument, NULL,
                                FIRST_LONG + (int)i};
    }
    tables.names[n_names++] = (struct option){"help", no_argument, NULL, HELP};
    tables.names[n_names++] = (struct option){"version", no_argument, NULL, VERSION};
    return tables;
}

static const struct option_rule *find_rule(const struct command *command, int code)
{
    if (code >= FIRST_LONG && (size_t)(code - FIRST_LONG) < command->n_rules)
        return &command->rules[code - FIRST_LONG];
    for (size_t i = 0; i < command->n_rules; i++)
        if (code && code == command->rules[i].letter)
            return &command->rules[i];
    return NULL;
}

/* getopt_long leaves the code in optopt, or 0 for an unknown long option, the word before. */
static smol_status refuse(const struct command *command, int code, char **argv, smol_error *error)
{
    const struct option_rule *rule = find_rule(command, optopt);
    char name[NAME_SIZE];
    if (rule) {
        name_rule(rule, name);
        return smol_command_fail(error, SMOL_ERROR_USAGE, "%s: %s", name,
                                 code == ':' ? "its value is missing" : "it takes no value");
    }
    if (optopt > 0 && optopt < FIRST_LONG)
        return smol_command_fail(error, SMOL_ERROR_USAGE, "-%c: unknown option", optopt);
    return smol_command_fail(error, SMOL_ERROR_USAGE, "%s: unknown option", argv[optind - 1]);
}

static smol_status add_word(const struct command *command, const char *word,
                            struct settings *settings, smol_error *error)
{
    if (!settings->model)
        settings->model = word;
    else if (command->takes_text && !settings->text)
        settings->text = word;
    else
        return smol_command_fail(error, SMOL_ERROR_USAGE,
                                 "\"%s\" is one argument too many: put quotes around a text", word);
    return SMOL_OK;
}

static smol_status add_option(const struct command *command, int code, char **argv,
                              struct settings *settings, smol_error *error)
{
    if (code == WORD)
        return add_word(command, optarg, settings, error);
    const struct option_rule *rule = find_rule(command, code);
    if (!rule)
        return refuse(command, code, argv, error);
    char name[NAME_SIZE];
    name_rule(rule, name);
    return set_option(rule, name, optarg, settings, error);
}

/* *shown: --help or --version was there and answered; what stands behind it does not matter. */
static smol_status parse(const struct command *command, int argc, char **argv,
                         struct settings *settings, bool *shown, smol_error *error)
{
    struct getopt_tables tables = make_tables(command);
    smol_status status = SMOL_OK;
    int code;
    *shown = false;
    opterr = 0;
    optind = 0; /* start anew, whoever parsed before */
    while (!status && (code = getopt_long(argc, argv, tables.letters, tables.names, NULL)) != -1) {
        if (code == HELP || code == VERSION) {
            *shown = true;
            if (code == HELP)
                print_help(command);
            else
                printf("smolrun %s\n", smol_version());
            return smol_command_flush(error);
        }
        status = add_option(command, code, argv, settings, error);
    }
    while (!status && optind < argc)
        status = add_word(command, argv[optind++], settings, error);
    if (!status && !settings->model)
        status = smol_command_fail(error, SMOL_ERROR_USAGE, "which FILE.smol? see smolrun --help");
    return status;
}

bool smol_options_parse(const struct command *command, int argc, char **argv,
                        struct settings *settings, int *status)
{
    smol_error error;
    bool shown;
    if (argc < 2) {
        print_usage(stderr, command);
        *status = SMOL_ERROR_USAGE;
        return false;
    }
    *status = smol_command_status(parse(command, argc, argv, settings, &shown, &error), &error);
    return !shown && *status == SMOL_OK;
}
