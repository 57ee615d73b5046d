/* smolconv report FILE -o PAGE: describes a model in a page for a browser. */
#include <stddef.h>

#include "convert/command/command.h"
#include "convert/inspect/inspect.h"

#define FIELD(name) offsetof(struct report_options, name)

static const struct option_rule rules[] = {
    {"", 'o', "PAGE", "write to PAGE (required)", OPTION_TEXT, FIELD(output), 0, 0, NULL},
    RULE_CONFIG,
    RULE_THREADS,
    RULE_FORCE("PAGE"),
    RULE_QUIET,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "report FILE -o PAGE",
    .about = "Writes a page of HTML that describes FILE: size and memory, histograms of the\n"
             "weights, the error of int8 by layer, statistics of every tensor, settings and\n"
             "provenance. The page has no scripts and loads nothing. FILE is a .smol blob, a\n"
             "safetensors file or a checkpoint's folder.\n",
    .notes = "The page is the same, byte for byte, for any number of threads.\n",
    .min_words = 1,
    .max_words = 1,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

smol_status smolconv_report(int argc, char **argv, smol_error *error)
{
    struct report_options options = {.n_threads = smol_cpu_count()};
    const char *path;
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &options, &path, &shown, error);
    if (status || shown)
        return status;
    if (!options.output)
        return smol_fail(error, SMOL_ERROR_USAGE, "report: no output: name the page with -o PAGE");
    return smol_report(path, &options, error);
}
