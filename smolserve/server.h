/* The server: state that all of its parts share. */
#ifndef SMOL_SMOLSERVE_SERVER_H
#define SMOL_SMOLSERVE_SERVER_H

#include <stdatomic.h>

#include "smolserve/connections.h"
#include "smolserve/generator.h"
#include "smolserve/keys.h"
#include "smolserve/metrics.h"
#include "smolserve/prepare.h"
#include "smolserve/serve_settings.h"

enum server_state { SERVER_LOADING, SERVER_READY, SERVER_DRAINING };

struct server {
    const struct serve_settings *settings;
    struct keys keys;
    struct generator *generators; /* (n_generators), one for each model */
    size_t n_generators;
    struct preparers preparers;
    struct connections connections;
    struct metrics metrics;
    struct MHD_Daemon *daemon;
    atomic_int state;      /* enum server_state */
    atomic_uint n_jobs;    /* that exist */
    atomic_uint n_waiting; /* of these, jobs whose generation has not begun */
    int statm;             /* /proc/self/statm, open, or -1 */
};

/* Returns the engine of the model `name`, or NULL. */
struct generator *smol_server_generator(struct server *server, const char *name);

#endif
