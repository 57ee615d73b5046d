/* smolconv delta OLD NEW OUT.smoldelta: what makes one blob out of another. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "common/options.h"
#include "common/pool.h"
#include "convert/command/command.h"
#include "convert/delta.h"

#define FIELD(name) offsetof(struct delta_options, name)

static const struct option_rule rules[] = {
    {"threads", 0, "N", "threads (one per available processor)", OPTION_COUNT, FIELD(n_threads), 1,
     POOL_MAX_THREADS, NULL},
    {"force", 0, NULL, "overwrite OUT.smoldelta", OPTION_FLAG, FIELD(force), 0, 0, NULL},
    {"quiet", 0, NULL, "no progress bar, no summary", OPTION_FLAG, FIELD(quiet), 0, 0, NULL},
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "delta OLD.smol NEW.smol OUT.smoldelta",
    .about = "Writes what NEW.smol has that OLD.smol has not: `smolconv patch` makes NEW.smol out\n"
             "of OLD.smol and OUT.smoldelta. Both blobs are verified first.\n",
    .notes = "",
    .min_words = 3,
    .max_words = 3,
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};

enum status smolconv_delta(int argc, char **argv, struct error *error)
{
    struct delta_options options = {.n_threads = smol_cpu_count()};
    struct delta_sizes sizes;
    const char *words[3];
    bool shown;
    enum status status = smol_options_parse(&line, argc, argv, &options, words, &shown, error);
    if (status || shown)
        return status;
    status = smol_delta(words[0], words[1], words[2], &options, &sizes, error);
    if (!status && !options.quiet)
        fprintf(stderr, "smolconv: %" PRIu64 " bytes, for a blob of %" PRIu64 "\n", sizes.delta,
                sizes.new_blob);
    return status;
}
