/* smolrun: finds the sub-command. A first word that is none is a file to generate from. */
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "smol.h"
#include "smolrun/command.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"chat", smol_command_chat},
    {"tokenize", smol_command_tokenize},
    {"logits", smol_command_logits},
    {"bench", smol_command_bench},
    {"perplexity", smol_command_perplexity},
    {"explain", smol_command_explain},
};

int main(int argc, char **argv)
{
    smol_standard_reserve();
    /* A reader that goes away then shows as a failed write, which ends things in order. */
    signal(SIGPIPE, SIG_IGN);
    smol_output_remove_on_signals();
    smol_guard_mappings();
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    smol_error error;
    if (smol_options_no_command("smolrun", argc, argv, &error))
        return smol_command_status(error.status, &error);
    return smol_command_generate(argc, argv);
}
