/* A request for generated text: what the lines of smolrun --jsonl and the bodies that smolserve
 * receives have in common. */
#ifndef SMOL_CLI_REQUEST_REQUEST_H
#define SMOL_CLI_REQUEST_REQUEST_H

#include "cli/options.h"
#include "cli/request/constraints.h"
#include "cli/request/likelihood.h"
#include "cli/request/members.h"

struct request {
    char *prompt;   /* (n_prompt), or NULL */
    char *messages; /* JSON text, or NULL */
    /* JSON texts, or NULL, as in smol_chat_params; only with messages */
    char *tools, *documents, *variables;
    char *tool_choice; /* "auto", "none", "required" or a name; or NULL */
    bool one_call;     /* at most one call of a tool */
    bool continues;    /* the answer continues the last message */
    enum { PROMPT_DEFAULT, PROMPT_ADDED, PROMPT_LEFT_OUT } generation_prompt;
    bool is_chat;            /* it has messages, or had them */
    bool raw_reasoning;      /* reasoning stays in the text, with its markers */
    size_t reasoning_budget; /* tokens; SIZE_MAX: no limit */
    const char *effort;      /* OpenAI's word for it, static, or NULL */
    enum thinking { THINKING_DEFAULT, THINKING_ON, THINKING_OFF } thinking;
    struct wanted_constraint format; /* of the answer */
    size_t n_prompt;
    smol_sampler_params sampler;
    struct buffer biases; /* smol_logit_bias, of the sampler */
    size_t max_tokens;
    struct option_texts stop;
    bool own_stop; /* the request owns the texts of `stop` */
    int logprobs;  /* alternatives for each token, -1: no log-probabilities */
};

/* Rows of a table: members that mean the same in every program. */
#define REQUEST_MEMBERS                                                                            \
    {"temperature", smol_set_temperature}, {"top_k", smol_set_top_k}, {"top_p", smol_set_top_p},   \
        {"min_p", smol_set_min_p}, {"repetition_penalty", smol_set_repetition_penalty},            \
        {"frequency_penalty", smol_set_frequency_penalty},                                         \
        {"presence_penalty", smol_set_presence_penalty}, {"logit_bias", smol_set_logit_bias},      \
        {"seed", smol_set_seed},                                                                   \
    {                                                                                              \
        "stop", smol_set_stop                                                                      \
    }
#define REQUEST_CHAT_MEMBERS                                                                       \
    {"documents", smol_set_documents},                                                             \
    {                                                                                              \
        "chat_template_kwargs", smol_set_variables                                                 \
    }
#define REQUEST_TURN_MEMBERS                                                                       \
    {"add_generation_prompt", smol_set_generation_prompt},                                         \
    {                                                                                              \
        "continue_final_message", smol_set_continues                                               \
    }
smol_status smol_set_prompt(struct request_reader *r);
smol_status smol_set_messages(struct request_reader *r);
smol_status smol_set_documents(struct request_reader *r);
smol_status smol_set_variables(struct request_reader *r);
smol_status smol_set_generation_prompt(struct request_reader *r);
smol_status smol_set_continues(struct request_reader *r);
smol_status smol_set_max_tokens(struct request_reader *r);
smol_status smol_set_temperature(struct request_reader *r);
smol_status smol_set_top_k(struct request_reader *r);
smol_status smol_set_top_p(struct request_reader *r);
smol_status smol_set_min_p(struct request_reader *r);
smol_status smol_set_repetition_penalty(struct request_reader *r);
smol_status smol_set_frequency_penalty(struct request_reader *r);
smol_status smol_set_presence_penalty(struct request_reader *r);
smol_status smol_set_logit_bias(struct request_reader *r);
smol_status smol_set_seed(struct request_reader *r);
smol_status smol_set_stop(struct request_reader *r);
smol_status smol_set_logprobs(struct request_reader *r);
smol_status smol_set_response_format(struct request_reader *r);

/* Reads the same, but with `schema` beside its type instead of within json_schema. */
smol_status smol_set_flat_format(struct request_reader *r);

/* Frees the prompt, or the messages and the other inputs of the chat template. */
void smol_request_drop_text(struct request *request);

/* Frees all members, and sets the request to zeros. */
void smol_request_free(struct request *request);

/* Tokenizes text[0..size) and recognizes special tokens. An empty text becomes bos. `on_progress`
 * (may be NULL) is as for smol_tokenize. The caller frees *ids with smol_free. Errors: USAGE (the
 * text is empty and the model has no bos), MEMORY, CANCELLED. */
smol_status smol_prompt_text(const char *text, size_t size, const smol_model *model,
                             smol_on_progress *on_progress, void *user, uint32_t **ids, size_t *n,
                             smol_error *error);

/* Returns the conversation of a request, which keeps its texts. */
smol_chat_params smol_request_chat(const struct request *request, const struct tm *now);

/* Tokenizes a conversation. Errors: as smol_chat_tokenize, and UNSUPPORTED (the template writes
 * nothing). */
smol_status smol_prompt_messages(const smol_model *model, const smol_chat_params *chat,
                                 uint32_t **ids, size_t *n, smol_error *error);

#endif
