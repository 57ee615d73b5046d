/* The watcher: a process of its own that opens a blob again when its file has been replaced,
 * because the server's sandbox forbids it to open files. It opens the files of the command line and
 * no others, and reads neither requests nor what is in blobs. */
#ifndef SMOL_SMOLSERVE_WATCHER_H
#define SMOL_SMOLSERVE_WATCHER_H

#include <stdbool.h>

#include "cli/options.h"
#include "smol.h"

/* Starts a watcher of the files, which are open already, as fds[0..files->n), and sets *socket to
 * where its news arrive. It ends when *socket is closed, or with this process. Call it while the
 * process has one thread, before the sandbox. Errors: FILE (the system refuses a process). */
smol_status smol_watcher_start(const struct option_texts *files, const int *fds, int *socket,
                               smol_error *error);

/* Returns whether a file has been replaced; then *index is its number, and *fd the new file, which
 * the caller closes. Does not wait. */
bool smol_watcher_next(int socket, size_t *index, int *fd);

#endif
