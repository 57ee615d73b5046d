/* smolconv: runs a sub-command. If the first word is not a sub-command, it is a checkpoint to
 * convert. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "common/mapping.h"
#include "convert/command/command.h"

static const struct {
    const char *name;
    smolconv_command *run;
} commands[] = {
    {"inspect", smolconv_inspect}, {"diff", smolconv_diff},     {"verify", smolconv_verify},
    {"pack", smolconv_pack},       {"unpack", smolconv_unpack}, {"delta", smolconv_delta},
    {"patch", smolconv_patch},     {"report", smolconv_report},
};

static smol_status run(int argc, char **argv, smol_error *error)
{
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1, error);
    if (smol_options_no_command("smolconv", argc, argv, error))
        return error->status;
    return smolconv_convert(argc, argv, error);
}

int main(int argc, char **argv)
{
    smol_error error = {0};
    smol_standard_reserve();
    smol_output_remove_on_signals();
    smol_mapping_guard();
    smol_status status = run(argc, argv, &error);
    bool answered = status == SMOL_OK || status == SMOL_ERROR_MISMATCH;
    smol_error unwritten;
    if (smol_standard_flush(&unwritten) && answered) {
        error = unwritten;
        status = error.status;
    }
    if (status && error.message[0])
        fprintf(stderr, "smolconv: %s\n", error.message);
    return smol_exit_status(status);
}
