/* Embeddings of a job's texts, computed in slices between which others receive tokens. */
#ifndef SMOL_SMOLSERVE_EMBED_H
#define SMOL_SMOLSERVE_EMBED_H

#include "smolserve/job.h"

/* A job in progress. Zeros: none. */
struct embedding {
    struct job *job;
    smol_context *context;
    size_t prompt, position; /* what comes next */
    double *sums;            /* (hidden_size) */
    float *slice;            /* states of a slice */
};

/* Starts a job on a context of its own. Call smol_embedding_end after an error too. */
smol_status smol_embedding_begin(struct embedding *e, struct job *job,
                                 const smol_context_params *params, smol_error *error);

/* Evaluates the next slice. *done: it was the last one. */
smol_status smol_embedding_step(struct embedding *e, bool *done, smol_error *error);

/* Frees everything but the job, and sets *e to zeros. */
void smol_embedding_end(struct embedding *e);

#endif
