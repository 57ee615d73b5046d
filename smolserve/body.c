/* Members of request bodies, see body.h. */
#include "smolserve/body.h"

#include <stdlib.h>
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

/* Hints for a cache that keeps entries for a time; this one keeps them while it has room. */
smol_status smol_body_cache_options(struct request_reader *r)
{
    static const char *const names[] = {"mode", "ttl", NULL};
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_member_only(r, r->json, names);
    return status ? status : smol_json_skip(&r->json);
}

smol_status smol_body_inert(struct request_reader *r)
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

smol_status smol_body_verbosity(struct request_reader *r)
{
    static const char *const words[] = {"medium", NULL};
    size_t i;
    return smol_member_word(r, words, "expected medium as verbosity: models have one", &i);
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

smol_status smol_body_object(struct request_reader *r, const struct object_member *rows, size_t n)
{
    const char *names[MAX_ROWS + 1] = {NULL};
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    for (size_t i = 0; i < n; i++)
        names[i] = rows[i].name;
    smol_status status = smol_member_only(r, r->json, names);
    for (size_t i = 0; i < n && !status; i++) {
        bool found = false;
        struct request_reader inner = *r;
        status = smol_member_seek(&inner.json, r->scratch, names[i], &found);
        if (!status && found && !smol_json_word(&inner.json, "null"))
            status = rows[i].set(&inner);
    }
    return status ? status : smol_json_skip(&r->json);
}

/* --- bodies ----------------------------------------------------------------------------------- */

/* Finds the member `model`, wherever it is, and sets job->model. After an error *param is "model"
 * if that member is at fault. */
static smol_status find_name(struct job *job, char *scratch, const char **param, smol_error *error)
{
    bool found = false;
    size_t length = 0;
    struct request_reader r =
        smol_request_reader(job->body.text, job->body.size, NULL, NULL, scratch, error);
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

/* Finds the model of that name, and takes its defaults. */
static bool find_model(struct job *job, struct refusal *refusal)
{
    job->generator = smol_models_find(&job->server->models, job->model);
    if (!job->generator) {
        smol_refuse(refusal, 404, "model_not_found",
                    "model: \"%.100s\" is not served: GET /v1/models lists the models", job->model);
        smol_refusal_param(refusal, "model");
        return false;
    }
    if (atomic_load(&job->generator->unreadable)) {
        smol_refuse(refusal, 503, "model_unreadable",
                    "the file of the model was damaged while it was in use: it must be replaced");
        return false;
    }
    uint64_t seed = job->request.sampler.seed;
    job->request.sampler = job->generator->sampler;
    job->request.sampler.seed = seed;
    return true;
}

/* Reads all members. After an error *param is the one at fault, or NULL. */
static smol_status read_members(struct job *job, char *scratch, const char **param,
                                smol_error *error)
{
    const struct endpoint *endpoint = job->endpoint;
    struct request_reader r =
        smol_request_reader(job->body.text, job->body.size, &job->request, job, scratch, error);
    smol_status status = smol_request_members(&r, endpoint->members, endpoint->n_members);
    *param = r.field;
    if (!status && job->include_usage && !job->stream) {
        *param = "stream_options";
        status = smol_fail(error, SMOL_ERROR_USAGE, "stream_options: only with stream");
    }
    return status ? status : endpoint->check(job, param, error);
}

bool smol_body_read(struct job *job, struct refusal *refusal)
{
    smol_error error;
    const char *param = NULL;
    bool found = false;
    smol_buffer_add(&job->body, "", 1); /* so that it is never NULL; the size does not count it */
    char *scratch = job->body.failed ? NULL : malloc(job->body.size);
    job->body.size -= scratch != NULL;
    smol_status status =
        scratch ? find_name(job, scratch, &param, &error) : smol_fail_memory(&error, "a request");
    if (!status)
        found = find_model(job, refusal);
    if (found)
        status = read_members(job, scratch, &param, &error);
    if (status) {
        smol_refuse_error(refusal, &error);
        smol_refusal_param(refusal, param);
    }
    free(scratch);
    free(job->body.text);
    job->body = (struct buffer){0};
    return found && !status;
}
