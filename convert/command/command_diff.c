/* smolconv diff A B: compares two models. */
#include <stdio.h>

#include "cli/options.h"
#include "convert/command/command.h"
#include "convert/inspect/inspect.h"

static const struct command_line line = {
    .program = "smolconv",
    .words = "diff A B",
    .about = "Compares two models. A and B are each a .smol blob, a safetensors file or a\n"
             "checkpoint's folder, of the same kind or not.\n",
    .notes =
        "It compares hyper-parameters, stop ids and generation defaults, the tokenizer, and each\n"
        "tensor's shape and elements. For a tensor it shows how many elements differ, the largest\n"
        "difference and its place, the mean difference, and, for two blobs, the changed chunks of\n"
        "64 KiB. int8 elements count as the numbers that they stand for; 0 equals -0. With a\n"
        "safetensors file it compares tensors only.\n\n"
        "A blob that was converted with --calibration has other elements than its checkpoint,\n"
        "since factors were moved from one tensor to the next: smolconv verify --source\n"
        "--calibration compares the two.\n\n"
        "Exit status: 0 no difference (the provenances of two blobs may differ, and are shown),\n"
        "1 a difference, 3 and up as for smolconv.\n",
    .min_words = 2,
    .max_words = 2,
};

smol_status smolconv_diff(int argc, char **argv, smol_error *error)
{
    const char *words[2];
    bool shown;
    smol_status status = smol_options_parse(&line, argc, argv, NULL, words, &shown, error);
    return status || shown ? status : smol_diff(words[0], words[1], stdout, error);
}
