/* A sandbox for programs that read untrusted files: they open their inputs, enter it, and only then
 * look at a byte of them. If a hostile file ever gets to run code of its own, there is little that
 * the code can do. */
#ifndef SMOL_CLI_SANDBOX_H
#define SMOL_CLI_SANDBOX_H

#include <stdbool.h>

#include "common/error.h"

enum sandbox_mode {
    SANDBOX_ON,      /* as far as the system permits */
    SANDBOX_REQUIRE, /* all of it, or fail */
    SANDBOX_OFF,
};

/* The parts that are in force, and for each that is not, why: errno. */
struct sandbox {
    enum sandbox_mode mode;
    int files, calls; /* 0: restricted */
};

/* From now on, for good and for all threads to come, the process can
 * - open no file; with `output` (or NULL) it can read, create, replace and remove files in the
 *   folder of `output` and below (Landlock, Linux 5.13);
 * - make only the system calls that sandbox.c lists: no network, no programs or processes, no
 *   tracing, no new executable memory, no changes to existing files (seccomp, x86-64 and aarch64);
 * - change the modes of the terminal, as editing lines needs, only with `with_terminal`;
 * - gain no privileges (Linux 3.5).
 * Descriptors that are open keep their rights. With SANDBOX_ON, a part that cannot be had is left
 * out, as *sandbox tells. Call it while the process has one thread. Errors: UNSUPPORTED
 * (SANDBOX_REQUIRE, and a part cannot be had), MEMORY. */
smol_status smol_sandbox_enter(enum sandbox_mode mode, const char *output, bool with_terminal,
                               struct sandbox *sandbox, smol_error *error);

/* The mode that the environment variable SMOL_SANDBOX asks for: `off`, or if it is unset or empty
 * SANDBOX_ON. Errors: USAGE (another value). */
smol_status smol_sandbox_from_environment(enum sandbox_mode *mode, smol_error *error);

/* Writes what is restricted and what is not, for people, to text[0..size). */
void smol_sandbox_describe(const struct sandbox *sandbox, char *text, size_t size);

/* Whether a part is missing although the system has it: a reason to warn. */
bool smol_sandbox_is_weak(const struct sandbox *sandbox);

#endif
