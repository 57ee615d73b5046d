/* smolconv inspect FILE: what is in a file, or what a checkpoint is. */
#include <stddef.h>
#include <stdio.h>

#include "convert/command/command.h"
#include "convert/inspect/inspect.h"
#include "convert/inspect/model_file.h"

struct inspect_options {
    struct source_options source;
    uint32_t n_threads;
    int with_statistics, as_json;
};

#define FIELD(name) offsetof(struct inspect_options, name)

static const struct option_rule rules[] = {
    {"stats", 0, NULL, "statistics of every tensor's elements, and int8's error", OPTION_FLAG,
     FIELD(with_statistics), 0, 0, NULL},
    {"json", 0, NULL, "all of it as one JSON object", OPTION_FLAG, FIELD(as_json), 0, 0, NULL},
    {"threads", 0, "N", "threads for the statistics (one per available processor)", OPTION_COUNT,
     FIELD(n_threads), 1, POOL_MAX_THREADS, NULL},
    {"context", 0, "N", "the memory that N tokens take (all that the model can have)", OPTION_COUNT,
     FIELD(source.context), 1, 1 << 24, NULL},
    RULES_SOURCE,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "inspect FILE",
    .about = "Shows what is in FILE, a .smol blob or a safetensors file; or what a checkpoint is, "
             "before\n"
             "it is converted: FILE is then its folder or model.safetensors.index.json, or, with\n"
             "--config, --lora or --context, the model.safetensors in it.\n",
    .notes =
        "Of a checkpoint: its family and features, tokenizer and chat template, whether it can be\n"
        "converted and if not why (exit status 0 all the same), and the exact size of the blob\n"
        "for each dtype. Memory is that of the blob with its keys and values, for 2,048 and\n"
        "8,192 tokens and the longest text (--context).\n\n"
        "--stats reads all elements: mean, variance, smallest, largest, sum, zeros, outliers\n"
        "(farther than 6 standard deviations from the mean), and of matrices of floats the error\n"
        "that int8 brings: root mean square, largest, signal-to-noise. Of an int8 blob that can\n"
        "only be estimated, from its scales. What is NaN or infinite is counted and left out.\n",
    .min_words = 1,
    .max_words = 1,
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};

smol_status smolconv_inspect(int argc, char **argv, smol_error *error)
{
    struct inspect_options options = {.n_threads = smol_cpu_count()};
    const char *path;
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, &options, &path, &shown, error);
    if (status || shown)
        return status;
    bool asked = options.source.config || options.source.lora.n ||
                 (options.source.context && !smol_model_file_is_blob(path));
    if (options.with_statistics && options.source.lora.n)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--stats: of the files as they are, without an adapter: leave out --lora, "
                         "or convert and inspect the blob");
    struct inspect_request request = {
        .checkpoint = asked || smol_source_is_checkpoint(path) ? &options.source : NULL,
        .context = options.source.context,
        .with_statistics = options.with_statistics,
        .as_json = options.as_json,
        .n_threads = options.n_threads,
    };
    return smol_inspect(path, &request, stdout, error);
}
