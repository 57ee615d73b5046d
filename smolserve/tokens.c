/* POST /tokenize and /detokenize, in the form of vLLM. */
#include <stdlib.h>

#include "smolserve/body.h"
#include "smolserve/job.h"
#include "smolserve/server.h"

/* --- text to tokens --------------------------------------------------------------------------- */

static smol_status set_text(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, "expected a string");
    return smol_prompts_set(r);
}

static const struct request_member text_members[] = {
    {"model", smol_body_model},
    REQUEST_CHAT_MEMBERS,
    REQUEST_TURN_MEMBERS,
    {"prompt", set_text},
    {"messages", smol_chat_set_messages},
};

static smol_status check_text(struct job *job, const char **param, smol_error *error)
{
    if (!job->n_prompts != !job->request.messages)
        return SMOL_OK;
    *param = "prompt";
    return smol_fail(error, SMOL_ERROR_USAGE, "prompt: expected either a prompt or messages");
}

static smol_status prepare_text(struct job *job, smol_error *error)
{
    return job->request.messages ? smol_chat_prepare(job, error)
                                 : smol_prompts_tokenize(job, error);
}

static void write_tokens(struct job *job, struct json_out *json)
{
    const struct prompt *prompt = &job->prompts[0];
    smol_json_open(json, '{');
    smol_json_member_whole(json, "count", prompt->n);
    smol_json_member_whole(json, "max_model_len", job->generator->capacity);
    smol_json_member_open(json, "tokens", '[');
    for (size_t i = 0; i < prompt->n; i++)
        smol_json_whole(json, prompt->ids[i]);
    smol_json_close(json, ']');
    smol_json_close(json, '}');
}

const struct endpoint smol_endpoint_tokenize = {
    .path = "/tokenize",
    .id_prefix = "tok-",
    .work = WORK_TOKENS,
    .members = text_members,
    .n_members = sizeof text_members / sizeof text_members[0],
    .check = check_text,
    .prepare = prepare_text,
    .write = write_tokens,
};

/* --- tokens to text --------------------------------------------------------------------------- */

static const struct request_member token_members[] = {
    {"model", smol_body_model},
    {"tokens", smol_prompts_set_tokens},
};

static smol_status check_tokens(struct job *job, const char **param, smol_error *error)
{
    return smol_prompts_check(job, "tokens", 1, param, error);
}

/* Special tokens are shown, so that tokenizing the text again gives the tokens back. */
static smol_status prepare_tokens(struct job *job, smol_error *error)
{
    struct prompt *prompt = &job->prompts[0];
    return smol_detokenize(job->generator->model, prompt->ids, prompt->n, 1, &prompt->text,
                           &prompt->size, error);
}

static void write_text(struct job *job, struct json_out *json)
{
    smol_json_open(json, '{');
    smol_json_key(json, "prompt");
    smol_json_text(json, job->prompts[0].text, job->prompts[0].size);
    smol_json_close(json, '}');
}

const struct endpoint smol_endpoint_detokenize = {
    .path = "/detokenize",
    .id_prefix = "tok-",
    .work = WORK_TOKENS,
    .members = token_members,
    .n_members = sizeof token_members / sizeof token_members[0],
    .check = check_tokens,
    .prepare = prepare_tokens,
    .write = write_text,
};
