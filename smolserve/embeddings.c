/* POST /v1/embeddings. */
#include <string.h>

#include "smolserve/endpoints.h"
#include "smolserve/prompts.h"
#include "smolserve/server.h"

enum { EMBED_MAX_TEXTS = 2048 }; /* in a request, as for OpenAI */

static smol_status set_encoding(struct request_reader *r)
{
    size_t length = 0;
    smol_status status = SMOL_OK;
    r->scratch[0] = '\0';
    if (smol_json_peek(&r->json) == '"')
        status = smol_json_string(&r->json, r->scratch, &length);
    if (status)
        return status;
    smol_body_job(r)->base64 = smol_member_is(r->scratch, length, "base64");
    return smol_body_job(r)->base64 || smol_member_is(r->scratch, length, "float")
               ? SMOL_OK
               : smol_member_fail(r, "expected float or base64");
}

static const struct request_member members[] = {
    {"input", smol_prompts_set},
    {"model", smol_body_model},
    {"user", smol_body_label},
    {"encoding_format", set_encoding},
    {"dimensions", smol_body_unsupported},
};

static smol_status read_embeddings(struct job *job, const char *body, size_t size, char *scratch,
                                   const char **param, smol_error *error)
{
    smol_status status = smol_body_read(job, body, size, scratch, members,
                                        sizeof members / sizeof members[0], param, error);
    return status ? status : smol_prompts_check(job, "input", EMBED_MAX_TEXTS, param, error);
}

/* OpenAI's package asks for base64 and expects little-endian floats. */
static void write_vector(const struct job *job, struct json_out *json, const float *values,
                         size_t n)
{
    if (job->base64) {
        smol_json_base64(json, values, n * sizeof *values);
        return;
    }
    smol_json_open(json, '[');
    for (size_t i = 0; i < n; i++)
        smol_json_float(json, values[i]);
    smol_json_close(json, ']');
}

static void write_embeddings(struct job *job, struct json_out *json)
{
    size_t width = job->generator->info.hidden_size;
    smol_json_open(json, '{');
    smol_json_member_text(json, "object", "list");
    smol_json_key(json, "data");
    smol_json_open(json, '[');
    for (size_t i = 0; i < job->n_prompts; i++) {
        smol_json_open(json, '{');
        smol_json_member_text(json, "object", "embedding");
        smol_json_member_whole(json, "index", i);
        smol_json_key(json, "embedding");
        write_vector(job, json, job->states + i * width, width);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
    smol_json_member_text(json, "model", job->generator->name);
    smol_json_key(json, "usage");
    smol_json_open(json, '{');
    smol_json_member_whole(json, "prompt_tokens", smol_job_count(job));
    smol_json_member_whole(json, "total_tokens", smol_job_count(job));
    smol_json_close(json, '}');
    smol_json_close(json, '}');
}

const struct endpoint smol_endpoint_embeddings = {
    .path = "/v1/embeddings",
    .id_prefix = "emb-",
    .work = WORK_EMBED,
    .read = read_embeddings,
    .prepare = smol_prompts_tokenize,
    .write = write_embeddings,
};
