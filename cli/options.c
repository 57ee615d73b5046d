/* Command lines, see options.h. */
#include "cli/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/numerals.h"
#include "smol.h"

/* Codes of getopt_long: a letter, or FIRST_LONG + the index of a rule with a long name. */
enum { WORD = 1, HELP = 'h', FIRST_LONG = 256, VERSION = FIRST_LONG + 1000 };
enum { NAME_SIZE = 32 };

const char *const smol_kv_words[] = {"f32", "f16", "int8", "int4", NULL};
const char *const smol_verify_words[] = {"first", "open", "off", NULL};
const char *const smol_sandbox_words[] = {"on", "require", "off", NULL};

/* --- help --------------------------------------------------------------------------------- */

static void name_rule(const struct option_rule *rule, char *name)
{
    if (*rule->name)
        snprintf(name, NAME_SIZE, "--%s", rule->name);
    else
        snprintf(name, NAME_SIZE, "-%c", rule->letter);
}

static void print_row(const char *left, const char *help)
{
    enum { COLUMN = 20 }; /* longer names get a line of their own */
    if (strlen(left) > COLUMN)
        printf("  %s\n  %-*s  %s\n", left, COLUMN, "", help);
    else
        printf("  %-*s  %s\n", COLUMN, left, help);
}

static void print_rule(const struct option_rule *rule)
{
    char name[NAME_SIZE], left[2 * NAME_SIZE];
    name_rule(rule, name);
    snprintf(left, sizeof left, "%s %s", name, rule->value);
    print_row(left, rule->help);
}

static void print_usage(FILE *out, const struct command_line *command)
{
    fprintf(out, "usage: %s %s [OPTION]...\n", command->program, command->words);
}

static void print_overview(FILE *out, const struct command_line *command)
{
    print_usage(out, command);
    if (command->commands)
        fprintf(out, "\n%s\n%s --help and %s COMMAND --help list the options.\n", command->commands,
                command->program, command->program);
}

static void print_help(const struct command_line *command)
{
    print_usage(stdout, command);
    printf("\n%s\n", command->about);
    if (command->commands)
        printf("%s\n", command->commands);
    for (size_t i = 0; i < command->n_rules; i++)
        print_rule(&command->rules[i]);
    print_row("-h, --help", "print this and exit");
    print_row("--version", "print the release and exit");
    printf("\n%s", command->notes);
}

/* --- values ------------------------------------------------------------------------------- */

/* Stores the index of `text` among the rule's choices, plus rule->low, in *choice. */
static smol_status parse_choice(const char *name, const char *text, const struct option_rule *rule,
                                int *choice, smol_error *error)
{
    char list[64] = "";
    for (int i = 0; rule->choices[i]; i++) {
        if (strcmp(text, rule->choices[i]) == 0) {
            *choice = (int)rule->low + i;
            return SMOL_OK;
        }
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", length ? ", " : "", rule->choices[i]);
    }
    return smol_fail(error, SMOL_ERROR_USAGE, "%s: \"%s\" is not one of %s", name, text, list);
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
    if (status)
        smol_fail(error, status, "%s: \"%s\" is not a whole number from 0 to %u, nor -1", name,
                  text, UINT32_MAX);
    *limit = (size_t)value;
    return status;
}

static smol_status add_text(const char *name, const char *text, struct option_texts *texts,
                            smol_error *error)
{
    if (texts->n == OPTION_MAX_TEXTS)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: more than %d of them", name,
                         OPTION_MAX_TEXTS);
    texts->items[texts->n++] = text;
    return SMOL_OK;
}

static smol_status set_option(const struct option_rule *rule, const char *name, const char *text,
                              void *settings, smol_error *error)
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
    case OPTION_SIZE:
        return smol_parse_size(name, text, (uint64_t)rule->low, field, error);
    case OPTION_REAL:
        return smol_parse_real(name, text, (float)rule->low, (float)rule->high, field, error);
    case OPTION_TEXT:
        *(const char **)field = text;
        return SMOL_OK;
    case OPTION_TEXTS:
        return add_text(name, text, field, error);
    case OPTION_CHOICE:
        return parse_choice(name, text, rule, field, error);
    }
    return SMOL_OK;
}

/* --- words -------------------------------------------------------------------------------- */

/* The rules in the form that getopt_long takes. */
struct getopt_tables {
    char letters[2 * OPTION_MAX_RULES + 8];
    struct option names[OPTION_MAX_RULES + 3];
};

static struct getopt_tables make_tables(const struct command_line *command)
{
    /* "-" returns words among the options with the code WORD; ":" distinguishes a missing value
     * from an unknown option. */
    struct getopt_tables tables = {.letters = "-:h"};
    size_t n_letters = strlen(tables.letters), n_names = 0;
    for (size_t i = 0; i < command->n_rules; i++) {
        const struct option_rule *rule = &command->rules[i];
        if (rule->letter) {
            tables.letters[n_letters++] = rule->letter;
            if (*rule->value)
                tables.letters[n_letters++] = ':';
        }
        if (*rule->name)
            tables.names[n_names++] =
                (struct option){rule->name, *rule->value ? required_argument : no_argument, NULL,
                                FIRST_LONG + (int)i};
    }
    tables.names[n_names++] = (struct option){"help", no_argument, NULL, HELP};
    tables.names[n_names++] = (struct option){"version", no_argument, NULL, VERSION};
    return tables;
}

static const struct option_rule *find_rule(const struct command_line *command, int code)
{
    if (code >= FIRST_LONG && (size_t)(code - FIRST_LONG) < command->n_rules)
        return &command->rules[code - FIRST_LONG];
    for (size_t i = 0; i < command->n_rules; i++)
        if (code && code == command->rules[i].letter)
            return &command->rules[i];
    return NULL;
}

/* An option or argument of smol, and the names that llama.cpp has for it. */
static const char *const others[][2] = {
    {"-n", " predict n-predict max-tokens "},
    {"--ctx", " c ctx-size "},
    {"--temp", " temperature "},
    {"--threads", " t "},
    {"--seed", " s "},
    {"--stop", " r reverse-prompt "},
    {"--system", " sys system-prompt "},
    {"--chat", " cnv "},
    {"--slide", " context-shift "},
    {"--sequences", " np parallel "},
    {"--grammar", " grammar-file "},
    {"--json-schema", " j jf json-schema-file "},
    {"--template-arg", " chat-template-kwargs "},
    {"--kv", " ctk cache-type-k "},
    {"--session", " prompt-cache "},
    {"--stats", " perf show-timings "},
    {"FILE.smol", " m model "},
    {"PROMPT", " p prompt "},
};
enum { N_OTHERS = sizeof others / sizeof others[0] };

/* Returns how many characters must be replaced, added or removed to turn a name (n) into `to`. */
static size_t distance(const char *from, size_t n, const char *to)
{
    size_t row[NAME_SIZE], size = strlen(to);
    for (size_t j = 0; j <= size; j++)
        row[j] = j;
    for (size_t i = 0; i < n; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < size; j++) {
            size_t replaced = corner + (from[i] != to[j]);
            corner = row[j + 1];
            size_t other = 1 + (corner < row[j] ? corner : row[j]);
            row[j + 1] = replaced < other ? replaced : other;
        }
    }
    return row[size];
}

/* Finds what the user of an unknown option (n), without its hyphens, may mean. */
static bool guess(const struct command_line *command, const char *option, size_t n, char *meant)
{
    char name[NAME_SIZE];
    const char *known = NULL;
    size_t least = n / 3 + 1; /* more changes make another word */
    snprintf(name, sizeof name, " %.*s ", (int)(n < NAME_SIZE ? n : NAME_SIZE), option);
    for (size_t i = 0; i < N_OTHERS && !known; i++)
        known = strstr(others[i][1], name) ? others[i][0] : NULL;
    if (known && strstr(command->words, known)) {
        snprintf(meant, NAME_SIZE, "%s alone", known);
        return true;
    }
    for (size_t i = 0; i < command->n_rules; i++) {
        name_rule(&command->rules[i], name);
        size_t changes =
            known && strcmp(known, name) == 0 ? 0 : distance(option, n, command->rules[i].name);
        if (changes < least) {
            least = changes;
            memcpy(meant, name, sizeof name);
        }
    }
    return least <= n / 3;
}

#define HINT ": see --help, or put -- before a text that begins with -"

/* Reports an option that getopt_long refused in `word`. optopt is its code, which of a letter
 * beyond ASCII is only the first byte, or 0 for an unknown long option. */
static smol_status refuse(const struct command_line *command, int code, const char *word,
                          smol_error *error)
{
    const struct option_rule *rule = find_rule(command, optopt);
    size_t hyphens = strspn(word, "-"), length = strcspn(word, "=");
    char name[NAME_SIZE];
    if (rule) {
        name_rule(rule, name);
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: %s", name,
                         code == ':' ? "its value is missing" : "it takes no value");
    }
    if (optopt == HELP || optopt == VERSION) /* known, so a value was given */
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: takes no value", word);
    if (length > hyphens && guess(command, word + hyphens, length - hyphens, name))
        return smol_fail(error, SMOL_ERROR_USAGE, "%.*s: unknown option: write %s", (int)length,
                         word, name);
    if (optopt > 0 && optopt < 0x80)
        return smol_fail(error, SMOL_ERROR_USAGE, "-%c: unknown option" HINT, optopt);
    return smol_fail(error, SMOL_ERROR_USAGE, "%s: unknown option" HINT, word);
}

/* The results of parsing the words. */
struct parsed_words {
    void *settings;
    const char **words;
    size_t n_words;
};

static smol_status add_word(const struct command_line *command, const char *word,
                            struct parsed_words *result, smol_error *error)
{
    if (result->n_words == command->max_words)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "\"%s\" is one argument too many: put quotes around a text with spaces",
                         word);
    result->words[result->n_words++] = word;
    return SMOL_OK;
}

/* getopt_long accepts the beginning of a name that no other one has: what it means would change
 * with every new option, and with every release. Refuses it, and `--n` for `-n`. */
static smol_status check_name(const struct command_line *command, const char *name,
                              const char *word, smol_error *error)
{
    size_t length = strcspn(word, "=");
    if (strncmp(word, "--", 2) != 0 || (length == strlen(name) && !memcmp(word, name, length)))
        return SMOL_OK;
    const struct option_rule *rule = length == 3 ? find_rule(command, word[2]) : NULL;
    return smol_fail(error, SMOL_ERROR_USAGE, "%.*s: unknown option: write %.*s", (int)length, word,
                     rule ? 2 : NAME_SIZE, rule ? word + 1 : name);
}

static smol_status add_option(const struct command_line *command, int code, const char *word,
                              struct parsed_words *result, smol_error *error)
{
    if (code == WORD)
        return add_word(command, optarg, result, error);
    const struct option_rule *rule = find_rule(command, code);
    if (!rule)
        return refuse(command, code, word, error);
    char name[NAME_SIZE];
    name_rule(rule, name);
    smol_status status = check_name(command, name, word, error);
    if (status)
        return status;
    return set_option(rule, name, optarg, result->settings, error);
}

/* Returns the next code. musl's getopt_long stops at "-", which is an ordinary word here. */
static int next_code(int argc, char **argv, const struct getopt_tables *tables)
{
    int code = getopt_long(argc, argv, tables->letters, tables->names, NULL);
    bool stopped = code == -1 && optind < argc && strcmp(argv[optind], "-") == 0;
    if (!stopped || strcmp(argv[optind - 1], "--") == 0)
        return code;
    optarg = argv[optind++];
    return WORD;
}

static void show(const struct command_line *command, int code)
{
    if (code == HELP)
        print_help(command);
    else
        printf("%s %s\n", command->program, SMOL_VERSION);
}

smol_status smol_options_parse(const struct command_line *command, int argc, char **argv,
                               void *settings, const char **words, bool *shown, smol_error *error)
{
    struct getopt_tables tables = make_tables(command);
    struct parsed_words result = {settings, words, 0};
    smol_status status = SMOL_OK;
    *shown = false;
    for (size_t i = 0; i < command->max_words; i++)
        words[i] = NULL;
    if (command->commands && argc == 2 && strcmp(argv[1], "help") == 0) {
        print_overview(stdout, command);
        *shown = true;
        return SMOL_OK;
    }
    opterr = 0;
    optind = 0; /* resets getopt after an earlier call */
    while (!status) {
        const char *word = argv[optind ? optind : 1];
        int code = next_code(argc, argv, &tables);
        if (code == -1)
            break;
        const char *name = code == HELP ? "--help" : code == VERSION ? "--version" : NULL;
        if (name) {
            status = check_name(command, name, word, error);
            if (status)
                break;
            show(command, code);
            *shown = true;
            return SMOL_OK;
        }
        status = add_option(command, code, word, &result, error);
    }
    while (!status && optind < argc)
        status = add_word(command, argv[optind++], &result, error);
    if (!status && result.n_words < command->min_words)
        status = smol_fail(error, SMOL_ERROR_USAGE, "a file name is missing (%s): see --help",
                           command->words);
    return status;
}

static bool is_no_file(const char *path)
{
    struct stat info; /* not access(), which the sandbox refuses */
    return stat(path, &info) != 0;
}

static smol_status fail_no_command(const char *program, const char *word, smol_status status,
                                   smol_error *error)
{
    return smol_fail(error, status, "%s: no such file or command: %s --help lists the commands",
                     word, program);
}

smol_status smol_options_run(const struct named_command *commands, const char *program, int argc,
                             char **argv, smol_error *error)
{
    int i = 1;
    for (; commands->name; commands++)
        if (argc > 1 && strcmp(argv[1], commands->name) == 0)
            return commands->run(argc - 1, argv + 1, error);
    while (i < argc && i <= 3 && argv[i][0] != '-')
        i++;
    return i > 3 && is_no_file(argv[1]) ? fail_no_command(program, argv[1], SMOL_ERROR_USAGE, error)
                                        : commands->run(argc, argv, error);
}

smol_status smol_options_check_file(const struct command_line *command, const char *file,
                                    smol_error *error)
{
    bool maybe_command = file[0] && file[0] != '-' && !strpbrk(file, "/.");
    return maybe_command && is_no_file(file)
               ? fail_no_command(command->program, file, SMOL_ERROR_FILE, error)
               : SMOL_OK;
}

void smol_options_usage(const struct command_line *command)
{
    print_overview(stderr, command);
}
