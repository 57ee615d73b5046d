/* A request of --jsonl: a JSON object on a line. */
#ifndef SMOL_SMOLRUN_REQUEST_H
#define SMOL_SMOLRUN_REQUEST_H

#include "cli/request/calls.h"
#include "cli/request/request.h"
#include "smolrun/settings.h"

struct line_request {
    struct request common;
    char *id, *model; /* JSON texts, echoed; or NULL */
};

/* Reads line[0..size). Missing members have the values of `settings`. Call smol_line_free after
 * errors too. Errors: USAGE (invalid JSON, unknown or wrong members), UNSUPPORTED (too deep, too
 * large), MEMORY. */
smol_status smol_line_read(const char *line, size_t size, const struct settings *settings,
                           struct line_request *request, smol_error *error);
void smol_line_free(struct line_request *request);

/* Tokenizes the prompt or the messages. The caller frees *ids with smol_free. `on_progress` is as
 * for smol_tokenize. Errors: as smol_prompt_text and smol_prompt_chat. */
smol_status smol_line_ids(const struct request *request, const struct settings *settings,
                          const smol_model *model, smol_on_progress *on_progress, void *user,
                          uint32_t **ids, size_t *n, smol_error *error);

#endif
