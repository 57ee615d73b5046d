/* An answer: the results of a generation, and their output as JSON. */
#ifndef SMOL_SMOLRUN_ANSWER_H
#define SMOL_SMOLRUN_ANSWER_H

#include "cli/json_out.h"
#include "cli/text.h"
#include "smolrun/request.h"

extern const char *const smol_finish_words[]; /* "stop" ..., by smol_finish */

struct answer {
    struct line_request request;
    smol_error error; /* or OK */
    smol_generate_result result;
    struct buffer text, ids, logprobs; /* UTF-8, uint32_t, struct ranked (likelihood.h) */
    smol_tool_reader *reader;          /* of calls; NULL: all is text */
    struct calls calls;
    bool in_call, call_cut; /* the text so far ends within a call; all of it does */
    uint64_t prompt_digest;
    bool done;
};

/* The callbacks on_text and on_token of a generation; `user` is the struct answer. */
int smol_answer_text(void *user, const char *text, size_t size, uint32_t id);
void smol_answer_token(void *user, uint32_t id, const float *logits, size_t n);

/* Writes the members that every answer has, text, ids and finish_reason, to an open JSON object. */
void smol_answer_members(struct json_out *json, const struct answer *answer);

/* Prints the answer as one line of JSON, with its number `index`. Errors: SMOL_ERROR_FILE (a
 * token's text). */
smol_status smol_answer_print(const struct answer *answer, const smol_model *model, uint64_t index,
                              smol_error *error);

/* Prepares for the calls of tools, if the request has tools; prompt (n) is the request's. Errors:
 * MEMORY. */
smol_status smol_answer_expect_calls(struct answer *answer, const smol_model *model,
                                     const uint32_t *prompt, size_t n, smol_error *error);

/* Takes what the reader of calls holds back. Errors: MEMORY. */
smol_status smol_answer_end(struct answer *answer, smol_error *error);

/* Returns the size of the answer's buffers in bytes. */
size_t smol_answer_bytes(const struct answer *answer);

/* Frees the answer's memory and sets it to zeros. */
void smol_answer_free(struct answer *answer);

#endif
