/* Requests of --jsonl, see batch.h. */
#include "smolrun/batch.h"

#include <stdlib.h>

#include "cli/request/reasoning.h"
#include "smolrun/prompt.h"

static struct line_request *of(struct request_reader *r)
{
    return r->own;
}

/* --- members of a line's own ------------------------------------------------------------------ */

enum { MAX_ECHO = 256 }; /* bytes of a value that an answer repeats */

/* Copies the JSON text from `start` to the reader's position. */
static smol_status copy_echo(struct request_reader *r, const uint8_t *start, char **out)
{
    size_t size = (size_t)(r->json.at - start);
    return size > MAX_ECHO ? smol_member_fail(r, "longer than 256 bytes")
                           : smol_member_copy(r, start, size, out);
}

static smol_status set_id(struct request_reader *r)
{
    int c = smol_json_peek(&r->json);
    const uint8_t *start = r->json.at;
    struct json_number number;
    int64_t integer;
    size_t length;
    smol_status status = SMOL_OK;
    bool is_number = smol_member_next_is_number(r);
    if (is_number)
        status = smol_json_number(&r->json, &number);
    else if (c == '"')
        status = smol_json_string(&r->json, NULL, &length);
    if (status)
        return status;
    if (is_number ? !smol_json_to_i64(&number, &integer) : c != '"')
        return smol_member_fail(r, "expected a string or an integer of 64 bits");
    return copy_echo(r, start, &of(r)->id);
}

/* Accepts any name, because only one model is loaded. */
static smol_status set_model(struct request_reader *r)
{
    size_t length;
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, "expected a string");
    const uint8_t *start = r->json.at;
    smol_status status = smol_json_string(&r->json, NULL, &length);
    return status ? status : copy_echo(r, start, &of(r)->model);
}

static smol_status set_stream(struct request_reader *r)
{
    if (smol_json_word(&r->json, "false"))
        return SMOL_OK;
    if (smol_json_word(&r->json, "true"))
        return smol_member_fail(r, "an answer is one line: leave it out, or set it to false");
    return smol_member_fail(r, "expected true or false");
}

static const struct request_member members[] = {
    {"id", set_id},
    {"model", set_model},
    {"stream", set_stream},
    {"prompt", smol_set_prompt},
    {"messages", smol_set_messages},
    REQUEST_TOOL_MEMBERS,
    REQUEST_CHAT_MEMBERS,
    REQUEST_TURN_MEMBERS,
    REQUEST_REASONING_MEMBERS,
    {"reasoning_effort", smol_set_effort},
    {"max_tokens", smol_set_max_tokens},
    REQUEST_MEMBERS,
    {"logprobs", smol_set_logprobs},
    {"response_format", smol_set_response_format},
};

/* --- requests ----------------------------------------------------------------------------- */

static smol_status read_all(struct request_reader *r)
{
    const struct request *request = r->request;
    smol_status status = smol_request_members(r, members, sizeof members / sizeof members[0]);
    if (status)
        return status;
    if (!request->prompt == !request->messages)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "request: expected either a prompt or messages");
    if (request->prompt && (request->tools || request->documents || request->variables))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "request: tools, documents and chat_template_kwargs need messages");
    if (request->prompt && (request->continues || request->generation_prompt != PROMPT_DEFAULT))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "request: continue_final_message and add_generation_prompt need messages");
    return SMOL_OK;
}

/* Finds the id of a refused request, anywhere in the line, because the answer must have it too. */
static void find_id(struct request_reader *r)
{
    bool more = false;
    size_t length;
    smol_status status = smol_request_begin(r);
    r->field = "id";
    if (!status)
        status = smol_json_begin(&r->json, '{', &more);
    while (!status && more && !of(r)->id) {
        status = smol_json_name(&r->json, r->scratch, &length);
        bool is_id = smol_member_is(r->scratch, length, "id");
        if (!status && is_id && smol_json_peek(&r->json) != 'n')
            status = set_id(r);
        else if (!status)
            status = smol_json_skip(&r->json);
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
}

smol_status smol_line_read(const char *line, size_t size, const struct settings *settings,
                           struct line_request *request, smol_error *error)
{
    *request = (struct line_request){
        .common = {.sampler = settings->sampler,
                   .max_tokens = settings->max_tokens,
                   .reasoning_budget = settings->reasoning_budget,
                   .stop = settings->stop,
                   .logprobs = -1},
    };
    char *scratch = malloc(size + 1);
    if (!scratch)
        return smol_fail_memory(error, "a request");
    struct request_reader r =
        smol_request_reader(line, size, &request->common, request, scratch, error);
    smol_status status = read_all(&r);
    if (status && !request->id) {
        r = smol_request_reader(line, size, &request->common, request, scratch, NULL);
        find_id(&r);
    }
    free(scratch);
    return status;
}

void smol_line_free(struct line_request *request)
{
    free(request->id);
    free(request->model);
    smol_request_free(&request->common);
    *request = (struct line_request){0};
}

smol_status smol_line_ids(const struct request *request, const struct settings *settings,
                          const smol_model *model, smol_on_progress *on_progress, void *user,
                          uint32_t **ids, size_t *n, smol_error *error)
{
    smol_chat_params chat = smol_request_chat(request, &settings->now);
    chat.on_progress = on_progress;
    chat.user = user;
    if (request->prompt)
        return smol_prompt_text(request->prompt, request->n_prompt, model, on_progress, user, ids,
                                n, error);
    return smol_prompt_chat(settings, model, chat, ids, n, error);
}
