/* The answers of POST /v1/responses, see struct endpoint: whole, and as events. */
#ifndef SMOL_SMOLSERVE_RESPONSES_H
#define SMOL_SMOLSERVE_RESPONSES_H

#include "smolserve/job.h"

void smol_response_whole(struct job *job, struct json_out *json);
void smol_response_news(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                        const struct buffer *logprobs, bool ended);
void smol_response_end(struct job *job, FILE *out);
void smol_response_error(struct job *job, FILE *out, const struct refusal *refusal);

#endif
