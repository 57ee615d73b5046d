/* What smolrun gives up before it looks at a blob: it computes, it reads its files, it prints.
 * Should a hostile blob ever get to run code of its own, there is little that the code can do. */
#ifndef SMOL_CLI_SANDBOX_H
#define SMOL_CLI_SANDBOX_H

#include <stdbool.h>

#include "smol.h"

/* From now on, for good and for all threads to come, the process can
 * - open the files `inputs` (n_inputs, NULL ones do not count) for reading, and with `output` (or
 *   NULL) read, make, replace and remove files in the folder that output lies in, and below:
 * nothing else (Landlock, Linux 5.13);
 * - make the system calls that sandbox.c lists: no network, no programs or processes, no tracing,
 * no new memory to execute, no changing of files that are there (seccomp, x86-64 and aarch64);
 * - with_terminal: change how the terminal treats what is typed, as editing lines takes;
 * - gain no privileges (Linux 3.5).
 * What the kernel lacks or its surroundings refuse is left out. SMOL_SANDBOX=off in the environment
 * leaves out everything. To be called by the only thread. Errors: USAGE (another SMOL_SANDBOX),
 * MEMORY. */
smol_status smol_sandbox_enter(const char *const *inputs, size_t n_inputs, const char *output,
                               bool with_terminal, smol_error *error);

#endif
