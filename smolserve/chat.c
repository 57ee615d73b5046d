/* POST /v1/chat/completions. */
#include <stdlib.h>
#include <string.h>

#include "cli/request/reasoning.h"
#include "smolserve/body.h"
#include "smolserve/completion.h"
#include "smolserve/job.h"
#include "smolserve/server.h"

/* --- the request ------------------------------------------------------------------------------ */

static smol_status set_logprobs(struct request_reader *r)
{
    bool wanted;
    smol_status status = smol_member_flag(r, &wanted);
    if (!status && wanted && r->request->logprobs < 0)
        r->request->logprobs = 0;
    smol_body_job(r)->logprobs_given = wanted;
    return status;
}

static smol_status read_modality(struct request_reader *r)
{
    static const char *const words[] = {"text", NULL};
    size_t i;
    return smol_member_word(r, words, "expected [\"text\"]", &i);
}

static smol_status set_modalities(struct request_reader *r)
{
    size_t n = 0;
    smol_status status = SMOL_OK;
    if (smol_json_peek(&r->json) == '[')
        status = smol_member_each(r, '[', read_modality, &n);
    return status || n > 0 ? status : smol_member_fail(r, "expected [\"text\"]");
}

static const struct request_member members[] = {
    {"messages", smol_chat_set_messages},
    BODY_MEMBERS,
    {"max_completion_tokens", smol_set_max_tokens},
    {"logprobs", set_logprobs},
    {"top_logprobs", smol_set_logprobs},
    REQUEST_CHAT_MEMBERS,
    REQUEST_TURN_MEMBERS,
    BODY_INERT_MEMBERS,
    {"modalities", set_modalities},
    REQUEST_TOOL_MEMBERS,
    REQUEST_REASONING_MEMBERS,
    {"functions", smol_body_unsupported},
    {"function_call", smol_body_unsupported},
    {"reasoning_effort", smol_set_effort},
    {"verbosity", smol_body_verbosity},
    {"audio", smol_body_unsupported},
    {"prediction", smol_body_unsupported},
    {"moderation", smol_body_unsupported},
    {"web_search_options", smol_body_unsupported},
};

static smol_status check_chat(struct job *job, const char **param, smol_error *error)
{
    if (!job->request.messages) {
        *param = "messages";
        return smol_fail(error, SMOL_ERROR_USAGE, "messages: missing");
    }
    if (job->request.logprobs > 0 && !job->logprobs_given) {
        *param = "top_logprobs";
        return smol_fail(error, SMOL_ERROR_USAGE, "top_logprobs: only with logprobs: true");
    }
    if (!job->logprobs_given)
        job->request.logprobs = -1;
    return SMOL_OK;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void write_logprobs(const struct job *job, struct json_out *json,
                           const struct buffer *logprobs)
{
    smol_json_key(json, "logprobs");
    if (job->request.logprobs < 0) {
        smol_json_literal(json, "null");
        return;
    }
    smol_json_open(json, '{');
    smol_json_key(json, "content");
    smol_completion_logprobs(json, job, logprobs);
    smol_json_member_null(json, "refusal");
    smol_json_close(json, '}');
}

/* Writes the member "reasoning_content", if there is any. */
static void write_reasoning(const struct reply *reply, struct json_out *json)
{
    if (reply->thought.size == 0)
        return;
    smol_json_key(json, "reasoning_content");
    smol_json_text(json, reply->thought.text, reply->thought.size);
}

static void write_reply(struct job *job, struct json_out *json, uint32_t index)
{
    struct reply *reply = &job->replies[index];
    struct buffer text, logprobs;
    smol_reply_take(reply, &text, &logprobs);
    smol_json_open(json, '{');
    smol_json_member_whole(json, "index", index);
    smol_json_member_open(json, "message", '{');
    smol_json_member_text(json, "role", "assistant");
    write_reasoning(reply, json);
    smol_json_key(json, "content");
    if (text.size > 0 || reply->news.n == 0)
        smol_json_text(json, text.text, text.size);
    else
        smol_json_literal(json, "null");
    smol_calls_print(&reply->news, smol_completion_call_seed(job, index), json);
    smol_reply_drop_news(reply);
    smol_json_member_null(json, "refusal");
    smol_json_close(json, '}');
    write_logprobs(job, json, &logprobs);
    smol_completion_finish(json, reply, true);
    smol_json_close(json, '}');
    free(text.text);
    free(logprobs.text);
}

static void write_chat(struct job *job, struct json_out *json)
{
    smol_completion_begin(job, json, "chat.completion");
    smol_json_member_open(json, "choices", '[');
    for (uint32_t i = 0; i < job->n_replies; i++)
        write_reply(job, json, i);
    smol_json_close(json, ']');
    smol_completion_usage(job, json);
    smol_json_close(json, '}');
}

/* Writes the member "tool_calls" with what is new: calls that begin, and pieces of arguments. */
static void write_call_deltas(const struct job *job, uint32_t reply, struct json_out *json)
{
    const struct calls *news = &job->replies[reply].news;
    size_t index = job->replies[reply].n_calls;
    if (news->n == 0)
        return;
    for (size_t i = 0; i < news->n; i++)
        index -= news->items[i].name.size > 0;
    uint64_t seed = smol_completion_call_seed(job, reply);
    smol_json_member_open(json, "tool_calls", '[');
    for (size_t i = 0; i < news->n; i++) {
        const struct call *call = &news->items[i];
        size_t at = call->name.size > 0 ? index++ : index - 1;
        smol_json_open(json, '{');
        smol_json_member_whole(json, "index", at);
        smol_call_print(call, seed, at, json);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
}

static void write_chunk(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                        const struct buffer *logprobs, bool ended)
{
    struct reply *reply = &job->replies[index];
    struct event event = smol_event_begin(out);
    struct json_out *json = &event.json;
    smol_completion_begin(job, json, "chat.completion.chunk");
    smol_json_member_open(json, "choices", '[');
    smol_json_open(json, '{');
    smol_json_member_whole(json, "index", index);
    smol_json_member_open(json, "delta", '{');
    if (!reply->began)
        smol_json_member_text(json, "role", "assistant");
    write_reasoning(reply, json);
    if (text->size > 0 || (!reply->began && reply->n_calls == 0 && reply->thought.size == 0)) {
        smol_json_key(json, "content");
        smol_json_text(json, text->text, text->size);
    }
    write_call_deltas(job, index, json);
    smol_json_close(json, '}');
    write_logprobs(job, json, logprobs);
    smol_completion_finish(json, reply, ended);
    smol_json_close(json, '}');
    smol_json_close(json, ']');
    smol_completion_no_usage(job, json);
    smol_json_close(json, '}');
    smol_event_end(&event);
    reply->began = true;
}

const struct endpoint smol_endpoint_chat = {
    .path = "/v1/chat/completions",
    .object = "chat.completion.chunk",
    .id_prefix = "chatcmpl-",
    .work = WORK_GENERATE,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_chat,
    .prepare = smol_chat_prepare,
    .write = write_chat,
    .write_event = write_chunk,
    .write_end = smol_completion_end,
};
