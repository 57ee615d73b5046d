/* Files to write: each appears whole or not at all, whatever happens on the way. */
#ifndef SMOL_CLI_OUTPUT_H
#define SMOL_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* A file under construction: a temporary beside the target until it is committed. */
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

/* The same, but a temporary that is not committed is kept for the next time, as PATH.part, whatever
 * ends the process; one that is there already is continued: what it holds is for the caller to
 * check. It is locked, so that nobody else writes it meanwhile. */
smol_status smol_output_resume(const char *path, bool force, struct output *output,
                               smol_error *error);

/* Writes data[0..size) at `offset`. Errors: SMOL_ERROR_FILE, with the system's reason. */
smol_status smol_output_write(struct output *output, uint64_t offset, const void *data, size_t size,
                              smol_error *error);

/* Reads what has been written: `size` bytes at `offset` into `data`; *n is how many there are. */
smol_status smol_output_read(const struct output *output, uint64_t offset, void *data, size_t size,
                             size_t *n, smol_error *error);

/* Drops what lies behind `size` bytes. What lies before is synced first, so that no moment comes at
 * which both are lost. */
smol_status smol_output_truncate(struct output *output, uint64_t size, smol_error *error);

/* Syncs the temporary, renames it to the target and syncs the folder. Without `force` a file that
 * has come to stand there meanwhile is an error too. On an error the temporary is gone (or kept)
 * and the old target untouched, unless the message says that only the folder's sync failed. */
smol_status smol_output_commit(struct output *output, smol_error *error);

/* Removes the temporary, or keeps it after smol_output_resume; safe after a failed open or a commit
 * too. False: it could not be removed. */
bool smol_output_discard(struct output *output);

/* From now on the temporary is not kept. */
void smol_output_forget(struct output *output);

/* The name of the temporary, the output's, for those who must read it before it is committed. */
const char *smol_output_temporary(const struct output *output);

/* For programs: from now on SIGINT, SIGTERM and SIGHUP remove all temporaries before they end the
 * process as they always do. A signal that the parent has ignored stays ignored. A limit on the
 * size of files (ulimit -f) makes writing fail instead of ending the process. Outputs must then be
 * opened, committed and discarded by the main thread, which alone gets signals (see
 * smol_pool_create). */
void smol_output_remove_on_signals(void);

#endif
