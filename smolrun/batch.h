/* Requests from standard input, answers to standard output, one JSON object a line. */
#ifndef SMOL_SMOLRUN_BATCH_H
#define SMOL_SMOLRUN_BATCH_H

#include "smolrun/load.h"

/* Answers all lines in order, several sequences at a time. A line that cannot be answered gets an
 * error for an answer. Errors: FILE, DAMAGED (which end everything), MEMORY (at the start). */
smol_status smol_batch_run(const struct settings *settings, struct loaded *loaded,
                           smol_error *error);

#endif
