/* smolconv patch OLD DELTA NEW: makes a blob from an older one and a delta. */
#include <stddef.h>

#include "convert/command/command.h"
#include "convert/ship/delta.h"

struct patch_options {
    int force;
};

#define FIELD(name) offsetof(struct patch_options, name)

static const struct option_rule rules[] = {
    RULE_FORCE("NEW.smol, which may be OLD.smol"),
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "patch OLD.smol FILE.smoldelta NEW.smol",
    .about = "Makes NEW.smol from OLD.smol and a file that `smolconv delta` wrote (-: standard\n"
             "input). NEW.smol appears only after every byte of it has been checked.\n",
    .notes = "The exit status is 2 if the delta was made for a blob other than OLD.smol.\n",
    .min_words = 3,
    .max_words = 3,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

smol_status smolconv_patch(int argc, char **argv, smol_error *error)
{
    struct patch_options options = {0};
    const char *words[3];
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &options, words, &shown, error);
    return status || shown ? status
                           : smol_patch(words[0], words[1], words[2], options.force, error);
}
