/* The sub-commands of smolconv. Each takes its own words (argv[0] is its name) and returns the exit
 * status, with an error that main prints. */
#ifndef SMOL_CONVERT_COMMAND_COMMAND_H
#define SMOL_CONVERT_COMMAND_COMMAND_H

#include "common/error.h"

typedef enum status smolconv_command(int argc, char **argv, struct error *error);

smolconv_command smolconv_convert; /* the one without a name */
smolconv_command smolconv_delta;
smolconv_command smolconv_diff;
smolconv_command smolconv_inspect;
smolconv_command smolconv_pack;
smolconv_command smolconv_patch;
smolconv_command smolconv_unpack;
smolconv_command smolconv_verify;

#endif
