/* Command lines. Each command has one table of options, from which its words are parsed (with
 * getopt_long) and its --help is printed. */
#ifndef SMOL_CLI_OPTIONS_H
#define SMOL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* What an option's value is, and the type of its field in the command's settings. */
enum option_kind {
    OPTION_FLAG,   /* int: set to 1; has no value */
    OPTION_COUNT,  /* uint32_t: a whole number within [low, high] */
    OPTION_LIMIT,  /* size_t: a whole number, or -1 for SIZE_MAX */
    OPTION_SEED,   /* uint64_t */
    OPTION_REAL,   /* float within [low, high] */
    OPTION_TEXT,   /* const char * */
    OPTION_TEXTS,  /* struct option_texts: may be repeated */
    OPTION_CHOICE, /* int or enum: the index of the value in `choices`, plus `low` */
};

enum { OPTION_MAX_TEXTS = 64 };
struct option_texts {
    const char *items[OPTION_MAX_TEXTS];
    size_t n;
};

struct option_rule {
    const char *name;  /* after --, or NULL */
    char letter;       /* after -, or 0 */
    const char *value; /* the value's name in the help; NULL: it takes none */
    const char *help;
    enum option_kind kind;
    size_t field; /* offset in the settings */
    double low, high;
    const char *const *choices; /* ends with NULL */
};

/* One command. --help and --version come by themselves. */
struct command_line {
    const char *program;
    const char *words;    /* as in the help: sub-command and arguments, without options */
    const char *about;    /* paragraphs of the help, before the options */
    const char *commands; /* the program's commands, a line each; NULL: this command has a name */
    const char *notes;    /* paragraphs of the help, after the options */
    size_t min_words, max_words; /* arguments that are no options */
    const struct option_rule *rules;
    size_t n_rules;
};

/* Parses argv[1..argc): options into *settings, which holds the defaults, the rest into words
 * (max_words), NULL where there is none. Both may be mixed; `--` ends the options. *shown: --help,
 * --version or, for a command that lists the program's commands, the single word `help` was
 * answered, and nothing is left to do. One call at a time in a process, as getopt has global state.
 * Errors: SMOL_ERROR_USAGE, naming the option. */
smol_status smol_options_parse(const struct command_line *command, int argc, char **argv,
                               void *settings, const char **words, bool *shown, smol_error *error);

/* Whether argv[1], none of the program's commands, is written like one: there is no such file, and
 * a file and more stand behind it. Fills *error with SMOL_ERROR_USAGE then. */
bool smol_options_no_command(const char *program, int argc, char **argv, smol_error *error);

/* For a command without a name of its own, whose first word is `file`: SMOL_ERROR_FILE where there
 * is no such file and, with neither slash nor dot in it, the word may be the name of a command. */
smol_status smol_options_check_file(const struct command_line *command, const char *file,
                                    smol_error *error);

/* Prints the usage and the list of commands on standard error. */
void smol_options_usage(const struct command_line *command);

#endif
