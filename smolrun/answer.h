/* What a generation brings, gathered, and shown as JSON. */
#ifndef SMOL_SMOLRUN_ANSWER_H
#define SMOL_SMOLRUN_ANSWER_H

#include "cli/json_out.h"
#include "cli/text.h"
#include "smolrun/request.h"

extern const char *const smol_finish_words[]; /* "stop" ..., by smol_finish */

struct answer {
    struct request request;
    smol_error error; /* or OK */
    smol_generate_result result;
    struct buffer text, ids, logprobs; /* UTF-8, uint32_t, struct ranked (choice.h) */
    bool done;
};

/* smol_on_text and smol_on_token of an answer, which is `user`. */
int smol_answer_text(void *user, const char *text, size_t size, uint32_t id);
void smol_answer_token(void *user, uint32_t id, const float *logits, size_t n);

/* The members of JSON that every answer has, text, ids and finish_reason, in an object that is
 * open. */
void smol_answer_members(struct json_out *json, const struct answer *answer);

/* Prints it as one line, number `index` of its kind. Errors: SMOL_ERROR_FILE (a token's text). */
smol_status smol_answer_print(const struct answer *answer, const smol_model *model, uint64_t index,
                              smol_error *error);

/* Bytes that it takes. */
size_t smol_answer_bytes(const struct answer *answer);

/* All zeros again. */
void smol_answer_free(struct answer *answer);

#endif
