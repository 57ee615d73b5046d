/* smolrun: runs the sub-command. If the first word is not a sub-command, it is the file to generate
 * from. */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "smol.h"
#include "smolrun/command.h"

static const struct {
    char name[11];
    int (*run)(int argc, char **argv);
} commands[] = {
    {"chat", smol_command_chat},
    {"tokenize", smol_command_tokenize},
    {"logits", smol_command_logits},
    {"bench", smol_command_bench},
    {"perplexity", smol_command_perplexity},
    {"explain", smol_command_explain},
    {"calibrate", smol_command_calibrate},
    {"embed", smol_command_embed},
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
    if (check_stack(&error))
        return smol_command_status(error.status, &error);
    /* If the reader of standard output goes away, a write fails, and the program ends in order. */
    signal(SIGPIPE, SIG_IGN);
    smol_output_remove_on_signals();
    smol_guard_mappings();
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (smol_options_no_command("smolrun", argc, argv, &error))
        return smol_command_status(error.status, &error);
    return smol_command_generate(argc, argv);
}
