/* Texts in request bodies: one or several, as strings or as tokens. */
#ifndef SMOL_SMOLSERVE_PROMPTS_H
#define SMOL_SMOLSERVE_PROMPTS_H

#include "smolserve/body.h"

/* Reads a string, a list of strings, a list of token ids, or a list of such lists into the job's
 * prompts: the members `prompt` and `input`. */
smol_status smol_prompts_set(struct request_reader *r);

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
