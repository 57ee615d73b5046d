/* The parts of an answer as it comes: reasoning, text, calls of tools. */
#ifndef SMOL_CLI_REQUEST_PARTS_H
#define SMOL_CLI_REQUEST_PARTS_H

#include "cli/request/calls.h"

struct answer_parts {
    smol_reasoning_reader *reasoning_reader; /* or NULL: nothing is reasoning */
    smol_reasoning_limit *limit;             /* or NULL */
    smol_tool_reader *tool_reader;           /* or NULL: nothing is a call */
    struct buffer reasoning, text;           /* UTF-8 */
    struct calls calls;
    /* struct ranked: log-probabilities of the tokens of `text`, and of the newest ones, which may
     * turn out to be of it. The program adds a token to `waiting` before its text. */
    struct buffer logprobs, waiting;
    size_t ranked_size; /* bytes of a token there */
    size_t n_told;      /* bytes of `waiting`: of tokens whose text has come */
    size_t n_tokens, n_reasoning_tokens;
    bool in_call, call_cut; /* the text so far ends within a call; all of it does */
};

/* Prepares for the answer to a request with prompt (n) and its constraint, or NULL. `parts` must
 * stay where it is. Errors: MEMORY. */
smol_status smol_parts_begin(struct answer_parts *parts, const struct request *request,
                             const struct wanted_constraint *constraint, const smol_model *model,
                             const uint32_t *prompt, size_t n, smol_error *error);

/* Sets the parameters of the generation that concern the parts. */
void smol_parts_set(const struct answer_parts *parts, smol_generate_params *params);

/* Takes what smol_on_text receives. Returns false if memory ran out. */
bool smol_parts_add(struct answer_parts *parts, const char *text, size_t size, uint32_t id);

/* Takes what the readers hold back. Returns false if memory ran out. */
bool smol_parts_end(struct answer_parts *parts);

/* Writes the member "completion_tokens_details" of an open object, if n tokens were reasoning. */
void smol_parts_print_details(size_t n_reasoning_tokens, struct json_out *json);

/* Frees the readers and the limit, after the generation; then only what they have found is left. */
void smol_parts_close(struct answer_parts *parts);

/* Frees everything, and sets it to zeros. */
void smol_parts_free(struct answer_parts *parts);

#endif
