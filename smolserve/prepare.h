/* Preparers: threads that make tokens of requests and compile constraints, which may take long, so
 * that neither the HTTP thread nor a generator has to. Constraints have a thread of their own:
 * requests without one never wait for one. */
#ifndef SMOL_SMOLSERVE_PREPARE_H
#define SMOL_SMOLSERVE_PREPARE_H

#include <pthread.h>

#include "smolserve/job.h"

enum { N_PREPARERS = 3 }; /* the first compiles constraints, the others make tokens */

struct job_queue {
    struct job *first, **end;
    pthread_cond_t work;
};

struct preparers {
    struct server *server;
    pthread_t threads[N_PREPARERS];
    size_t n;
    pthread_mutex_t lock; /* guards the following members */
    struct job_queue arrived, unconstrained;
    bool stopping;
};

/* Call smol_preparers_stop after an error too. Errors: MEMORY. */
smol_status smol_preparers_start(struct preparers *preparers, struct server *server,
                                 smol_error *error);

/* Hands over a job, with a reference to it. Its generator gets it next. */
void smol_preparers_submit(struct preparers *preparers, struct job *job);

/* Ends the threads. No job may be left. */
void smol_preparers_stop(struct preparers *preparers);

#endif
