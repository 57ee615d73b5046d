/* Reasoning that requests ask for. */
#ifndef SMOL_CLI_REQUEST_REASONING_H
#define SMOL_CLI_REQUEST_REASONING_H

#include "cli/request/request.h"

/* The values of `reasoning_format`, as in llama-server: the first two separate reasoning from the
 * reply, "none" leaves it in the text. Ends with NULL. */
extern const char *const smol_reasoning_words[];
enum { REASONING_NONE = 2 }; /* index of "none" */

/* Rows of a table, beside REQUEST_CHAT_MEMBERS. */
#define REQUEST_REASONING_MEMBERS                                                                  \
    {"reasoning_format", smol_set_reasoning_format},                                               \
    {                                                                                              \
        "thinking_budget_tokens", smol_set_reasoning_budget                                        \
    }

smol_status smol_set_reasoning_format(struct request_reader *r);
smol_status smol_set_reasoning_budget(struct request_reader *r);

/* Reads OpenAI's word for the amount of reasoning. */
smol_status smol_set_effort(struct request_reader *r);

/* Turns the thinking and the effort that a request with messages asks for into variables of the
 * model's template; none is also a limit of no tokens. Errors: UNSUPPORTED (the model has no such
 * levels), MEMORY. */
smol_status smol_request_apply_effort(struct request *request, const smol_model *model,
                                      smol_error *error);

/* Returns whether reasoning is separated in the answer to a request: in one to a conversation,
 * unless the request asks for all text. */
bool smol_request_separates(const struct request *request);

/* If the request begins the answer to prompt (n) itself, its rest is text, in which no reasoning is
 * sought or limited, unless the prompt ends with the first marker. Errors: MEMORY. */
smol_status smol_request_settle_begun(struct request *request, const smol_model *model,
                                      const uint32_t *prompt, size_t n, smol_error *error);

/* Sets constraint->reasoning for the answer to a request with prompt (n): none if it is not
 * separated, unless the constraint allows any text. Errors: MEMORY. */
smol_status smol_request_reasoning(const struct request *request, const smol_model *model,
                                   const uint32_t *prompt, size_t n,
                                   struct wanted_constraint *constraint, smol_error *error);

#endif
