/* A sandbox for programs that read untrusted files. A program opens its inputs, enters the sandbox,
 * and only then reads the inputs. If a malicious file ever runs code of its own, the sandbox limits
 * what the code can do. */
#ifndef SMOL_CLI_SANDBOX_H
#define SMOL_CLI_SANDBOX_H

#include <stdbool.h>

#include "common/error.h"

enum sandbox_mode {
    SANDBOX_ON,      /* as far as the system permits */
    SANDBOX_REQUIRE, /* all of it, or fail */
    SANDBOX_OFF,
};

/* Rights that only some programs need, for `rights` below. */
enum { SANDBOX_TERMINAL = 1, SANDBOX_SERVER = 2 };

/* The state of the parts of the sandbox: 0 if a part is in force, otherwise the reason (errno). */
struct sandbox {
    enum sandbox_mode mode;
    int files, calls; /* 0 or errno */
};

/* Restricts the process permanently, with all threads that it starts later. From now on it can
 * - open no file; with `output` (or NULL) it can read, create, replace and remove files in the
 *   folder of `output` and below (Landlock, Linux 5.13);
 * - make only the system calls that sandbox.c lists: no network, no programs or processes, no
 *   tracing, no new executable memory, no changes to existing files (seccomp, x86-64 and aarch64);
 * - change the modes of the terminal, which line editing needs, only with SANDBOX_TERMINAL;
 * - accept and serve connections on sockets that are listening already only with SANDBOX_SERVER;
 * - gain no privileges (Linux 3.5).
 * Open descriptors keep their rights. With SANDBOX_ON, a part that is not available is left out, as
 * *sandbox shows. Call it while the process has one thread. Errors: UNSUPPORTED (SANDBOX_REQUIRE,
 * and a part is not available), MEMORY. */
smol_status smol_sandbox_enter(enum sandbox_mode mode, const char *output, unsigned rights,
                               struct sandbox *sandbox, smol_error *error);

/* Sets *mode to the mode that the environment variable SMOL_SANDBOX requests: SANDBOX_OFF for
 * `off`, SANDBOX_ON if it is unset or empty. Errors: USAGE (another value). */
smol_status smol_sandbox_from_environment(enum sandbox_mode *mode, smol_error *error);

/* Enters the sandbox in the mode that a program's option chose, an enum sandbox_mode counted from
 * 1, or if that is 0, in that of the environment. Prints a warning if a part is missing although
 * the system supports it. Errors: those of both functions. */
smol_status smol_sandbox_start(const char *program, int chosen, const char *output, unsigned rights,
                               struct sandbox *sandbox, smol_error *error);

/* Writes a description of what is restricted and what is not, for people, to text[0..size). */
void smol_sandbox_describe(const struct sandbox *sandbox, char *text, size_t size);

/* Returns whether a part is missing although the system supports it, which deserves a warning. */
bool smol_sandbox_is_weak(const struct sandbox *sandbox);

#endif
