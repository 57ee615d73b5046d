/* Batches: requests from standard input, answers to standard output, one JSON object per line. */
#ifndef SMOL_SMOLRUN_BATCH_H
#define SMOL_SMOLRUN_BATCH_H

#include "cli/json_out.h"
#include "cli/request/parts.h"
#include "cli/request/request.h"
#include "cli/text.h"
#include "smolrun/load.h"
#include "smolrun/settings.h"

/* Answers all lines in order, several sequences at a time. The answer to a faulty line is an error.
 * Errors: FILE, DAMAGED (which end the batch), MEMORY (at the start). */
smol_status smol_batch_run(const struct settings *settings, struct loaded *loaded,
                           smol_error *error);

/* request.c: a request, a JSON object on a line. */
struct line_request {
    struct request common;
    char *id, *model; /* JSON texts, echoed; or NULL */
};

/* Reads line[0..size). Missing members have the values of `settings`. Call smol_line_free after
 * errors too. Errors: USAGE (invalid JSON, unknown or wrong members), UNSUPPORTED (too deep, too
 * large), MEMORY. */
smol_status smol_line_read(const char *line, size_t size, const struct settings *settings,
                           struct line_request *request, smol_error *error);
void smol_line_free(struct line_request *request);

/* Tokenizes the prompt or the messages. The caller frees *ids with smol_free. `on_progress` is as
 * for smol_tokenize. Errors: as smol_prompt_text and smol_prompt_chat. */
smol_status smol_line_ids(const struct request *request, const struct settings *settings,
                          const smol_model *model, smol_on_progress *on_progress, void *user,
                          uint32_t **ids, size_t *n, smol_error *error);

extern const char *const smol_finish_words[]; /* "stop" ..., by smol_finish */

/* answer.c: the results of a generation, and their output as JSON. */
struct answer {
    struct line_request request;
    smol_error error; /* or OK */
    smol_generate_result result;
    struct answer_parts parts;
    struct buffer ids, logprobs; /* uint32_t, struct ranked (likelihood.h) */
    uint64_t prompt_digest;
    bool done;
};

/* Prepares `parts` for the answer to the whole prompt (n) of a chat of the command line, and sets
 * wanted->reasoning. Errors: MEMORY. */
smol_status smol_answer_begin(const struct settings *settings, const smol_model *model,
                              const uint32_t *prompt, size_t n, struct wanted_constraint *wanted,
                              struct answer_parts *parts, smol_error *error);

/* Prints the text and the reasoning in `parts` with `print`, and empties them. Reasoning is only
 * for a terminal: dimmed, or without colours under a title, and a blank line follows it. *reasons,
 * at first false, is true from its first piece to the text. */
void smol_answer_show(struct answer_parts *parts, bool *reasons,
                      void (*print)(const char *text, size_t size));

/* The callbacks on_text and on_token of a generation; `user` is the struct answer. */
int smol_answer_text(void *user, const char *text, size_t size, uint32_t id);
void smol_answer_token(void *user, uint32_t id, const float *logits, size_t n);

/* Writes the members that every answer has, text, ids and finish_reason, to an open JSON object. */
void smol_answer_members(struct json_out *json, const struct answer *answer);

/* Prints the answer as one line of JSON, with its number `index`. Errors: SMOL_ERROR_FILE (a
 * token's text). */
smol_status smol_answer_print(const struct answer *answer, const smol_model *model, uint64_t index,
                              smol_error *error);

/* Takes what the readers of parts hold back. Errors: MEMORY. */
smol_status smol_answer_end(struct answer *answer, smol_error *error);

/* Returns the size of the answer's buffers in bytes. */
size_t smol_answer_bytes(const struct answer *answer);

/* Frees the answer's memory and sets it to zeros. */
void smol_answer_free(struct answer *answer);

#endif
