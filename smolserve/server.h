/* The server: state that all of its parts share. */
#ifndef SMOL_SMOLSERVE_SERVER_H
#define SMOL_SMOLSERVE_SERVER_H

#include <stdatomic.h>

#include "smolserve/access.h"
#include "smolserve/connections.h"
#include "smolserve/metrics.h"
#include "smolserve/models.h"
#include "smolserve/prepare.h"
#include "smolserve/serve_settings.h"

enum server_state { SERVER_LOADING, SERVER_READY, SERVER_DRAINING };

struct server {
    const struct serve_settings *settings;
    struct keys keys;
    struct models models;
    struct preparers preparers;
    struct connections connections;
    struct metrics metrics;
    struct MHD_Daemon *daemon;
    atomic_int state;      /* enum server_state */
    atomic_uint n_jobs;    /* that exist */
    atomic_uint n_waiting; /* of these, jobs whose generation has not begun */
    int statm;             /* /proc/self/statm, open, or -1 */
    int watcher;           /* see models.h */
};

enum { LOG_LINE_SIZE = 1024 };

/* log.c: prints a line to standard error, unless that fails or would have to wait: then the line is
 * lost, and counted. Nothing may wait for a full disk or for whoever reads the log. */
void smol_server_log(struct server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
