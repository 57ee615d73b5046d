/* Output files. Each appears whole or not at all, even if the process is interrupted. */
#ifndef SMOL_CLI_OUTPUT_H
#define SMOL_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A file that is being written: a temporary beside the target until it is committed. */
struct output {
    int fd;
    bool force;
    char *path;                  /* the target; owned */
    struct temporary *temporary; /* owned */
};

/* Starts writing `path`. An existing target is an error (SMOL_ERROR_FILE) unless `force`. After
 * SMOL_OK, the caller calls either smol_output_commit or smol_output_discard, once. */
smol_status smol_output_open(const char *path, bool force, struct output *output,
                             smol_error *error);

/* Starts writing `path` like smol_output_open, but keeps a temporary that is not committed, as
 * PATH.part, however the process ends. Continues an existing PATH.part, whose content the caller
 * must check. Locks it, so that no other process writes it. */
smol_status smol_output_resume(const char *path, bool force, struct output *output,
                               smol_error *error);

/* Writes data[0..size) at `offset`. Errors: SMOL_ERROR_FILE, with the system's reason. */
smol_status smol_output_write(struct output *output, uint64_t offset, const void *data, size_t size,
                              smol_error *error);

/* Reads `size` written bytes at `offset` into `data`. *n is the number of bytes read, less than
 * `size` at the end of the file. */
smol_status smol_output_read(const struct output *output, uint64_t offset, void *data, size_t size,
                             size_t *n, smol_error *error);

/* Removes all bytes after the first `size`. Syncs the file before, so that a crash cannot lose both
 * parts. */
smol_status smol_output_truncate(struct output *output, uint64_t size, smol_error *error);

/* Syncs the temporary, renames it to the target and syncs the folder. Without `force`, a target
 * that appeared meanwhile is an error too. After an error the temporary is gone (or kept) and the
 * old target unchanged, unless the message says that only syncing the folder failed. */
smol_status smol_output_commit(struct output *output, smol_error *error);

/* Removes the temporary, or keeps it after smol_output_resume. Safe after a failed open and after a
 * commit. Returns false if the temporary could not be removed. */
bool smol_output_discard(struct output *output);

/* Stops keeping the temporary: it is removed unless it is committed. */
void smol_output_forget(struct output *output);

/* Returns the name of the temporary, which the output owns, for callers that read it before it is
 * committed. */
const char *smol_output_temporary(const struct output *output);

/* Makes SIGINT, SIGTERM and SIGHUP remove all temporaries before they end the process. A signal
 * that the parent process ignores stays ignored. A limit on the size of files (ulimit -f) makes
 * writing fail instead of ending the process. From now on only the main thread may open, commit and
 * discard outputs, because only it receives signals (see smol_pool_create). */
void smol_output_remove_on_signals(void);

#endif
