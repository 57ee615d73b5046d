/* smolconv unpack FILE.smol.zst OUT.smol: restores a packed blob while it arrives. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "convert/command/command.h"
#include "convert/ship/pack.h"

#define FIELD(name) offsetof(struct unpack_options, name)

static const struct option_rule rules[] = {
    {"resume", 0, "", "keep an unfinished output as OUT.smol.part, and resume it", OPTION_FLAG,
     FIELD(resume), 0, 0, NULL},
    RULE_THREADS,
    RULE_FORCE("OUT.smol"),
    RULE_QUIET,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "unpack FILE.smol.zst OUT.smol",
    .about = "Restores a blob that `smolconv pack` compressed, and checks it as it arrives.\n"
             "FILE.smol.zst is a file, a pipe, or - for standard input.\n",
    .notes =
        "With --resume, if the input ends early, standard output gets the byte of FILE.smol.zst\n"
        "from which to continue:\n"
        "  curl URL | smolconv unpack --resume - OUT.smol\n"
        "  curl -r BYTE- URL | smolconv unpack --resume - OUT.smol\n"
        "  smolconv unpack --resume - OUT.smol </dev/null     prints it again\n",
    .min_words = 2,
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

smol_status smolconv_unpack(int argc, char **argv, smol_error *error)
{
    struct unpack_options options = {.n_threads = smol_cpu_count()};
    struct unpack_rest rest;
    const char *words[2];
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &options, words, &shown, error);
    if (status || shown)
        return status;
    status = smol_unpack(words[0], words[1], &options, &rest, error);
    if (rest.is_known)
        printf("%" PRIu64 "\n", rest.position);
    return status;
}
