/* Texts in request bodies, see body.h. */
#include "smolserve/body.h"

#include <stdlib.h>

#include "smolserve/server.h"

static smol_status read_id(struct request_reader *r, struct buffer *ids)
{
    uint32_t vocab_size = smol_body_job(r)->generator->info.vocab_size;
    uint64_t id = 0;
    smol_status status = smol_member_whole(r, vocab_size - 1, &id);
    const uint32_t narrow = (uint32_t)id;
    smol_buffer_add(ids, (const char *)&narrow, sizeof narrow);
    return status;
}

/* Reads the rest of a list of ids, which is not empty, after its bracket. */
static smol_status read_ids(struct request_reader *r, struct prompt *prompt)
{
    struct buffer ids = {0};
    bool more = true;
    smol_status status = SMOL_OK;
    while (!status && more) {
        status = read_id(r, &ids);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
    }
    prompt->ids = (void *)ids.text;
    prompt->n = ids.size / sizeof *prompt->ids;
    if (!status && ids.failed)
        status = smol_fail_memory(r->json.error, "a request");
    return status;
}

smol_status smol_prompts_add(struct request_reader *r, struct prompt **prompt)
{
    struct job *job = smol_body_job(r);
    *prompt = NULL;
    if (job->n_prompts == MAX_TEXTS)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: more than %d texts", r->field,
                         MAX_TEXTS);
    *prompt = smol_job_add_prompt(job);
    return *prompt ? SMOL_OK : smol_fail_memory(r->json.error, "a request");
}

/* Reads an element of a list: a string, or a list of ids. */
static smol_status read_prompt(struct request_reader *r)
{
    struct prompt *prompt;
    bool more;
    smol_status status = smol_prompts_add(r, &prompt);
    if (!prompt)
        return status;
    if (smol_json_peek(&r->json) == '"')
        return smol_member_text(r, &prompt->text, &prompt->size);
    if (smol_json_peek(&r->json) != '[')
        return smol_member_fail(r, "expected a string, or a list of strings or of token ids");
    status = smol_json_begin(&r->json, '[', &more);
    if (!status && !more)
        return smol_member_fail(r, "a list of token ids is empty");
    return status ? status : read_ids(r, prompt);
}

smol_status smol_prompts_set(struct request_reader *r)
{
    struct json_reader at = r->json;
    bool more;
    size_t n;
    if (smol_json_peek(&r->json) != '[')
        return read_prompt(r);
    smol_status status = smol_json_begin(&at, '[', &more);
    if (status)
        return status;
    if (!more)
        return smol_member_fail(r, "the list is empty");
    int next = smol_json_peek(&at);
    bool has_ids = next != '"' && next != '[';
    return has_ids ? read_prompt(r) : smol_member_each(r, '[', read_prompt, &n);
}

smol_status smol_prompts_set_tokens(struct request_reader *r)
{
    struct prompt *prompt;
    bool more;
    if (smol_json_peek(&r->json) != '[')
        return smol_member_fail(r, "expected a list of token ids");
    smol_status status = smol_prompts_add(r, &prompt);
    if (!prompt)
        return status;
    status = smol_json_begin(&r->json, '[', &more);
    return status || !more ? status : read_ids(r, prompt);
}

smol_status smol_prompts_check(const struct job *job, const char *name, size_t most,
                               const char **param, smol_error *error)
{
    *param = name;
    if (job->n_prompts == 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: missing", name);
    if (job->n_prompts > most)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: %zu texts, but at most %zu are allowed",
                         name, job->n_prompts, most);
    return SMOL_OK;
}

smol_status smol_prompts_tokenize(struct job *job, smol_error *error)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < job->n_prompts; i++) {
        struct prompt *prompt = &job->prompts[i];
        if (!prompt->text)
            continue;
        status = smol_prompt_text(prompt->text, prompt->size, job->generator->model, NULL, NULL,
                                  &prompt->ids, &prompt->n, error);
        if (job->echo)
            continue;
        free(prompt->text);
        prompt->text = NULL;
    }
    return status;
}

void smol_prompts_write_usage(const struct job *job, struct json_out *json)
{
    smol_json_member_open(json, "usage", '{');
    smol_json_member_whole(json, "prompt_tokens", smol_job_count(job));
    smol_json_member_whole(json, "total_tokens", smol_job_count(job));
    smol_json_close(json, '}');
}
