/* Command lines. Each command has one table of options, which drives both the parser (getopt_long)
 * and --help. */
#ifndef SMOL_CLI_OPTIONS_H
#define SMOL_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

/* The kind of an option's value, and the type of its field in the command's settings. */
enum option_kind {
    OPTION_FLAG,   /* int: set to 1; has no value */
    OPTION_COUNT,  /* uint32_t: a whole number within [low, high] */
    OPTION_LIMIT,  /* size_t: a whole number, or -1 for SIZE_MAX */
    OPTION_SEED,   /* uint64_t */
    OPTION_SIZE,   /* uint64_t: bytes from `low`, or a number of kB, MB, GB, KiB, MiB or GiB */
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
    char name[17];  /* after --, or "" */
    char letter;    /* after -, or 0 */
    char value[12]; /* the value's name in the help; "": no value */
    const char *help;
    enum option_kind kind;
    unsigned field; /* offset in the settings */
    double low, high;
    const char *const *choices; /* ends with NULL */
};

/* A row of a table of options, for macros: clang-format puts each field of one in braces on a line
 * of its own there. */
#define OPTION_ROW(...)                                                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* Values of options of several programs. */
extern const char *const smol_kv_words[];      /* in the order of smol_kv */
extern const char *const smol_verify_words[];  /* in the order of smol_verify */
extern const char *const smol_sandbox_words[]; /* in the order of enum sandbox_mode */

/* The number of elements of a table of options. A table that is too long does not compile. */
enum { OPTION_MAX_RULES = 48 };
#define OPTION_RULES(rules)                                                                        \
    (sizeof(rules) / sizeof(rules)[0] +                                                            \
     0 * sizeof(struct {                                                                           \
         _Static_assert(sizeof(rules) / sizeof(rules)[0] <= OPTION_MAX_RULES, "too many options"); \
         int unused;                                                                               \
     }))

/* A command. Each one also has --help and --version. */
struct command_line {
    const char *program;
    const char *words;    /* as in the help: sub-command and arguments, without options */
    const char *about;    /* paragraphs of the help, before the options */
    const char *commands; /* the program's commands, a line each; NULL: this command has a name */
    const char *notes;    /* paragraphs of the help, after the options */
    size_t min_words, max_words; /* arguments that are not options */
    const struct option_rule *rules;
    size_t n_rules;
};

/* Parses argv[1..argc): stores options in *settings, which holds the defaults, and the other words
 * in words (max_words), NULL if missing. Options and words may be mixed; `--` ends the options.
 * *shown is true if --help or --version was answered, or the single word `help` of a command that
 * lists the program's commands: the caller has nothing left to do then. Not for concurrent use,
 * because getopt has global state. Errors: SMOL_ERROR_USAGE, naming the option. */
smol_status smol_options_parse(const struct command_line *command, int argc, char **argv,
                               void *settings, const char **words, bool *shown, smol_error *error);

/* Runs a command, whose words are argv[1..argc); argv[0] is its name. Returns a status, with an
 * error that main prints. */
typedef smol_status command_function(int argc, char **argv, smol_error *error);

struct named_command {
    const char *name; /* NULL: the command without a name, the last of a table */
    command_function *run;
};

/* Runs the command that argv[1] names, or the one without a name. Errors: the command's, and
 * SMOL_ERROR_USAGE if argv[1] looks like a misspelled command: it is not a file, and two more words
 * follow that are not options. */
smol_status smol_options_run(const struct named_command *commands, const char *program, int argc,
                             char **argv, smol_error *error);

/* Checks `file`, the first word of a command without a name. Returns SMOL_ERROR_FILE if it does not
 * exist and looks like a command's name, without a slash or a dot. */
smol_status smol_options_check_file(const struct command_line *command, const char *file,
                                    smol_error *error);

/* Prints the usage and the list of commands to standard error. */
void smol_options_usage(const struct command_line *command);

#endif
