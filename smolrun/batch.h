/* Batches: requests from standard input, answers to standard output, one JSON object per line. */
#ifndef SMOL_SMOLRUN_BATCH_H
#define SMOL_SMOLRUN_BATCH_H

#include "smolrun/load.h"

/* Answers all lines in order, several sequences at a time. The answer to a faulty line is an error.
 * Errors: FILE, DAMAGED (which end the batch), MEMORY (at the start). */
smol_status smol_batch_run(const struct settings *settings, struct loaded *loaded,
                           smol_error *error);

#endif
