/* smolrun: runs the sub-command. If the first word is not a sub-command, it is the file to generate
 * from. */
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "smol.h"
#include "smolrun/command.h"

static const struct named_command commands[] = {
    {"chat", smolrun_chat},
    {"tokenize", smolrun_tokenize},
    {"logits", smolrun_logits},
    {"bench", smolrun_bench},
    {"perplexity", smolrun_perplexity},
    {"explain", smolrun_explain},
    {"calibrate", smolrun_calibrate},
    {"embed", smolrun_embed},
    {NULL, smolrun_generate},
};

enum { LEAST_STACK = 128 << 10 }; /* bytes, for the main thread and for each other thread */

/* Refuses a smaller stack, with which a large frame would crash the process. */
static smol_status check_stack(smol_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= LEAST_STACK)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_MEMORY,
                     "the stack is limited to %llu KiB, but %d KiB are needed: raise the limit "
                     "(ulimit -s 8192)",
                     (unsigned long long)limit.rlim_cur >> 10, LEAST_STACK >> 10);
}

int main(int argc, char **argv)
{
    smol_error error;
    smol_standard_reserve();
    /* If the reader of standard output goes away, a write fails, and the program ends in order. */
    signal(SIGPIPE, SIG_IGN);
    smol_output_remove_on_signals();
    smol_guard_mappings();
    smol_status status = check_stack(&error);
    if (!status)
        status = smol_options_run(commands, "smolrun", argc, argv, &error);
    return smol_exit_status("smolrun", status, &error);
}
