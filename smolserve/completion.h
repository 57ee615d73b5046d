/* Parts of answers that the endpoints for text share. */
#ifndef SMOL_SMOLSERVE_COMPLETION_H
#define SMOL_SMOLSERVE_COMPLETION_H

#include "smolserve/job.h"

/* Opens the object of an answer: its id, type, time and model, and the seed of a sampled one. */
void smol_completion_begin(struct job *job, struct json_out *json, const char *object);

/* Writes the member `usage`. */
void smol_completion_usage(struct job *job, struct json_out *json);

/* Writes the member `usage` of all other events, if the last one has it: null. */
void smol_completion_no_usage(const struct job *job, struct json_out *json);

/* Writes what is new of all replies as events, see smol_reply_take. Returns false if memory runs
 * out. */
bool smol_completion_events(struct job *job, FILE *out);

/* Writes the end of a stream: with `include_usage` an event without choices, and that it is done.
 */
void smol_completion_end(struct job *job, FILE *out);

/* Writes the member `finish_reason`: null until the reply has ended. */
void smol_completion_finish(struct json_out *json, const struct reply *reply, bool ended);

/* Returns what the ids of a reply's calls are made of, see smol_call_id. */
uint64_t smol_completion_call_seed(const struct job *job, uint32_t reply);

/* Writes a server-sent event with one object, which `write` writes. */
struct event {
    FILE *file;
    struct json_out json;
};
struct event smol_event_begin(FILE *out);
void smol_event_end(struct event *event);

/* Begins and ends one with a name, which the object, open in between, has as its "type". */
struct event smol_event_begin_named(FILE *out, const char *name);
void smol_event_end_named(struct event *event);

/* Writes a list of tokens in the form of chat completions: the text of each, with "bytes", its
 * log-probability, and those of its alternatives. `logprobs` is what smol_reply_take returns. */
void smol_completion_logprobs(struct json_out *json, const struct job *job,
                              const struct buffer *logprobs);

#endif
