/* smolconv inspect FILE: describes a blob, a safetensors file or a checkpoint. */
#include <stddef.h>
#include <stdio.h>

#include "convert/command/command.h"
#include "convert/inspect/inspect.h"
#include "convert/inspect/model_tensor.h"

struct inspect_options {
    struct source_options source;
    uint32_t n_threads;
    int with_tensors, with_statistics, as_json;
};

#define FIELD(name) offsetof(struct inspect_options, name)

static const struct option_rule rules[] = {
    {"tensors", 0, "", "list the tensors", OPTION_FLAG, FIELD(with_tensors), 0, 0, NULL},
    {"stats", 0, "", "statistics of each tensor's elements, and the error of int8", OPTION_FLAG,
     FIELD(with_statistics), 0, 0, NULL},
    {"json", 0, "", "print one JSON object with everything, tensors included", OPTION_FLAG,
     FIELD(as_json), 0, 0, NULL},
    {"threads", 0, "N", "threads for the statistics (one per available processor)", OPTION_COUNT,
     FIELD(n_threads), 1, POOL_MAX_THREADS, NULL},
    {"context", 0, "N", "memory for N tokens of text (the model's longest text)", OPTION_COUNT,
     FIELD(source.context), 1, 1 << 24, NULL},
    RULES_SOURCE,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "inspect FILE",
    .about = "Describes FILE: a .smol blob, a safetensors file, or a checkpoint before it is\n"
             "converted. A checkpoint is named by its folder, model.safetensors.index.json or\n"
             "GGUF file, or, with --config, --lora or --context, by the model.safetensors in it.\n",
    .notes =
        "For a checkpoint it shows family and features, tokenizer and chat template, whether it\n"
        "can be converted (if not, the reason; the exit status is still 0), and the exact size of\n"
        "the blob for each dtype. Memory is that of the blob and its keys, values and\n"
        "states, for texts of 2,048 and 8,192 tokens and of the longest length (see --context).\n\n"
        "--stats reads all elements and shows their mean, variance, minimum, maximum and sum, the\n"
        "number of zeros and of outliers (more than 6 standard deviations from the mean), and, "
        "for\n"
        "matrices of floats, the error of int8: root mean square, maximum and signal-to-noise\n"
        "ratio. For an int8 blob this error is an estimate from its scales. NaN and infinite\n"
        "elements are counted and left out of the other figures.\n",
    .min_words = 1,
    .max_words = 1,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
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
                         "--stats: cannot be combined with --lora: convert with the adapter, then "
                         "inspect the blob");
    struct inspect_request request = {
        .checkpoint = asked || smol_source_is_checkpoint(path) ? &options.source : NULL,
        .context = options.source.context,
        .with_tensors = options.with_tensors,
        .with_statistics = options.with_statistics,
        .as_json = options.as_json,
        .n_threads = options.n_threads,
    };
    return smol_inspect(path, &request, stdout, error);
}
