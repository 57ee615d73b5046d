/* The models that are served, one for each file of the command line. A model whose file has been
 * replaced stays until its last request has been answered, while new requests get the new one. */
#ifndef SMOL_SMOLSERVE_MODELS_H
#define SMOL_SMOLSERVE_MODELS_H

#include <stdbool.h>

#include "cli/options.h"
#include "smol.h"
#include "smolserve/generator.h"

struct models {
    struct server *server;
    pthread_mutex_t lock; /* guards the following members */
    struct generator *items[OPTION_MAX_TEXTS];
    size_t n;
    struct generator *retired; /* replaced */
    uint64_t n_evicted;        /* blocks of the caches of those that were replaced */
    uint64_t n_replaced, n_refused;
};

void smol_models_init(struct models *models, struct server *server);

/* Loads the blobs in the files fds[0..n), which are closed. Errors: those of smol_model_open,
 * among them CANCELLED (SIGTERM or SIGINT waits), USAGE (two of the same name). */
smol_status smol_models_load(struct models *models, const int *fds, smol_error *error);

/* Returns the generator of a model, with a reference to it (smol_generator_release), or NULL. */
struct generator *smol_models_find(struct models *models, const char *name);

/* Puts the blob in the file `fd`, which is closed, in the place of model `index`. If it is
 * damaged or not supported, prints why and changes nothing, as if SIGTERM or SIGINT waits. */
void smol_models_replace(struct models *models, size_t index, int fd);

/* Frees the replaced models that no request uses any more. Call it once or twice a second. */
void smol_models_sweep(struct models *models);

/* Returns whether every model can be read, as far as is known. */
bool smol_models_are_readable(struct models *models);

/* Ends everything. No job may be left. */
void smol_models_stop(struct models *models);

/* watcher.c: a process of its own that opens a blob again when its file has been replaced,
 * because the server's sandbox forbids it to open files. It opens the files of the command line and
 * no others, and reads neither requests nor what is in blobs.
 *
 * Starts a watcher of the files, which are open already, as fds[0..files->n), and sets *socket to
 * where its news arrive. It ends when *socket is closed, or with this process. Call it while the
 * process has one thread, before the sandbox. Errors: FILE (the system refuses a process). */
smol_status smol_watcher_start(const struct option_texts *files, const int *fds, int *socket,
                               smol_error *error);

/* Returns whether a file has been replaced; then *index is its number, and *fd the new file, which
 * the caller closes. Does not wait. */
bool smol_watcher_next(int socket, size_t *index, int *fd);

#endif
