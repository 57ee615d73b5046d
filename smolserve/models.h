/* The models that are served, one for each file of the command line. A model whose file has been
 * replaced goes on until its last request has been answered, while new requests get the new one. */
#ifndef SMOL_SMOLSERVE_MODELS_H
#define SMOL_SMOLSERVE_MODELS_H

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
 * USAGE (two of the same name). */
smol_status smol_models_load(struct models *models, const int *fds, smol_error *error);

/* Returns the generator of a model, with a reference to it (smol_generator_release), or NULL. */
struct generator *smol_models_find(struct models *models, const char *name);

/* Puts the blob in the file `fd`, which is closed, in the place of model `index`. If it is not in
 * order, says so and leaves everything as it is. */
void smol_models_replace(struct models *models, size_t index, int fd);

/* Frees the replaced models that no request uses any more. Call it once or twice a second. */
void smol_models_sweep(struct models *models);

/* Returns whether every model can be read, as far as is known. */
bool smol_models_are_readable(struct models *models);

/* Ends everything. No job may be left. */
void smol_models_stop(struct models *models);

#endif
