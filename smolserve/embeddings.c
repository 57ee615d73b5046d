/* POST /v1/embeddings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "smolserve/body.h"
#include "smolserve/job.h"
#include "smolserve/server.h"

static smol_status set_encoding(struct request_reader *r)
{
    static const char *const words[] = {"float", "base64", NULL};
    size_t i = 0;
    smol_status status = smol_member_word(r, words, "expected float or base64", &i);
    smol_body_job(r)->base64 = i == 1;
    return status;
}

static smol_status set_prompt(struct request_reader *r)
{
    size_t size = 0;
    smol_status status = smol_member_text(r, &smol_body_job(r)->prompt_name, &size);
    if (!status && strlen(smol_body_job(r)->prompt_name) != size)
        return smol_member_fail(r, "expected the name of a prompt");
    return status;
}

/* Embeddings may be cut to their first numbers, which is what some models are trained for. */
static smol_status set_dimensions(struct request_reader *r)
{
    struct job *job = smol_body_job(r);
    uint64_t n = 0;
    smol_status status = smol_member_whole(r, job->generator->info.embedding_size, &n);
    job->dimensions = (size_t)n;
    return status || n > 0 ? status : smol_member_fail(r, "expected at least 1");
}

static const struct request_member members[] = {
    {"input", smol_prompts_set}, {"prompt_name", set_prompt},       {"model", smol_body_model},
    {"user", smol_body_label},   {"encoding_format", set_encoding}, {"dimensions", set_dimensions},
};

static smol_status check_embeddings(struct job *job, const char **param, smol_error *error)
{
    return smol_prompts_check(job, "input", MAX_TEXTS, param, error);
}

/* Puts the model's prompt before each text, then tokenizes. */
static smol_status prepare_embeddings(struct job *job, smol_error *error)
{
    const char *prompt;
    if (job->generator->info.is_reranker)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%s: a reranker, which makes no embeddings: use /v1/rerank",
                         job->generator->name);
    smol_status status = smol_model_prompt(job->generator->model, job->prompt_name, &prompt, error);
    size_t n = status ? 0 : strlen(prompt);
    for (size_t i = 0; n > 0 && i < job->n_prompts; i++) {
        struct prompt *text = &job->prompts[i];
        if (!text->text)
            continue;
        char *whole = malloc(n + text->size + 1);
        if (!whole)
            return smol_fail_memory(error, "a request");
        memcpy(whole, prompt, n);
        memcpy(whole + n, text->text, text->size);
        whole[n + text->size] = '\0';
        free(text->text);
        text->text = whole;
        text->size += n;
    }
    return status ? status : smol_prompts_tokenize(job, error);
}

/* Scales the first n numbers of an embedding to length 1. */
static void normalize(float *values, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)values[i] * (double)values[i];
    for (size_t i = 0; squares > 0 && i < n; i++)
        values[i] = (float)((double)values[i] / sqrt(squares));
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
    size_t width = job->generator->info.embedding_size;
    size_t n = job->dimensions ? job->dimensions : width;
    smol_json_open(json, '{');
    smol_json_member_text(json, "object", "list");
    smol_json_member_open(json, "data", '[');
    for (size_t i = 0; i < job->n_prompts; i++) {
        smol_json_open(json, '{');
        smol_json_member_text(json, "object", "embedding");
        smol_json_member_whole(json, "index", i);
        smol_json_key(json, "embedding");
        if (n < width)
            normalize(job->states + i * width, n);
        write_vector(job, json, job->states + i * width, n);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
    smol_json_member_text(json, "model", job->generator->name);
    smol_prompts_write_usage(job, json);
    smol_json_close(json, '}');
}

const struct endpoint smol_endpoint_embeddings = {
    .path = "/v1/embeddings",
    .id_prefix = "emb-",
    .work = WORK_EMBED,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_embeddings,
    .prepare = prepare_embeddings,
    .write = write_embeddings,
};
