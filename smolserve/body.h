/* Members of request bodies that several endpoints share. */
#ifndef SMOL_SMOLSERVE_BODY_H
#define SMOL_SMOLSERVE_BODY_H

#include "smolserve/job.h"

/* Rows of a table. The first read what every generation has; the second are accepted because they
 * ask for nothing that changes an answer. */
#define BODY_MEMBERS                                                                               \
    REQUEST_MEMBERS, {"model", smol_body_model}, {"n", smol_body_n},                               \
        {"max_tokens", smol_set_max_tokens}, {"stream", smol_body_stream},                         \
        {"stream_options", smol_body_stream_options},                                              \
    {                                                                                              \
        "response_format", smol_set_response_format                                                \
    }
#define BODY_INERT_MEMBERS                                                                         \
    {"user", smol_body_label}, {"safety_identifier", smol_body_label},                             \
        {"prompt_cache_key", smol_body_label}, {"metadata", smol_body_metadata},                   \
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
smol_status smol_body_metadata(struct request_reader *r);
smol_status smol_body_store(struct request_reader *r);
smol_status smol_body_service_tier(struct request_reader *r);

/* Refuses a member that the server does not support, unless its value asks for nothing: null,
 * false, 0, "", [] or {}. */
smol_status smol_body_unsupported(struct request_reader *r);

/* Finds the member `model` of a body, wherever it is, and sets job->model. After an error *param is
 * "model" if that member is at fault. */
smol_status smol_body_find_model(struct job *job, const char *body, size_t size, char *scratch,
                                 const char **param, smol_error *error);

/* Reads a body into the job as its endpoint says, and checks it. After an error *param is the
 * member at fault, or NULL. */
smol_status smol_body_read(struct job *job, const char *body, size_t size, char *scratch,
                           const char **param, smol_error *error);

#endif
