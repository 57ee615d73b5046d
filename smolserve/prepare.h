/* Preparers: threads that read requests, make tokens, compile constraints and write answers, which
 * may take long, so that neither the HTTP thread nor a generator has to. Each of four queues has
 * threads of its own: requests without a new constraint never wait for one, and short requests
 * never for long ones. In each, clients take turns. Among long requests of a client, one waits for
 * at most as many bytes of later ones as it has itself. */
#ifndef SMOL_SMOLSERVE_PREPARE_H
#define SMOL_SMOLSERVE_PREPARE_H

#include <pthread.h>

#include "smolserve/access.h"
#include "smolserve/job.h"

/* The queues, by what is next for their jobs: to be read and to get tokens, to get a constraint, to
 * have the answer written. */
enum { SHORT_REQUESTS, ANSWERS, LONG_REQUESTS, CONSTRAINTS, N_QUEUES };

enum {
    N_PREPARERS = N_QUEUES + 2, /* two for each of the first two */
    LONG_REQUEST = 64 << 10,    /* bytes: megabytes take seconds on a small processor */
};

struct job_queue {
    struct preparers *preparers;
    void (*handle)(struct job *job);
    struct job *first;
    uint64_t n_taken;
    uint64_t turns[KEYS_MAX + 1]; /* number of the last job of each client, 0: none yet */
    pthread_cond_t work;
};

struct preparers {
    struct job_queue queues[N_QUEUES];
    pthread_t threads[N_PREPARERS];
    size_t n;
    pthread_mutex_t lock; /* guards the queues and the following member */
    bool stopping;
};

/* Call smol_preparers_stop after an error too. Errors: MEMORY. */
smol_status smol_preparers_start(struct preparers *preparers, smol_error *error);

/* Hands over a job, with a reference to it. Its generator gets it next. */
void smol_preparers_submit(struct preparers *preparers, struct job *job);

/* Hands over a job whose whole answer is to be written, with a reference to it. */
void smol_preparers_answer(struct preparers *preparers, struct job *job);

/* Ends the threads. No job may be left. */
void smol_preparers_stop(struct preparers *preparers);

#endif
