/* smolconv inspect FILE: what is in a file, or what a checkpoint is. */
#include <stddef.h>
#include <stdio.h>

#include "convert/command/command.h"
#include "convert/inspect/inspect.h"

struct inspect_options {
    struct source_options source;
};

#define FIELD(name) offsetof(struct inspect_options, name)

static const struct option_rule rules[] = {
    {"context", 0, "N", "the memory that N tokens take (all that the model can have)", OPTION_COUNT,
     FIELD(source.context), 1, 1 << 24, NULL},
    RULES_SOURCE,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "inspect FILE",
    .about =
        "Shows what is in FILE, a .smol blob or a safetensors file; or what a checkpoint is, "
        "before\n"
        "it is converted: FILE is then its folder or model.safetensors.index.json, or, with one\n"
        "of the options, the model.safetensors in it.\n",
    .notes =
        "Of a checkpoint: its family and features, tokenizer and chat template, whether it can be\n"
        "converted and if not why (exit status 0 all the same), the exact size of the blob for\n"
        "each dtype, and the memory that smolrun needs to hold it with its keys and values.\n",
    .min_words = 1,
    .max_words = 1,
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};

enum status smolconv_inspect(int argc, char **argv, struct error *error)
{
    struct inspect_options options = {.source.context = 0};
    const char *path;
    bool shown;
    enum status status = smol_options_parse(&line, argc, argv, &options, &path, &shown, error);
    if (status || shown)
        return status;
    bool asked = options.source.config || options.source.lora.n || options.source.context;
    if (asked || smol_source_is_checkpoint(path))
        return smol_inspect_checkpoint(path, &options.source, stdout, error);
    return smol_inspect(path, stdout, error);
}
