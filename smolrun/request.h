/* One request of --jsonl: a JSON object on a line. */
#ifndef SMOL_SMOLRUN_REQUEST_H
#define SMOL_SMOLRUN_REQUEST_H

#include "smolrun/settings.h"

enum { MAX_LOGPROBS = 20 };

struct request {
    char *id, *model; /* JSON texts, echoed; or NULL */
    char *prompt;     /* (n_prompt), or NULL */
    char *messages;   /* JSON text, or NULL */
    /* JSON texts, or NULL, as in smol_chat_params; only with messages */
    char *tools, *documents, *variables;
    size_t n_prompt;
    smol_sampler_params sampler;
    size_t max_tokens;
    struct option_texts stop;
    bool own_stop; /* its texts are the request's, not of the command line */
    int logprobs;  /* alternatives for each token, -1: no log-probabilities */
};

/* Reads line[0..size); what it does not say is as in `settings`. smol_request_free is due after
 * errors too. Errors: USAGE (no JSON, unknown or wrong members), UNSUPPORTED (too deep, too large),
 * MEMORY. */
smol_status smol_request_read(const char *line, size_t size, const struct settings *settings,
                              struct request *request, smol_error *error);
void smol_request_free(struct request *request);

/* Frees its prompt, or messages and what goes with them. */
void smol_request_drop_text(struct request *request);

/* The ids of its prompt, which the caller frees with smol_free. `on_progress` is as for
 * smol_tokenize. */
smol_status smol_request_ids(const struct request *request, const struct settings *settings,
                             const smol_model *model, smol_on_progress *on_progress, void *user,
                             uint32_t **ids, size_t *n, smol_error *error);

#endif
