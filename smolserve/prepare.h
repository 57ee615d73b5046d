/* Preparers: threads that read requests, make tokens, compile constraints and write answers, which
 * may take long, so that neither the HTTP thread nor a generator has to. Constraints have a thread
 * of their own: requests without one never wait for one. So have answers. */
#ifndef SMOL_SMOLSERVE_PREPARE_H
#define SMOL_SMOLSERVE_PREPARE_H

#include <pthread.h>

#include "smolserve/job.h"

/* The first compiles constraints, the second writes answers, the others read and make tokens. */
enum { N_PREPARERS = 4 };

struct job_queue {
    struct job *first, **end;
    pthread_cond_t work;
};

struct preparers {
    struct server *server;
    pthread_t threads[N_PREPARERS];
    size_t n;
    pthread_mutex_t lock; /* guards the following members */
    struct job_queue arrived, unconstrained, computed;
    bool stopping;
};

/* Call smol_preparers_stop after an error too. Errors: MEMORY. */
smol_status smol_preparers_start(struct preparers *preparers, struct server *server,
                                 smol_error *error);

/* Hands over a job, with a reference to it. Its generator gets it next. */
void smol_preparers_submit(struct preparers *preparers, struct job *job);

/* Hands over a job whose whole answer is to be written, with a reference to it. */
void smol_preparers_answer(struct preparers *preparers, struct job *job);

/* Ends the threads. No job may be left. */
void smol_preparers_stop(struct preparers *preparers);

#endif
