/* smolconv inspect FILE: what is in a file. */
#include <stdio.h>

#include "common/options.h"
#include "convert/command/command.h"
#include "convert/inspect.h"

static const struct command_line line = {
    .program = "smolconv",
    .words = "inspect FILE",
    .about = "Shows what is in FILE, a .smol blob or a safetensors file.\n",
    .notes = "",
    .min_words = 1,
    .max_words = 1,
};

enum status smolconv_inspect(int argc, char **argv, struct error *error)
{
    const char *path;
    bool shown;
    enum status status = smol_options_parse(&line, argc, argv, NULL, &path, &shown, error);
    return status || shown ? status : smol_inspect(path, stdout, error);
}
