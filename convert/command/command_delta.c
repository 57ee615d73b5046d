/* smolconv delta OLD NEW OUT.smoldelta: writes the changes from one blob to another. */
#include <stddef.h>

#include "convert/command/command.h"
#include "convert/ship/delta.h"

#define FIELD(name) offsetof(struct delta_options, name)

static const struct option_rule rules[] = {
    RULE_THREADS,
    RULE_FORCE("OUT.smoldelta"),
    RULE_QUIET,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "delta OLD.smol NEW.smol OUT.smoldelta",
    .about = "Writes the changes from OLD.smol to NEW.smol: `smolconv patch` makes NEW.smol from\n"
             "OLD.smol and OUT.smoldelta. Both blobs are verified first.\n",
    .notes = "",
    .min_words = 3,
    .max_words = 3,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

smol_status smolconv_delta(int argc, char **argv, smol_error *error)
{
    struct delta_options options = {.n_threads = smol_cpu_count()};
    const char *words[3];
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &options, words, &shown, error);
    return status || shown ? status : smol_delta(words[0], words[1], words[2], &options, error);
}
