/* POST /v1/rerank, in the form that clients of Cohere, Jina and vLLM share, and /v2/rerank, where
 * newer clients of Cohere send the same. */
#include <stdlib.h>
#include <string.h>

#include "smolserve/body.h"
#include "smolserve/job.h"
#include "smolserve/server.h"

static smol_status set_query(struct request_reader *r)
{
    struct job *job = smol_body_job(r);
    return smol_member_text(r, &job->query, &job->n_query);
}

/* 0 stands for all, as for vLLM. */
static smol_status set_top_n(struct request_reader *r)
{
    uint64_t n = 0;
    smol_status status = smol_member_whole(r, UINT32_MAX, &n);
    smol_body_job(r)->top_n = (size_t)n;
    return status;
}

static smol_status set_return_documents(struct request_reader *r)
{
    return smol_member_flag(r, &smol_body_job(r)->return_texts);
}

/* Reads the members of an object: the text, and none that could change its score. */
static smol_status read_object(struct request_reader *r, struct prompt *prompt)
{
    size_t length;
    bool more;
    smol_status status = smol_json_begin(&r->json, '{', &more);
    while (!status && more) {
        status = smol_json_name(&r->json, r->scratch, &length);
        if (status)
            return status;
        if (!smol_json_word(&r->json, "null")) {
            if (!smol_member_is(r->scratch, length, "text") || prompt->text)
                return smol_member_fail(r, "an object may have one member, text");
            status = smol_member_text(r, &prompt->text, &prompt->size);
        }
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
    return status || prompt->text ? status : smol_member_fail(r, "an object has no text");
}

static smol_status read_document(struct request_reader *r)
{
    struct prompt *prompt;
    smol_status status = smol_prompts_add(r, &prompt);
    if (!prompt)
        return status;
    int next = smol_json_peek(&r->json);
    if (next != '"' && next != '{')
        return smol_member_fail(r, "expected strings, or objects with a text");
    return next == '{' ? read_object(r, prompt) : smol_member_text(r, &prompt->text, &prompt->size);
}

static smol_status set_documents(struct request_reader *r)
{
    size_t n;
    if (smol_json_peek(&r->json) != '[')
        return smol_member_fail(r, "expected a list");
    smol_status status = smol_member_each(r, '[', read_document, &n);
    return status || n > 0 ? status : smol_member_fail(r, "the list is empty");
}

static const struct request_member members[] = {
    {"documents", set_documents},
    {"model", smol_body_model},
    {"query", set_query},
    {"top_n", set_top_n},
    {"return_documents", set_return_documents},
    {"user", smol_body_label},
    {"rank_fields", smol_body_unsupported},
    {"max_chunks_per_doc", smol_body_unsupported},
    {"max_tokens_per_doc", smol_body_unsupported},
    {"truncate_prompt_tokens", smol_body_unsupported},
};

static smol_status check_rerank(struct job *job, const char **param, smol_error *error)
{
    if (!job->query) {
        *param = "query";
        return smol_fail(error, SMOL_ERROR_USAGE, "query: missing");
    }
    smol_status status = smol_prompts_check(job, "documents", MAX_TEXTS, param, error);
    if (status || job->generator->info.is_reranker)
        return status;
    *param = "model";
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "model: \"%s\" is not a reranker: it scores no pairs of texts",
                     job->generator->name);
}

/* Tokenizes each text together with the query. What is longer than the model's longest text is left
 * out. */
static smol_status prepare_rerank(struct job *job, smol_error *error)
{
    smol_status status = SMOL_OK;
    job->ranking = calloc(job->n_prompts, sizeof *job->ranking);
    if (!job->ranking)
        return smol_fail_memory(error, "a request");
    for (size_t i = 0; !status && i < job->n_prompts; i++) {
        struct prompt *prompt = &job->prompts[i];
        status = smol_tokenize_pair(job->generator->model, job->query, job->n_query, prompt->text,
                                    prompt->size, &prompt->ids, &prompt->n, error);
        if (job->return_texts)
            continue;
        free(prompt->text);
        prompt->text = NULL;
    }
    return status;
}

/* The higher score first; of equal ones the earlier text. */
static int compare(const void *a, const void *b)
{
    const struct ranked_text *left = a, *right = b;
    if (left->score != right->score)
        return left->score > right->score ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static void write_result(const struct job *job, struct json_out *json,
                         const struct ranked_text *ranked)
{
    const struct prompt *prompt = &job->prompts[ranked->index];
    smol_json_open(json, '{');
    smol_json_member_whole(json, "index", ranked->index);
    smol_json_key(json, "relevance_score");
    smol_json_float(json, ranked->score);
    if (job->return_texts) {
        smol_json_member_open(json, "document", '{');
        smol_json_key(json, "text");
        smol_json_text(json, prompt->text, prompt->size);
        smol_json_close(json, '}');
    }
    smol_json_close(json, '}');
}

static void write_rerank(struct job *job, struct json_out *json)
{
    size_t n = job->n_prompts, most = job->top_n > 0 && job->top_n < n ? job->top_n : n;
    for (size_t i = 0; i < n; i++)
        job->ranking[i] = (struct ranked_text){job->states[i], i};
    qsort(job->ranking, n, sizeof *job->ranking, compare);
    smol_json_open(json, '{');
    smol_json_member_text(json, "id", job->id);
    smol_json_member_text(json, "model", job->generator->name);
    smol_json_member_open(json, "results", '[');
    for (size_t i = 0; i < most; i++)
        write_result(job, json, &job->ranking[i]);
    smol_json_close(json, ']');
    smol_prompts_write_usage(job, json);
    smol_json_close(json, '}');
}

const struct endpoint smol_endpoint_rerank = {
    .path = "/v1/rerank",
    .other_path = "/v2/rerank",
    .id_prefix = "rerank-",
    .work = WORK_EMBED,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_rerank,
    .prepare = prepare_rerank,
    .write = write_rerank,
};
