/* smolrun: finds the sub-command. A first word that is none is a file to generate from. */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/output.h"
#include "runtime/command/command.h"
#include "runtime/command/print.h"
#include "runtime/smol.h"

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

/* Whether what is written like a command, with a file and a prompt behind it, is neither one of
 * ours nor a file. */
static bool is_no_command(int argc, char **argv)
{
    for (int i = 1; i <= 3; i++)
        if (i >= argc || argv[i][0] == '-')
            return false;
    return access(argv[1], F_OK) != 0;
}

int main(int argc, char **argv)
{
    /* A reader that goes away then shows as a failed write, which ends things in order. */
    signal(SIGPIPE, SIG_IGN);
    smol_output_remove_on_signals();
    smol_guard_mappings();
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (is_no_command(argc, argv)) {
        smol_error error;
        return smol_command_status(smol_command_fail(&error, SMOL_ERROR_USAGE,
                                                     "%s: no such command or file: see --help",
                                                     argv[1]),
                                   &error);
    }
    return smol_command_generate(argc, argv);
}
