/* POST /v1/responses: the part of OpenAI's newer interface that needs no memory of earlier
 * requests. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "smolserve/chat.h"
#include "smolserve/completion.h"
#include "smolserve/endpoints.h"
#include "smolserve/server.h"

/* --- the request ------------------------------------------------------------------------------ */

/* The only message of an input that is a text. */
static smol_status wrap_text(struct request_reader *r)
{
    struct buffer out = {0};
    const uint8_t *start = r->json.at;
    smol_status status = smol_json_string(&r->json, NULL, &(size_t){0});
    if (status)
        return status;
    smol_buffer_print(&out, "[{\"role\": \"user\", \"content\": ");
    smol_buffer_add(&out, (const char *)start, (size_t)(r->json.at - start));
    smol_buffer_add(&out, "}]", 3); /* and a 0 */
    r->request->messages = out.text;
    return out.failed ? smol_fail_memory(r->json.error, "a request") : SMOL_OK;
}

static smol_status set_input(struct request_reader *r)
{
    return smol_json_peek(&r->json) == '"' ? wrap_text(r) : smol_chat_set_items(r);
}

static smol_status set_instructions(struct request_reader *r)
{
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, "expected a string");
    return smol_member_copy_json(r, 0, &smol_body_job(r)->instructions);
}

/* Reads {"format": FORMAT}, in which the members of a JSON schema are those of FORMAT itself. */
static smol_status set_text(struct request_reader *r)
{
    bool found = false;
    struct json_reader at = r->json;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "expected an object");
    smol_status status = smol_member_seek(&at, r->scratch, "format", &found);
    if (!status && found) {
        struct request_reader inner = *r;
        inner.json = at;
        status = smol_set_flat_format(&inner);
    }
    return status ? status : smol_json_skip(&r->json);
}

static smol_status set_truncation(struct request_reader *r)
{
    size_t length = 0;
    r->scratch[0] = '\0';
    smol_status status =
        smol_json_peek(&r->json) == '"' ? smol_json_string(&r->json, r->scratch, &length) : SMOL_OK;
    if (status || smol_member_is(r->scratch, length, "disabled"))
        return status;
    return smol_member_fail(r, "expected disabled: nothing of an input is dropped");
}

static const struct request_member members[] = {
    {"input", set_input},
    {"instructions", set_instructions},
    {"model", smol_body_model},
    {"max_output_tokens", smol_set_max_tokens},
    {"text", set_text},
    {"stream", smol_body_stream},
    {"stream_options", smol_body_stream_options},
    {"truncation", set_truncation},
    REQUEST_MEMBERS,
    REQUEST_CHAT_MEMBERS,
    BODY_INERT_MEMBERS,
    {"tools", smol_body_unsupported},
    {"tool_choice", smol_body_unsupported},
    {"parallel_tool_calls", smol_body_unsupported},
    {"max_tool_calls", smol_body_unsupported},
    {"previous_response_id", smol_body_unsupported},
    {"conversation", smol_body_unsupported},
    {"prompt", smol_body_unsupported},
    {"background", smol_body_unsupported},
    {"include", smol_body_unsupported},
    {"reasoning", smol_body_unsupported},
    {"top_logprobs", smol_body_unsupported},
};

/* Puts the instructions before the messages, as a system message. */
static smol_status add_instructions(struct job *job, smol_error *error)
{
    struct buffer out = {0};
    const char *messages = job->request.messages;
    if (!job->instructions)
        return SMOL_OK;
    smol_buffer_print(&out, "[{\"role\": \"system\", \"content\": ");
    smol_buffer_add(&out, job->instructions, strlen(job->instructions));
    smol_buffer_add(&out, "}, ", 3);
    smol_buffer_add(&out, messages + 1, strlen(messages)); /* without the bracket, with the 0 */
    if (out.failed) {
        free(out.text);
        return smol_fail_memory(error, "a request");
    }
    free(job->request.messages);
    job->request.messages = out.text;
    return SMOL_OK;
}

static smol_status read_response(struct job *job, const char *body, size_t size, char *scratch,
                                 const char **param, smol_error *error)
{
    smol_status status = smol_body_read(job, body, size, scratch, members,
                                        sizeof members / sizeof members[0], param, error);
    if (!status && !job->request.messages) {
        *param = "input";
        return smol_fail(error, SMOL_ERROR_USAGE, "input: missing");
    }
    return status ? status : add_instructions(job, error);
}

/* --- parts of the answer ---------------------------------------------------------------------- */

static void write_null(struct json_out *json, const char *key)
{
    smol_json_key(json, key);
    smol_json_literal(json, "null");
}

static void write_empty(struct json_out *json, const char *key, char open, char close)
{
    smol_json_key(json, key);
    smol_json_open(json, open);
    smol_json_close(json, close);
}

static void write_part(struct json_out *json, const struct buffer *text)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", "output_text");
    smol_json_key(json, "text");
    smol_json_text(json, text->text, text->size);
    write_empty(json, "annotations", '[', ']');
    write_empty(json, "logprobs", '[', ']');
    smol_json_close(json, '}');
}

/* `text` NULL: nothing has been generated yet. */
static void write_item(struct job *job, struct json_out *json, const struct buffer *text,
                       const char *status)
{
    char id[sizeof job->id + 4];
    snprintf(id, sizeof id, "msg_%s", job->id + strlen(job->endpoint->id_prefix));
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", "message");
    smol_json_member_text(json, "id", id);
    smol_json_member_text(json, "status", status);
    smol_json_member_text(json, "role", "assistant");
    smol_json_key(json, "content");
    smol_json_open(json, '[');
    if (text)
        write_part(json, text);
    smol_json_close(json, ']');
    smol_json_close(json, '}');
}

static void write_usage(struct job *job, struct json_out *json)
{
    size_t n_input = smol_job_count(job), n_output = job->replies[0].n_tokens;
    smol_json_key(json, "usage");
    smol_json_open(json, '{');
    smol_json_member_whole(json, "input_tokens", n_input);
    smol_json_key(json, "input_tokens_details");
    smol_json_open(json, '{');
    smol_json_member_whole(json, "cached_tokens", smol_job_count_cached(job));
    smol_json_close(json, '}');
    smol_json_member_whole(json, "output_tokens", n_output);
    smol_json_key(json, "output_tokens_details");
    smol_json_open(json, '{');
    smol_json_member_whole(json, "reasoning_tokens", 0);
    smol_json_close(json, '}');
    smol_json_member_whole(json, "total_tokens", n_input + n_output);
    smol_json_close(json, '}');
}

static const char *status_of(const struct job *job)
{
    return job->replies[0].result.finish == SMOL_FINISH_STOP ? "completed" : "incomplete";
}

/* Writes the members that repeat the request. */
static void write_request(struct job *job, struct json_out *json)
{
    const struct request *request = &job->request;
    if (job->instructions)
        smol_json_member_value(json, "instructions", job->instructions);
    else
        write_null(json, "instructions");
    if (request->max_tokens == SIZE_MAX)
        write_null(json, "max_output_tokens");
    else
        smol_json_member_whole(json, "max_output_tokens", request->max_tokens);
    smol_json_member_flag(json, "parallel_tool_calls", false);
    smol_json_member_flag(json, "store", false);
    smol_json_member_text(json, "tool_choice", "none");
    write_empty(json, "tools", '[', ']');
    smol_json_member_real(json, "temperature", (double)request->sampler.temperature);
    smol_json_member_real(json, "top_p",
                          request->sampler.top_p == 0 ? 1 : (double)request->sampler.top_p);
    smol_json_member_text(json, "truncation", "disabled");
    smol_json_member_whole(json, "seed", request->sampler.seed);
}

/* Writes the object of the response. `text` NULL: it is in progress. */
static void write_object(struct job *job, struct json_out *json, const struct buffer *text)
{
    bool cut = text && strcmp(status_of(job), "completed") != 0;
    smol_json_open(json, '{');
    smol_json_member_text(json, "id", job->id);
    smol_json_member_text(json, "object", "response");
    smol_json_member_whole(json, "created_at", (uint64_t)job->created);
    smol_json_member_text(json, "status", text ? status_of(job) : "in_progress");
    write_null(json, "error");
    smol_json_key(json, "incomplete_details");
    if (cut) {
        smol_json_open(json, '{');
        smol_json_member_text(json, "reason", "max_output_tokens");
        smol_json_close(json, '}');
    } else {
        smol_json_literal(json, "null");
    }
    smol_json_member_text(json, "model", job->generator->name);
    write_request(job, json);
    smol_json_key(json, "output");
    smol_json_open(json, '[');
    if (text)
        write_item(job, json, text, status_of(job));
    smol_json_close(json, ']');
    if (text)
        write_usage(job, json);
    smol_json_close(json, '}');
}

static void write_response(struct job *job, struct json_out *json)
{
    struct buffer text, logprobs;
    smol_reply_take(&job->replies[0], &text, &logprobs);
    write_object(job, json, &text);
    free(text.text);
    free(logprobs.text);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Opens the data of an event: its type and number. */
static struct event begin_event(struct job *job, FILE *out, const char *type)
{
    fprintf(out, "event: %s\n", type);
    struct event event = smol_event_begin(out);
    smol_json_open(&event.json, '{');
    smol_json_member_text(&event.json, "type", type);
    smol_json_member_whole(&event.json, "sequence_number", job->n_events++);
    return event;
}

static void end_event(struct event *event)
{
    smol_json_close(&event->json, '}');
    smol_event_end(event);
}

static void write_state(struct job *job, FILE *out, const char *type, const struct buffer *text)
{
    struct event event = begin_event(job, out, type);
    smol_json_key(&event.json, "response");
    write_object(job, &event.json, text);
    end_event(&event);
}

static void write_item_event(struct job *job, FILE *out, const char *type,
                             const struct buffer *text)
{
    struct event event = begin_event(job, out, type);
    smol_json_member_whole(&event.json, "output_index", 0);
    smol_json_key(&event.json, "item");
    write_item(job, &event.json, text, text ? status_of(job) : "in_progress");
    end_event(&event);
}

/* Opens an event about the only part of the only item. */
static struct event begin_part_event(struct job *job, FILE *out, const char *type)
{
    struct event event = begin_event(job, out, type);
    char id[sizeof job->id + 4];
    snprintf(id, sizeof id, "msg_%s", job->id + strlen(job->endpoint->id_prefix));
    smol_json_member_text(&event.json, "item_id", id);
    smol_json_member_whole(&event.json, "output_index", 0);
    smol_json_member_whole(&event.json, "content_index", 0);
    return event;
}

static void write_part_event(struct job *job, FILE *out, const char *type,
                             const struct buffer *text)
{
    struct event event = begin_part_event(job, out, type);
    smol_json_key(&event.json, "part");
    write_part(&event.json, text);
    end_event(&event);
}

static void write_text_event(struct job *job, FILE *out, const char *type, const char *key,
                             const struct buffer *text)
{
    struct event event = begin_part_event(job, out, type);
    smol_json_key(&event.json, key);
    smol_json_text(&event.json, text->text, text->size);
    write_empty(&event.json, "logprobs", '[', ']');
    end_event(&event);
}

static void write_news(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                       const struct buffer *logprobs, bool ended)
{
    struct reply *reply = &job->replies[index];
    const struct buffer none = {0};
    (void)logprobs;
    if (!reply->began) {
        write_state(job, out, "response.created", NULL);
        write_state(job, out, "response.in_progress", NULL);
        write_item_event(job, out, "response.output_item.added", NULL);
        write_part_event(job, out, "response.content_part.added", &none);
        reply->began = true;
    }
    if (text->size > 0)
        write_text_event(job, out, "response.output_text.delta", "delta", text);
    smol_buffer_add(&reply->sent, text->text, text->size);
    if (!ended)
        return;
    write_text_event(job, out, "response.output_text.done", "text", &reply->sent);
    write_part_event(job, out, "response.content_part.done", &reply->sent);
    write_item_event(job, out, "response.output_item.done", &reply->sent);
}

static void write_end(struct job *job, FILE *out)
{
    char type[40];
    snprintf(type, sizeof type, "response.%s", status_of(job));
    write_state(job, out, type, &job->replies[0].sent);
}

const struct endpoint smol_endpoint_responses = {
    .path = "/v1/responses",
    .id_prefix = "resp_",
    .work = WORK_GENERATE,
    .read = read_response,
    .prepare = smol_chat_prepare,
    .write = write_response,
    .write_event = write_news,
    .write_end = write_end,
};
