/* A request of --jsonl: a JSON object on a line. */
#ifndef SMOL_SMOLRUN_REQUEST_H
#define SMOL_SMOLRUN_REQUEST_H

#include "smolrun/constrain.h"

enum { MAX_LOGPROBS = 20 };

struct request {
    char *id, *model; /* JSON texts, echoed; or NULL */
    char *prompt;     /* (n_prompt), or NULL */
    char *messages;   /* JSON text, or NULL */
    /* JSON texts, or NULL, as in smol_chat_params; only with messages */
    char *tools, *documents, *variables;
    struct wanted_constraint format; /* of the answer */
    size_t n_prompt;
    smol_sampler_params sampler;
    size_t max_tokens;
    struct option_texts stop;
    bool own_stop; /* the request owns the texts of `stop` */
    int logprobs;  /* alternatives for each token, -1: no log-probabilities */
};

/* Reads line[0..size). Missing members have the values of `settings`. Call smol_request_free after
 * errors too. Errors: USAGE (invalid JSON, unknown or wrong members), UNSUPPORTED (too deep, too
 * large), MEMORY. */
smol_status smol_request_read(const char *line, size_t size, const struct settings *settings,
                              struct request *request, smol_error *error);
void smol_request_free(struct request *request);

/* Frees the prompt, or the messages and the other inputs of the chat template. */
void smol_request_drop_text(struct request *request);

/* Tokenizes the prompt or the messages. The caller frees *ids with smol_free. `on_progress` is as
 * for smol_tokenize. Errors: as smol_prompt_text and smol_prompt_chat. */
smol_status smol_request_ids(const struct request *request, const struct settings *settings,
                             const smol_model *model, smol_on_progress *on_progress, void *user,
                             uint32_t **ids, size_t *n, smol_error *error);

#endif
