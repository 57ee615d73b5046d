/* Members of request bodies that several endpoints share: settings, conversations, texts. */
#ifndef SMOL_SMOLSERVE_BODY_H
#define SMOL_SMOLSERVE_BODY_H

#include "smolserve/job.h"

/* Rows of a table. BODY_MEMBERS: settings of every generation. BODY_INERT_MEMBERS: members that are
 * checked and then ignored, because they do not change an answer. */
#define BODY_MEMBERS                                                                               \
    REQUEST_MEMBERS, {"model", smol_body_model}, {"n", smol_body_n},                               \
        {"max_tokens", smol_set_max_tokens}, {"stream", smol_body_stream},                         \
        {"stream_options", smol_body_stream_options},                                              \
    {                                                                                              \
        "response_format", smol_set_response_format                                                \
    }
#define BODY_INERT_MEMBERS                                                                         \
    {"user", smol_body_label}, {"safety_identifier", smol_body_label},                             \
        {"prompt_cache_key", smol_body_label}, {"prompt_cache_retention", smol_body_label},        \
        {"prompt_cache_options", smol_body_cache_options}, {"metadata", smol_body_inert},          \
        {"store", smol_body_store},                                                                \
    {                                                                                              \
        "service_tier", smol_body_service_tier                                                     \
    }

struct job *smol_body_job(struct request_reader *r);

smol_status smol_body_model(struct request_reader *r);
smol_status smol_body_n(struct request_reader *r);
smol_status smol_body_stream(struct request_reader *r);
smol_status smol_body_stream_options(struct request_reader *r);
smol_status smol_body_label(struct request_reader *r);
smol_status smol_body_cache_options(struct request_reader *r);
/* Takes an object, which changes no answer. */
smol_status smol_body_inert(struct request_reader *r);
smol_status smol_body_store(struct request_reader *r);
smol_status smol_body_service_tier(struct request_reader *r);
smol_status smol_body_verbosity(struct request_reader *r);

/* Reads an object whose members are among the rows (n, at most MAX_ROWS), in the order of these. A
 * member that is null counts as absent. */
enum { MAX_ROWS = 3 };
struct object_member {
    const char *name;
    smol_status (*set)(struct request_reader *r);
};
smol_status smol_body_object(struct request_reader *r, const struct object_member *rows, size_t n);

/* Refuses a member that the server does not support, unless its value asks for nothing: null,
 * false, 0, "", [] or {}. */
smol_status smol_body_unsupported(struct request_reader *r);

/* Reads the job's body as its endpoint says, checks it, finds its model, and frees the body.
 * Returns false and sets the refusal if that fails. */
bool smol_body_read(struct job *job, struct refusal *refusal);

/* --- conversations: chat.c, messages.c ------------------------------------------------------ */

/* Reads the member `messages`. */
smol_status smol_chat_set_messages(struct request_reader *r);

/* Reads the member `input` of a response, a list of messages, reasoning, calls and their results,
 * as messages. Less important members are dropped. */
smol_status smol_chat_set_items(struct request_reader *r);

/* Reads the member `tools` of a response, in which a function's members are those of the tool. */
smol_status smol_chat_set_flat_tools(struct request_reader *r);

/* Renders and tokenizes the messages. */
smol_status smol_chat_prepare(struct job *job, smol_error *error);

/* Drops the oldest turns of a conversation that leaves too little room for its answer in the
 * context, as far as needed, and renders it again: shorten.c. System messages at the start and the
 * last turn stay. */
smol_status smol_chat_shorten(struct job *job, smol_chat_params chat, struct prompt *prompt,
                              smol_error *error);

/* --- texts, one or several, as strings or as tokens: prompts.c ------------------------------ */

/* Reads a string, a list of strings, a list of token ids, or a list of such lists into the job's
 * prompts: the members `prompt` and `input`. */
smol_status smol_prompts_set(struct request_reader *r);

enum { MAX_TEXTS = 2048 }; /* in a request, as in OpenAI's requests for embeddings */

/* Creates the next prompt of the job; NULL after an error. Errors: USAGE (too many), MEMORY. */
smol_status smol_prompts_add(struct request_reader *r, struct prompt **prompt);

/* Reads a list of token ids: the member `tokens`. */
smol_status smol_prompts_set_tokens(struct request_reader *r);

/* Checks that there are 1 to `most` prompts. `name` is the member's. */
smol_status smol_prompts_check(const struct job *job, const char *name, size_t most,
                               const char **param, smol_error *error);

/* Tokenizes those that are texts. */
smol_status smol_prompts_tokenize(struct job *job, smol_error *error);

/* Writes the member `usage` of an answer for which nothing was generated. */
void smol_prompts_write_usage(const struct job *job, struct json_out *json);

#endif
