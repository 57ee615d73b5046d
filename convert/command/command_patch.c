/* smolconv patch OLD DELTA NEW: makes a blob out of an older one and a delta. */
#include <stddef.h>

#include "convert/command/command.h"
#include "convert/ship/patch.h"

struct settings {
    int force;
};

#define FIELD(name) offsetof(struct settings, name)

static const struct option_rule rules[] = {
    RULE_FORCE("NEW.smol, which may be OLD.smol"),
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "patch OLD.smol FILE.smoldelta NEW.smol",
    .about = "Makes NEW.smol out of OLD.smol and what `smolconv delta` wrote (-: standard input).\n"
             "NEW.smol appears only when every byte of it is known to be right.\n",
    .notes = "A delta for another blob than OLD.smol is wrong usage, exit status 2.\n",
    .min_words = 3,
    .max_words = 3,
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};

smol_status smolconv_patch(int argc, char **argv, smol_error *error)
{
    struct settings settings = {0};
    const char *words[3];
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &settings, words, &shown, error);
    return status || shown ? status
                           : smol_patch(words[0], words[1], words[2], settings.force, error);
}
