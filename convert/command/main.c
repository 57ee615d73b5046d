/* smolconv: runs a sub-command. If the first word is not a sub-command, it is a checkpoint to
 * convert. */
#include <stdbool.h>
#include <stddef.h>

#include "cli/output.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "common/mapping.h"
#include "convert/command/command.h"

static const struct named_command commands[] = {
    {"inspect", smolconv_inspect}, {"diff", smolconv_diff},     {"verify", smolconv_verify},
    {"pack", smolconv_pack},       {"unpack", smolconv_unpack}, {"delta", smolconv_delta},
    {"patch", smolconv_patch},     {"report", smolconv_report}, {NULL, smolconv_convert},
};

int main(int argc, char **argv)
{
    smol_error error = {0};
    smol_standard_reserve();
    smol_output_remove_on_signals();
    smol_mapping_guard();
    smol_status status = smol_options_run(commands, "smolconv", argc, argv, &error);
    bool answered = status == SMOL_OK || status == SMOL_ERROR_MISMATCH;
    smol_error unwritten;
    if (smol_standard_flush(&unwritten) && answered) {
        error = unwritten;
        status = error.status;
    }
    return smol_exit_status("smolconv", status, &error);
}
