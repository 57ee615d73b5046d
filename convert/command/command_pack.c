/* smolconv pack FILE.smol OUT.smol.zst: compresses a blob for shipping. */
#include <stddef.h>

#include "convert/command/command.h"
#include "convert/ship/pack.h"

#define FIELD(name) offsetof(struct pack_options, name)

/* Higher levels save a few percent on weights, for ten times the work (docs/packing.md). */
enum { DEFAULT_LEVEL = 9 };

static const struct option_rule rules[] = {
    {"level", 0, "N", "compression level of zstd, 1 (fast) to 22 (small) (9)", OPTION_COUNT,
     FIELD(level), 1, 22, NULL},
    RULE_THREADS,
    RULE_FORCE("OUT.smol.zst"),
    RULE_QUIET,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "pack FILE.smol OUT.smol.zst",
    .about = "Verifies a blob and compresses it for shipping. `smolconv unpack` or `zstd -d`\n"
             "restores it.\n",
    .notes = "",
    .min_words = 2,
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

smol_status smolconv_pack(int argc, char **argv, smol_error *error)
{
    struct pack_options options = {.level = DEFAULT_LEVEL, .n_threads = smol_cpu_count()};
    const char *words[2];
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &options, words, &shown, error);
    return status || shown ? status : smol_pack(words[0], words[1], &options, error);
}
