/* The commands of smolrun. */
#ifndef SMOL_SMOLRUN_COMMAND_H
#define SMOL_SMOLRUN_COMMAND_H

#include "cli/options.h"

command_function smolrun_generate; /* the command without a name */
command_function smolrun_chat;
command_function smolrun_tokenize;
command_function smolrun_logits;
command_function smolrun_bench;
command_function smolrun_perplexity;
command_function smolrun_explain;
command_function smolrun_calibrate;
command_function smolrun_embed;

#endif
