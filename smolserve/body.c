/* Members of request bodies, see body.h. */
#include "smolserve/body.h"

#include <string.h>

#include "smolserve/server.h"

struct job *smol_body_job(struct request_reader *r)
{
    return r->own;
}

/* --- members ---------------------------------------------------------------------------------- */

/* smol_body_find_model has read it. */
smol_status smol_body_model(struct request_reader *r)
{
    return smol_json_skip(&r->json);
}

smol_status smol_body_n(struct request_reader *r)
{
    struct job *job = smol_body_job(r);
    uint32_t most = job->server->settings->n_sequences;
    uint64_t n = 0;
    most = most < SERVE_MAX_CHOICES ? most : SERVE_MAX_CHOICES;
    smol_status status = smol_member_whole(r, most, &n);
    if (!status && n == 0)
        return smol_member_fail(r, "expected at least 1");
    job->n = (uint32_t)n;
    return status;
}

smol_status smol_body_stream(struct request_reader *r)
{
    return smol_member_flag(r, &smol_body_job(r)->stream);
}

static smol_status set_stream_option(struct request_reader *r)
{
    size_t length;
    bool unused;
    smol_status status = smol_json_name(&r->json, r->scratch, &length);
    if (status)
        return status;
    if (smol_member_is(r->scratch, length, "include_usage"))
        return smol_member_flag(r, &smol_body_job(r)->include_usage);
    if (smol_member_is(r->scratch, length, "include_obfuscation"))
        return smol_member_flag(r, &unused); /* chunks are never padded */
    return smol_member_fail(r, "has an unknown member");
}

smol_status smol_body_stream_options(struct request_reader *r)
{
    size_t n;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    return smol_member_each(r, '{', set_stream_option, &n);
}

smol_status smol_body_label(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, "expected a string");
    return smol_json_skip(&r->json);
}

smol_status smol_body_metadata(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    return smol_json_skip(&r->json);
}

smol_status smol_body_store(struct request_reader *r)
{
    bool store;
    smol_status status = smol_member_flag(r, &store);
    return status || !store ? status : smol_member_fail(r, "this server stores nothing");
}

smol_status smol_body_service_tier(struct request_reader *r)
{
    static const char *const words[] = {"auto", "default", NULL};
    size_t i;
    return smol_member_word(r, words, "expected auto or default: this server has one tier", &i);
}

smol_status smol_body_unsupported(struct request_reader *r)
{
    static const char *const nothing[] = {"false", "0", "0.0", "\"\"", "[]", "{}"};
    smol_json_peek(&r->json);
    const char *start = (const char *)r->json.at;
    smol_status status = smol_json_skip(&r->json);
    if (status)
        return status;
    size_t size = (size_t)((const char *)r->json.at - start);
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        if (smol_member_is(start, size, nothing[i]))
            return SMOL_OK;
    return smol_member_fail(r, "not supported by this server");
}

/* --- bodies ----------------------------------------------------------------------------------- */

smol_status smol_body_find_model(struct job *job, const char *body, size_t size, char *scratch,
                                 const char **param, smol_error *error)
{
    bool found = false;
    size_t length = 0;
    struct request_reader r = smol_request_reader(body, size, NULL, NULL, scratch, error);
    smol_status status = smol_request_begin(&r);
    if (!status)
        status = smol_member_seek(&r.json, scratch, "model", &found);
    if (status)
        return status;
    if (found && smol_json_peek(&r.json) == '"')
        status = smol_json_string(&r.json, scratch, &length);
    if (status)
        return status;
    *param = "model";
    if (length == 0 || memchr(scratch, 0, length))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "model: expected a string, a name: GET /v1/models lists the models");
    snprintf(job->model, sizeof job->model, "%s", scratch); /* a longer name is none of a model's */
    return SMOL_OK;
}

smol_status smol_body_read(struct job *job, const char *body, size_t size, char *scratch,
                           const char **param, smol_error *error)
{
    const struct endpoint *endpoint = job->endpoint;
    struct request_reader r = smol_request_reader(body, size, &job->request, job, scratch, error);
    smol_status status = smol_request_members(&r, endpoint->members, endpoint->n_members);
    *param = r.field;
    if (!status && job->include_usage && !job->stream) {
        *param = "stream_options";
        status = smol_fail(error, SMOL_ERROR_USAGE, "stream_options: only with stream");
    }
    return status ? status : endpoint->check(job, param, error);
}
