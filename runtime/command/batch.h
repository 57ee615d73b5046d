/* Requests from standard input, answers to standard output, one JSON object a line. */
#ifndef SMOL_RUNTIME_COMMAND_BATCH_H
#define SMOL_RUNTIME_COMMAND_BATCH_H

#include "runtime/command/load.h"

/* Answers all lines in order, several sequences at a time. A line that cannot be answered gets an
 * error for an answer. Errors: FILE, DAMAGED (which end everything), MEMORY (at the start). */
smol_status smol_batch_run(const struct settings *settings, struct loaded *loaded,
                           smol_error *error);

#endif
