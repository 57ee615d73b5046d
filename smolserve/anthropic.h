/* Anthropic's Messages interface: what its request (anthropic.c, blocks.c) and its answer
 * (anthropic_answer.c) share. */
#ifndef SMOL_SMOLSERVE_ANTHROPIC_H
#define SMOL_SMOLSERVE_ANTHROPIC_H

#include "smolserve/job.h"

/* Read the members `messages` and `tools` as those of a chat. */
smol_status smol_anthropic_set_messages(struct request_reader *r);
smol_status smol_anthropic_set_tools(struct request_reader *r);

/* The answers, see struct endpoint: whole, as events, and a number of tokens. */
void smol_anthropic_whole(struct job *job, struct json_out *json);
void smol_anthropic_news(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                         const struct buffer *logprobs, bool ended);
void smol_anthropic_end(struct job *job, FILE *out);
void smol_anthropic_error(struct job *job, FILE *out, const struct refusal *refusal);
void smol_anthropic_count(struct job *job, struct json_out *json);

/* Writes {"type": "error", "error": {"type", "message", "param", "code"}}. */
void smol_anthropic_refusal(const struct refusal *refusal, struct json_out *json);

#endif
