/* The generator of a model: a thread that generates all answers together, a token each at a time.
 */
#ifndef SMOL_SMOLSERVE_GENERATOR_H
#define SMOL_SMOLSERVE_GENERATOR_H

#include <sys/stat.h>

#include "smolserve/access.h"
#include "smolserve/job.h"

enum { EMBED_GROUP = 32 }; /* texts */

/* embed.c: embeddings of a job's texts, computed in slices between which others receive tokens. All
 * zeros while no job is in progress. */
struct embedding {
    struct job *job;
    smol_context_params params;
    smol_context *contexts[EMBED_GROUP]; /* of texts evaluated together; the others are NULL */
    size_t prompt, position;             /* what comes next */
    double *sums;                        /* (hidden_size) */
    float *slice;                        /* states of a slice */
};

/* Starts a job on contexts of its own. Call smol_embedding_end after an error too. */
smol_status smol_embedding_begin(struct embedding *e, struct job *job,
                                 const smol_context_params *params, smol_error *error);

/* Evaluates the next slice, or the next texts of an encoder. *done: it was the last one. */
smol_status smol_embedding_step(struct embedding *e, bool *done, smol_error *error);

/* Frees everything but the job, and sets *e to zeros. */
void smol_embedding_end(struct embedding *e);

struct generator {
    struct server *server;
    char name[256]; /* of the model */
    time_t loaded;
    struct stat file;
    atomic_uint references;         /* of jobs */
    struct generator *next_retired; /* see models.h */
    atomic_bool unreadable;         /* the blob has changed under the mapping */
    smol_model *model;
    smol_model_info info;
    smol_context *base;          /* whose threads and working memory all sequences share */
    smol_prefix_cache *cache;    /* or NULL */
    size_t capacity;             /* tokens of a sequence */
    smol_sampler_params sampler; /* of requests that state nothing */
    bool drops_developer;        /* the template knows no role `developer`, only `system` */
    struct constraints constraints;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards the following members */
    pthread_cond_t work;
    struct job *waiting, **waiting_end; /* in the order of their arrival */
    bool stopping;
    /* the thread's own */
    struct job **running;
    size_t n_running;
    struct embedding embedding;      /* in progress, or zeros */
    uint64_t n_read;                 /* tokens of prompts read so far, see step */
    unsigned used[KEYS_MAX + 1];     /* sequences in use by each client */
    uint64_t embedded[KEYS_MAX + 1]; /* number of the last embedding of each client, 0: none yet */
    uint64_t n_embedded;
    atomic_uint n_sequences;
    atomic_size_t kv_bytes;
};

/* Opens the blob in the file `fd`, named `path` on the command line, which is closed, and starts
 * the thread. */
smol_status smol_generator_start(struct server *server, const smol_model_params *params, int fd,
                                 const char *path, struct generator **generator, smol_error *error);

/* A job holds its generator. */
void smol_generator_hold(struct generator *generator);
void smol_generator_release(struct generator *generator);
bool smol_generator_is_used(const struct generator *generator);

/* Takes note of the error of a job. A blob that was cut off or overwritten while it is mapped fails
 * at the first page that is not there any more, or at the digest of a part that was not used
 * before: from then on it is unreadable. */
void smol_generator_note(struct generator *generator, const smol_error *error);

/* Hands over a job, with a reference to it. */
void smol_generator_submit(struct generator *generator, struct job *job);

/* Ends the thread and frees everything. No job may hold it. NULL is ignored. */
void smol_generator_stop(struct generator *generator);

#endif
