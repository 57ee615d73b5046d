/* A job: a request while it is answered. The HTTP thread receives it, a preparer reads it and turns
 * it into tokens, and the model's generator generates. A preparer writes the answer, unless it is
 * streamed: then the HTTP thread sends what has been generated so far. */
#ifndef SMOL_SMOLSERVE_JOB_H
#define SMOL_SMOLSERVE_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "cli/request/parts.h"
#include "cli/text.h"
#include "smolserve/refusal.h"

struct MHD_Connection;
struct generator;
struct server;

/* One of the answers to a request, `n` of which are generated. */
struct reply {
    struct job *job;
    /* the generator's */
    smol_context *context;
    smol_sampler *sampler;
    smol_matcher *matcher;
    smol_generation *generation;
    uint64_t turn; /* of its prompt, see step in generator.c */
    size_t n_read; /* tokens of its prompt that were known, or have been read */
    /* guarded by the job's lock */
    struct answer_parts parts; /* not sent yet */
    size_t n_taken;            /* bytes of parts.logprobs that are on their way */
    smol_generate_result result;
    bool ended;
    bool failed; /* memory has run out */
    /* of the thread that writes the answer */
    bool began, finish_sent;
    struct buffer thought; /* taken from `parts`, to be sent next: reasoning */
    struct calls news;     /* likewise */
    size_t n_calls;        /* begun */
    /* what an endpoint repeats of what it has sent: reasoning, text, and calls; n_ended of these
     * items have ended */
    struct buffer sent_reasoning, sent;
    struct buffer sent_logprobs; /* JSON text of a list */
    struct calls sent_calls;
    size_t n_ended;
    bool text_began;
    /* of Anthropic's messages: blocks that began, calls among them, and the type of the open
     * block, static, or NULL */
    size_t n_blocks, n_call_blocks;
    const char *block;
    size_t n_listed;    /* tokens whose log-probabilities were written */
    size_t text_offset; /* of the next one, in characters */
    size_t n_passed;    /* bytes of the echoed prompt before it */
};

/* A text to be continued or embedded, or its tokens. */
struct prompt {
    char *text;    /* (size), or NULL; with `echo` it stays */
    uint32_t *ids; /* (n) */
    size_t size, n;
};

/* A text of a reranking, and how well it answers the query. */
struct ranked_text {
    float score;
    size_t index;
};

/* The work of the model for a job. */
enum work { WORK_GENERATE, WORK_EMBED, WORK_TOKENS };

/* An endpoint: how the requests to its path are read and answered. */
struct endpoint {
    const char *path, *other_path; /* the latter may be NULL */
    const char *object, *id_prefix;
    enum work work;
    const struct request_member *members; /* (n_members), of its bodies; the first has the text */
    size_t n_members;
    /* Checks what has been read. After an error *param is the member at fault. */
    smol_status (*check)(struct job *job, const char **param, smol_error *error);
    /* Makes token ids of it. Runs on a preparer's thread. */
    smol_status (*prepare)(struct job *job, smol_error *error);
    /* Writes the whole answer. Runs on a preparer's thread. */
    void (*write)(struct job *job, struct json_out *json);
    /* The parts of a stream, written by the HTTP thread: as an event what is new of a reply. */
    void (*write_event)(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                        const struct buffer *logprobs, bool ended);
    void (*write_end)(struct job *job, FILE *out); /* of a stream without error */
    /* Writes the last event of a stream that fails. NULL: the object of a refused request. */
    void (*write_error)(struct job *job, FILE *out, const struct refusal *refusal);
    /* Writes the object of a refused request. NULL: smol_refusal_write. */
    void (*write_refusal)(const struct refusal *refusal, struct json_out *json);
};

struct job {
    atomic_uint references;
    struct server *server;
    const struct endpoint *endpoint;
    struct job *next;   /* of a list */
    size_t patience;    /* in a queue of the preparers, see prepare.c */
    struct buffer body; /* as it has arrived, until it is read */
    /* the request, which a preparer reads */
    struct request request;
    struct prompt *prompts; /* (n_prompts) */
    size_t n_prompts;
    char model[256];
    uint32_t n;       /* replies to each prompt, the choices of the answer */
    uint32_t best_of; /* 0: not given */
    bool stream, include_usage;
    bool echo;         /* the text of a completion begins with the prompt */
    bool base64;       /* embeddings are written so */
    char *prompt_name; /* of embeddings: that to put before each text, or NULL */
    size_t dimensions; /* numbers of an embedding that are asked for, 0: all */
    char *query;       /* (n_query), of a reranking, or NULL */
    size_t n_query;
    size_t top_n;        /* results of a reranking, 0: all */
    bool return_texts;   /* a reranking repeats the texts */
    bool logprobs_given; /* a chat or a response asks for log-probabilities */
    bool truncates;      /* a conversation that is too long loses its oldest turns */
    bool omits_thinking; /* the answer says only that there was some */
    bool waits;          /* it counts in server->n_waiting */
    size_t client;       /* index of the key, 0: none */
    char id[48];
    time_t created;
    double arrived, started, first_token, deadline; /* clock_seconds */
    struct generator *generator;                    /* held */
    struct compiled_constraint *constraint;         /* or NULL */
    /* the answer */
    struct reply *replies; /* (n_replies): `n` for each prompt */
    uint32_t n_replies;
    uint64_t n_events;                 /* sent, where an endpoint numbers them */
    char *instructions;                /* JSON text of a string, or NULL; where it repeats them */
    char *tools;                       /* JSON text of a list, likewise */
    char *text;                        /* JSON text of an object with a format, likewise */
    float *states;                     /* embeddings (n_prompts, embedding_size) */
    struct ranked_text *ranking;       /* (n_prompts), of a reranking */
    struct buffer answer;              /* JSON, unless it is streamed or refused */
    atomic_bool gone;                  /* nobody waits for the answer any more */
    pthread_mutex_t lock;              /* guards the following members */
    struct MHD_Connection *connection; /* or NULL */
    int fd;                            /* its socket, or -1 */
    bool suspended, news, ended;
    struct refusal refusal; /* once it has ended */
};

/* Creates a job with one reference. NULL: out of memory. */
struct job *smol_job_new(struct server *server, const struct endpoint *endpoint);

/* Creates one more prompt, an empty one. NULL: out of memory. */
struct prompt *smol_job_add_prompt(struct job *job);

/* Returns the number of tokens of all prompts. */
size_t smol_job_count(const struct job *job);

/* Returns how many of them were in the cache of prefixes: of several replies to a prompt, the first
 * one's count. */
size_t smol_job_count_cached(struct job *job);

/* Creates the replies, once `n` and the prompts are known; with `echo` they begin with these.
 * Returns false if memory runs out. */
bool smol_job_make_replies(struct job *job);

struct job *smol_job_hold(struct job *job);
void smol_job_release(struct job *job);

/* Lets the HTTP thread continue with the job: there is something to send. */
void smol_job_wake(struct job *job);

/* Writes the whole answer. Errors: MEMORY. */
smol_status smol_job_write(struct job *job, smol_error *error);

/* Counts the job no longer among those that wait. */
void smol_job_stop_waiting(struct job *job);

/* Ends the job, with a refusal or NULL, wakes the HTTP thread, and releases the reference. */
void smol_job_end(struct job *job, const struct refusal *refusal);

/* Takes the connection from the job, because the answer has been sent or the client is gone, and
 * releases the reference. */
void smol_job_disconnect(struct job *job);

/* Returns whether the job must end early, and why: its client has closed the connection, or its
 * time is over. */
bool smol_job_is_over(struct job *job, struct refusal *refusal);

/* Moves what has not been sent yet out of a reply, the reasoning to reply->thought and the calls to
 * reply->news, and counts the calls. For a stream, takes at most as many log-probabilities as can
 * be written at once without delaying others; job->news then says that there are more, and calls
 * wait until those of the text before them have been taken. The caller
 * frees text->text and logprobs->text, and calls smol_reply_drop_news. Returns whether the reply
 * has ended and nothing of it is left. */
bool smol_reply_take(struct reply *reply, struct buffer *text, struct buffer *logprobs);

/* Frees reply->thought and reply->news. */
void smol_reply_drop_news(struct reply *reply);

/* The callbacks on_text and on_token of a generation; `user` is the reply. */
int smol_reply_text(void *user, const char *text, size_t size, uint32_t id);
void smol_reply_token(void *user, uint32_t id, const float *logits, size_t n);

/* The endpoints that make jobs. */
extern const struct endpoint smol_endpoint_chat, smol_endpoint_completions, smol_endpoint_responses,
    smol_endpoint_messages, smol_endpoint_count_tokens, smol_endpoint_embeddings,
    smol_endpoint_rerank, smol_endpoint_tokenize, smol_endpoint_detokenize;

#endif
