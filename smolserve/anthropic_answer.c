/* The answer of POST /v1/messages: a message of blocks, or the events that build it. */
#include <stdlib.h>
#include <string.h>

#include "smolserve/anthropic.h"
#include "smolserve/completion.h"
#include "smolserve/server.h"

/* --- parts of the answer ---------------------------------------------------------------------- */

/* Tokens of the prompt that were in the cache are not among the input. */
static void write_usage(struct job *job, struct json_out *json, bool ended)
{
    const struct answer_parts *parts = &job->replies[0].parts;
    size_t n_cached = smol_job_count_cached(job);
    smol_json_member_open(json, "usage", '{');
    smol_json_member_whole(json, "input_tokens", smol_job_count(job) - n_cached);
    smol_json_member_whole(json, "cache_creation_input_tokens", 0); /* nothing is billed */
    smol_json_member_whole(json, "cache_read_input_tokens", n_cached);
    smol_json_member_whole(json, "output_tokens", ended ? parts->n_tokens : 0);
    smol_json_member_open(json, "output_tokens_details", '{');
    smol_json_member_whole(json, "thinking_tokens", ended ? parts->n_reasoning_tokens : 0);
    smol_json_close(json, '}');
    smol_json_close(json, '}');
}

/* Writes why the answer has ended. */
static void write_reason(const struct job *job, struct json_out *json)
{
    const struct reply *reply = &job->replies[0];
    const char *reason = "end_turn";
    const char *stop = NULL;
    if (reply->result.finish == SMOL_FINISH_CONTEXT_FULL)
        reason = "model_context_window_exceeded";
    else if (reply->result.finish != SMOL_FINISH_STOP)
        reason = "max_tokens";
    else if (reply->n_calls > 0 && !reply->parts.call_cut)
        reason = "tool_use";
    else if (reply->result.stop_text > 0)
        stop = job->request.stop.items[reply->result.stop_text - 1];
    smol_json_member_text(json, "stop_reason", stop ? "stop_sequence" : reason);
    if (stop)
        smol_json_member_text(json, "stop_sequence", stop);
    else
        smol_json_member_null(json, "stop_sequence");
}

/* Opens the message up to its content. */
static void begin_message(const struct job *job, struct json_out *json)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "id", job->id);
    smol_json_member_text(json, "type", "message");
    smol_json_member_text(json, "role", "assistant");
    smol_json_member_text(json, "model", job->generator->name);
    smol_json_member_open(json, "content", '[');
}

static bool is_object(const struct buffer *arguments)
{
    smol_error ignored;
    if (arguments->size == 0)
        return false;
    struct request_reader r =
        smol_request_reader(arguments->text, arguments->size, NULL, NULL, NULL, &ignored);
    return !smol_request_begin(&r) && !smol_json_skip(&r.json) && !smol_json_end(&r.json);
}

/* Writes the object that call i gives its tool. A call that was cut off has its text as
 * INVALID_JSON, as chat templates get it. */
static void write_input(struct reply *reply, struct json_out *json, size_t i)
{
    struct buffer *arguments = &reply->news.items[i].arguments;
    bool cut = reply->parts.call_cut && i + 1 == reply->news.n;
    if (is_object(arguments)) {
        smol_buffer_add(arguments, "", 1);
        reply->sent.failed |= arguments->failed;
        smol_json_member_value(json, "input", arguments->failed ? "null" : arguments->text);
        return;
    }
    smol_json_member_open(json, "input", '{');
    if (cut || arguments->size > 0) {
        smol_json_key(json, "INVALID_JSON");
        smol_json_text(json, arguments->text, arguments->size);
    }
    smol_json_close(json, '}');
}

/* Opens the block of call number i. */
static void begin_call(const struct job *job, struct json_out *json, size_t i,
                       const struct buffer *name)
{
    char id[CALL_ID_SIZE];
    smol_call_id(smol_completion_call_seed(job, 0), i, id);
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", "tool_use");
    smol_json_member_text(json, "id", id);
    smol_json_key(json, "name");
    smol_json_text(json, name->text, name->size);
}

/* Writes a block with a text; `type` is also the name of the member that has it. */
static void write_text_block(struct json_out *json, const char *type, const char *text, size_t size)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", type);
    smol_json_key(json, type);
    smol_json_text(json, text, size);
    if (strcmp(type, "thinking") == 0)
        smol_json_member_text(json, "signature", ""); /* no server checks it */
    smol_json_close(json, '}');
}

/* --- the whole answer ------------------------------------------------------------------------- */

/* An empty answer is an empty text. */
void smol_anthropic_whole(struct job *job, struct json_out *json)
{
    struct reply *reply = &job->replies[0];
    struct buffer text, logprobs;
    smol_reply_take(reply, &text, &logprobs);
    begin_message(job, json);
    if (reply->thought.size > 0)
        write_text_block(json, "thinking", reply->thought.text,
                         job->omits_thinking ? 0 : reply->thought.size);
    if (text.size > 0 || (reply->news.n == 0 && reply->thought.size == 0))
        write_text_block(json, "text", text.text, text.size);
    for (size_t i = 0; i < reply->news.n; i++) {
        begin_call(job, json, i, &reply->news.items[i].name);
        write_input(reply, json, i);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
    write_reason(job, json);
    write_usage(job, json, true);
    smol_json_close(json, '}');
    smol_reply_drop_news(reply);
    free(text.text);
    free(logprobs.text);
}

void smol_anthropic_count(struct job *job, struct json_out *json)
{
    smol_json_open(json, '{');
    smol_json_member_whole(json, "input_tokens", smol_job_count(job));
    smol_json_close(json, '}');
}

/* --- events ----------------------------------------------------------------------------------- */

static void write_start(struct job *job, FILE *out)
{
    struct event event = smol_event_begin_named(out, "message_start");
    smol_json_key(&event.json, "message");
    begin_message(job, &event.json);
    smol_json_close(&event.json, ']');
    smol_json_member_null(&event.json, "stop_reason");
    smol_json_member_null(&event.json, "stop_sequence");
    write_usage(job, &event.json, false);
    smol_json_close(&event.json, '}');
    smol_event_end_named(&event);
}

/* Begins an event about the newest block. */
static struct event begin_block_event(const struct reply *reply, FILE *out, const char *type)
{
    struct event event = smol_event_begin_named(out, type);
    smol_json_member_whole(&event.json, "index", reply->n_blocks - 1);
    return event;
}

static void end_block(struct reply *reply, FILE *out)
{
    if (!reply->block)
        return;
    struct event event = begin_block_event(reply, out, "content_block_stop");
    smol_event_end_named(&event);
    reply->block = NULL;
}

/* Begins a block of a type; `call` is that of tool_use. */
static void begin_block(struct job *job, FILE *out, const char *type, const struct call *call)
{
    struct reply *reply = &job->replies[0];
    end_block(reply, out);
    reply->block = type;
    reply->n_blocks++;
    struct event event = begin_block_event(reply, out, "content_block_start");
    smol_json_key(&event.json, "content_block");
    if (call) {
        begin_call(job, &event.json, reply->n_call_blocks++, &call->name);
        smol_json_member_open(&event.json, "input", '{');
        smol_json_close(&event.json, '}');
        smol_json_close(&event.json, '}');
    } else {
        write_text_block(&event.json, type, "", 0);
    }
    smol_event_end_named(&event);
}

/* Sends a piece of the newest block. */
static void write_delta(const struct reply *reply, FILE *out, const char *type, const char *key,
                        const struct buffer *piece)
{
    if (piece->size == 0)
        return;
    struct event event = begin_block_event(reply, out, "content_block_delta");
    smol_json_member_open(&event.json, "delta", '{');
    smol_json_member_text(&event.json, "type", type);
    smol_json_key(&event.json, key);
    smol_json_text(&event.json, piece->text, piece->size);
    smol_json_close(&event.json, '}');
    smol_event_end_named(&event);
}

/* Sends a piece of thinking or text, in the newest block or a new one. */
static void write_piece(struct job *job, FILE *out, const char *type, const char *delta,
                        const struct buffer *piece)
{
    const struct reply *reply = &job->replies[0];
    bool thinks = strcmp(type, "thinking") == 0;
    if (!reply->block || strcmp(reply->block, type) != 0)
        begin_block(job, out, type, NULL);
    if (!thinks || !job->omits_thinking)
        write_delta(reply, out, delta, type, piece);
}

void smol_anthropic_news(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                         const struct buffer *logprobs, bool ended)
{
    struct reply *reply = &job->replies[index];
    (void)logprobs;
    if (!reply->began)
        write_start(job, out);
    reply->began = true;
    if (reply->thought.size > 0)
        write_piece(job, out, "thinking", "thinking_delta", &reply->thought);
    if (text->size > 0 || (ended && reply->n_blocks == 0 && reply->news.n == 0))
        write_piece(job, out, "text", "text_delta", text);
    for (size_t i = 0; i < reply->news.n; i++) {
        const struct call *call = &reply->news.items[i];
        if (call->name.size > 0)
            begin_block(job, out, "tool_use", call);
        write_delta(reply, out, "input_json_delta", "partial_json", &call->arguments);
    }
    if (ended)
        end_block(reply, out);
}

void smol_anthropic_end(struct job *job, FILE *out)
{
    struct event event = smol_event_begin_named(out, "message_delta");
    smol_json_member_open(&event.json, "delta", '{');
    write_reason(job, &event.json);
    smol_json_close(&event.json, '}');
    write_usage(job, &event.json, true);
    smol_event_end_named(&event);
    event = smol_event_begin_named(out, "message_stop");
    smol_event_end_named(&event);
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Anthropic's words are OpenAI's, but for these. */
static const char *type_of(unsigned http)
{
    switch (http) {
    case 404:
        return "not_found_error";
    case 413:
        return "request_too_large";
    case 503:
        return "overloaded_error";
    case 504:
        return "timeout_error";
    default:
        return http < 500 ? smol_refusal_type(http) : "api_error";
    }
}

/* Writes the members of an open object. */
static void write_error(const struct refusal *refusal, struct json_out *json)
{
    smol_json_member_open(json, "error", '{');
    smol_json_member_text(json, "type", type_of(refusal->http));
    smol_refusal_write_members(refusal, json);
    if (strcmp(refusal->param, "thread") == 0) { /* the package then goes on without */
        smol_json_member_open(json, "details", '{');
        smol_json_member_text(json, "error_code", "thread_unsupported_request");
        smol_json_member_open(json, "unsupported", '[');
        smol_json_text(json, "thread", strlen("thread"));
        smol_json_close(json, ']');
        smol_json_close(json, '}');
    }
    smol_json_close(json, '}');
}

void smol_anthropic_refusal(const struct refusal *refusal, struct json_out *json)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", "error");
    write_error(refusal, json);
    smol_json_close(json, '}');
}

void smol_anthropic_error(struct job *job, FILE *out, const struct refusal *refusal)
{
    (void)job;
    struct event event = smol_event_begin_named(out, "error");
    write_error(refusal, &event.json);
    smol_event_end_named(&event);
}
