/* smolconv diff A B: how two models differ. */
#include <stdio.h>

#include "cli/options.h"
#include "convert/command/command.h"
#include "convert/inspect/diff.h"

static const struct command_line line = {
    .program = "smolconv",
    .words = "diff A B",
    .about = "Shows how two models differ. A and B are each a .smol blob, a safetensors file or a\n"
             "checkpoint's folder, of the same kind or not.\n",
    .notes =
        "Compared are hyper-parameters, stop ids and generation defaults, the tokenizer, and of\n"
        "each tensor its shape and numbers: how many differ, the largest difference and where\n"
        "it is, the mean difference, and of two blobs the 64 KiB chunks that changed. int8 is\n"
        "compared by the numbers that it stands for; 0 equals -0. With a safetensors file,\n"
        "tensors only.\n\n"
        "Exit status: 0 the same (the provenances of two blobs may differ, and are shown),\n"
        "1 they differ, 3 and up as for smolconv.\n",
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
