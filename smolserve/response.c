/* The answer of POST /v1/responses: an object of items, or the events that build it. */
#include <stdlib.h>
#include <string.h>

#include "cli/standard.h"
#include "smolserve/completion.h"
#include "smolserve/responses.h"
#include "smolserve/server.h"

/* --- parts of the answer ---------------------------------------------------------------------- */

static void write_empty(struct json_out *json, const char *key, char open, char close)
{
    smol_json_member_open(json, key, open);
    smol_json_close(json, close);
}

/* Makes a JSON list of log-probabilities. The caller frees list->text. */
static bool list_logprobs(const struct job *job, const struct buffer *logprobs, struct buffer *list)
{
    struct held_output held;
    if (smol_held_start(&held, NULL))
        return false;
    struct json_out json = {.file = held.file};
    smol_completion_logprobs(&json, job, logprobs);
    fputc(0, held.file);
    return smol_held_take(&held, list, NULL) == SMOL_OK;
}

/* Appends log-probabilities to those that were sent. *list receives them as JSON; the caller frees
 * list->text. Without any, both stay empty. */
static void add_logprobs(struct job *job, const struct buffer *logprobs, struct buffer *list)
{
    struct reply *reply = &job->replies[0];
    struct buffer *sent = &reply->sent_logprobs;
    *list = (struct buffer){0};
    if (logprobs->size == 0)
        return;
    if (!list_logprobs(job, logprobs, list)) {
        reply->sent.failed = true;
        return;
    }
    bool continues = sent->size > 0;
    if (continues) { /* "]" and 0 become "," */
        sent->size -= 2;
        smol_buffer_add(sent, ",", 1);
    }
    smol_buffer_add(sent, list->text + continues, list->size - continues);
    reply->sent.failed |= sent->failed;
}

static void write_logprobs(struct json_out *json, const struct buffer *list)
{
    smol_json_key(json, "logprobs");
    smol_json_literal(json, list->size > 0 ? list->text : "[]"); /* megabytes, at once */
}

/* `logprobs` is ignored for reasoning, which has none. */
static void write_part(struct json_out *json, bool is_reasoning, const struct buffer *text,
                       const struct buffer *logprobs)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", is_reasoning ? "reasoning_text" : "output_text");
    smol_json_key(json, "text");
    smol_json_text(json, text->text, text->size);
    if (!is_reasoning) {
        write_empty(json, "annotations", '[', ']');
        write_logprobs(json, logprobs);
    }
    smol_json_close(json, '}');
}

static const char *status_of(const struct job *job)
{
    return job->replies[0].result.finish == SMOL_FINISH_STOP ? "completed" : "incomplete";
}

/* Writes a member with the id of the reasoning or the message, or of a call. */
static void write_text_id(const struct job *job, struct json_out *json, const char *key,
                          bool is_reasoning)
{
    char id[sizeof job->id + 4];
    snprintf(id, sizeof id, is_reasoning ? "rs_%s" : "msg_%s",
             job->id + strlen(job->endpoint->id_prefix));
    smol_json_member_text(json, key, id);
}

static void write_call_id(const struct job *job, struct json_out *json, const char *key, size_t i)
{
    char id[sizeof job->id + 24];
    snprintf(id, sizeof id, "fc_%s_%zu", job->id + strlen(job->endpoint->id_prefix), i);
    smol_json_member_text(json, key, id);
}

/* Items: reasoning, if there is any; a message, if there is text; then calls. */
static bool is_reasoning(const struct reply *reply, size_t i)
{
    return i == 0 && reply->sent_reasoning.size > 0;
}

static size_t first_call(const struct reply *reply)
{
    return (reply->sent_reasoning.size > 0) + reply->text_began;
}

static size_t count_items(const struct reply *reply)
{
    return first_call(reply) + reply->sent_calls.n;
}

static const char *status_of_item(const struct job *job, size_t i)
{
    return i + 1 < count_items(&job->replies[0]) ? "completed" : status_of(job);
}

/* Writes item i, the reasoning or the message. */
static void write_text_item(struct job *job, struct json_out *json, size_t i, bool ended)
{
    const struct reply *reply = &job->replies[0];
    bool reasons = is_reasoning(reply, i);
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", reasons ? "reasoning" : "message");
    write_text_id(job, json, "id", reasons);
    smol_json_member_text(json, "status", ended ? status_of_item(job, i) : "in_progress");
    if (reasons)
        write_empty(json, "summary", '[', ']');
    else
        smol_json_member_text(json, "role", "assistant");
    smol_json_member_open(json, "content", '[');
    if (ended)
        write_part(json, reasons, reasons ? &reply->sent_reasoning : &reply->sent,
                   &reply->sent_logprobs);
    smol_json_close(json, ']');
    smol_json_close(json, '}');
}

/* Writes call i of those that were sent. */
static void write_call(struct job *job, struct json_out *json, size_t i, bool ended)
{
    const struct reply *reply = &job->replies[0];
    const struct calls *calls = &reply->sent_calls;
    const struct buffer none = {0}, *arguments = ended ? &calls->items[i].arguments : &none;
    char id[CALL_ID_SIZE];
    smol_call_id(smol_completion_call_seed(job, 0), i, id);
    smol_json_open(json, '{');
    smol_json_member_text(json, "type", "function_call");
    write_call_id(job, json, "id", i);
    smol_json_member_text(json, "call_id", id);
    smol_json_key(json, "name");
    smol_json_text(json, calls->items[i].name.text, calls->items[i].name.size);
    smol_json_key(json, "arguments");
    smol_json_text(json, arguments->text, arguments->size);
    smol_json_member_text(json, "status",
                          ended ? status_of_item(job, i + first_call(reply)) : "in_progress");
    smol_json_close(json, '}');
}

/* Writes item i, which begins or has ended. */
static void write_item(struct job *job, struct json_out *json, size_t i, bool ended)
{
    const struct reply *reply = &job->replies[0];
    if (i < first_call(reply))
        write_text_item(job, json, i, ended);
    else
        write_call(job, json, i - first_call(reply), ended);
}

static void write_usage(struct job *job, struct json_out *json)
{
    size_t n_input = smol_job_count(job), n_output = job->replies[0].parts.n_tokens;
    smol_json_member_open(json, "usage", '{');
    smol_json_member_whole(json, "input_tokens", n_input);
    smol_json_member_open(json, "input_tokens_details", '{');
    smol_json_member_whole(json, "cached_tokens", smol_job_count_cached(job));
    smol_json_member_whole(json, "cache_write_tokens", 0); /* as they are counted for a bill */
    smol_json_close(json, '}');
    smol_json_member_whole(json, "output_tokens", n_output);
    smol_json_member_open(json, "output_tokens_details", '{');
    smol_json_member_whole(json, "reasoning_tokens", job->replies[0].parts.n_reasoning_tokens);
    smol_json_close(json, '}');
    smol_json_member_whole(json, "total_tokens", n_input + n_output);
    smol_json_close(json, '}');
}

/* Writes the members about tools. */
static void write_tools(struct job *job, struct json_out *json)
{
    const char *choice = job->request.tool_choice;
    if (!choice)
        choice = job->tools ? "auto" : "none";
    smol_json_member_flag(json, "parallel_tool_calls", job->tools && !job->request.one_call);
    if (smol_is_choice_word(choice)) {
        smol_json_member_text(json, "tool_choice", choice);
    } else {
        smol_json_member_open(json, "tool_choice", '{');
        smol_json_member_text(json, "type", "function");
        smol_json_member_text(json, "name", choice);
        smol_json_close(json, '}');
    }
    smol_json_member_value(json, "tools", job->tools ? job->tools : "[]");
}

/* Writes the members that repeat the request. */
static void write_request(struct job *job, struct json_out *json)
{
    const struct request *request = &job->request;
    if (job->instructions)
        smol_json_member_value(json, "instructions", job->instructions);
    else
        smol_json_member_null(json, "instructions");
    if (request->max_tokens == SIZE_MAX)
        smol_json_member_null(json, "max_output_tokens");
    else
        smol_json_member_whole(json, "max_output_tokens", request->max_tokens);
    smol_json_member_flag(json, "store", false);
    smol_json_member_value(json, "text",
                           job->text ? job->text : "{\"format\":{\"type\":\"text\"}}");
    write_tools(job, json);
    smol_json_member_real(json, "temperature", (double)request->sampler.temperature);
    smol_json_member_real(json, "top_p",
                          request->sampler.top_p == 0 ? 1 : (double)request->sampler.top_p);
    if (job->logprobs_given)
        smol_json_member_whole(json, "top_logprobs", (uint64_t)request->logprobs);
    smol_json_member_text(json, "truncation", job->truncates ? "auto" : "disabled");
    smol_json_member_whole(json, "seed", request->sampler.seed);
}

/* Writes the object of the response. */
static void write_object(struct job *job, struct json_out *json, bool ended)
{
    bool cut = ended && strcmp(status_of(job), "completed") != 0;
    smol_json_open(json, '{');
    smol_json_member_text(json, "id", job->id);
    smol_json_member_text(json, "object", "response");
    smol_json_member_whole(json, "created_at", (uint64_t)job->created);
    smol_json_member_text(json, "status", ended ? status_of(job) : "in_progress");
    smol_json_member_null(json, "error");
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
    smol_json_member_open(json, "output", '[');
    for (size_t i = 0; ended && i < count_items(&job->replies[0]); i++)
        write_item(job, json, i, true);
    smol_json_close(json, ']');
    if (ended)
        write_usage(job, json);
    smol_json_close(json, '}');
}

void smol_response_whole(struct job *job, struct json_out *json)
{
    struct reply *reply = &job->replies[0];
    struct buffer logprobs, list;
    smol_reply_take(reply, &reply->sent, &logprobs);
    add_logprobs(job, &logprobs, &list);
    free(list.text);
    free(logprobs.text);
    reply->sent_reasoning = reply->thought;
    reply->sent_calls = reply->news;
    reply->thought = (struct buffer){0};
    reply->news = (struct calls){0};
    reply->text_began = reply->sent.size > 0 || count_items(reply) == 0;
    write_object(job, json, true);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Begins an event, which has a number. */
static struct event begin_event(struct job *job, FILE *out, const char *type)
{
    struct event event = smol_event_begin_named(out, type);
    smol_json_member_whole(&event.json, "sequence_number", job->n_events++);
    return event;
}

static void write_state(struct job *job, FILE *out, const char *type, bool ended)
{
    struct event event = begin_event(job, out, type);
    smol_json_key(&event.json, "response");
    write_object(job, &event.json, ended);
    smol_event_end_named(&event);
}

/* Opens an event about the only part of item i, the reasoning or the message. */
static struct event begin_part_event(struct job *job, FILE *out, const char *type, size_t i)
{
    struct event event = begin_event(job, out, type);
    write_text_id(job, &event.json, "item_id", is_reasoning(&job->replies[0], i));
    smol_json_member_whole(&event.json, "output_index", i);
    smol_json_member_whole(&event.json, "content_index", 0);
    return event;
}

static void write_part_event(struct job *job, FILE *out, const char *type, size_t i,
                             const struct buffer *text, const struct buffer *logprobs)
{
    struct event event = begin_part_event(job, out, type, i);
    smol_json_key(&event.json, "part");
    write_part(&event.json, is_reasoning(&job->replies[0], i), text, logprobs);
    smol_event_end_named(&event);
}

/* Writes an event about the text of that part: `what` is "delta" or "done". */
static void write_text_event(struct job *job, FILE *out, const char *what, size_t i,
                             const struct buffer *text, const struct buffer *logprobs)
{
    bool reasons = is_reasoning(&job->replies[0], i);
    char type[40];
    snprintf(type, sizeof type, "response.%s_text.%s", reasons ? "reasoning" : "output", what);
    struct event event = begin_part_event(job, out, type, i);
    smol_json_key(&event.json, strcmp(what, "done") == 0 ? "text" : what);
    smol_json_text(&event.json, text->text, text->size);
    if (!reasons)
        write_logprobs(&event.json, logprobs);
    smol_event_end_named(&event);
}

static void write_arguments_event(struct job *job, FILE *out, const char *type, const char *key,
                                  size_t i, const struct buffer *arguments)
{
    struct event event = begin_event(job, out, type);
    write_call_id(job, &event.json, "item_id", i);
    smol_json_member_whole(&event.json, "output_index", i + first_call(&job->replies[0]));
    smol_json_key(&event.json, key);
    smol_json_text(&event.json, arguments->text, arguments->size);
    smol_event_end_named(&event);
}

/* Tells that item i begins, or has ended. */
static void write_item_event(struct job *job, FILE *out, size_t i, bool ended)
{
    struct event event =
        begin_event(job, out, ended ? "response.output_item.done" : "response.output_item.added");
    smol_json_member_whole(&event.json, "output_index", i);
    smol_json_key(&event.json, "item");
    write_item(job, &event.json, i, ended);
    smol_event_end_named(&event);
}

/* Ends the items before item n. */
static void end_items(struct job *job, FILE *out, size_t n)
{
    struct reply *reply = &job->replies[0];
    for (size_t i = reply->n_ended; i < n; i++) {
        if (i < first_call(reply)) {
            const struct buffer *text =
                is_reasoning(reply, i) ? &reply->sent_reasoning : &reply->sent;
            write_text_event(job, out, "done", i, text, &reply->sent_logprobs);
            write_part_event(job, out, "response.content_part.done", i, text,
                             &reply->sent_logprobs);
        } else {
            size_t call = i - first_call(reply);
            write_arguments_event(job, out, "response.function_call_arguments.done", "arguments",
                                  call, &reply->sent_calls.items[call].arguments);
        }
        write_item_event(job, out, i, true);
    }
    reply->n_ended = n;
}

/* Begins the newest item, the reasoning or the message, after those before it have ended. */
static void begin_text_item(struct job *job, FILE *out)
{
    const struct buffer none = {0};
    size_t newest = count_items(&job->replies[0]) - 1;
    end_items(job, out, newest);
    write_item_event(job, out, newest, false);
    write_part_event(job, out, "response.content_part.added", newest, &none, &none);
}

/* Sends a piece of the reasoning. */
static void write_thought(struct job *job, FILE *out)
{
    const struct buffer none = {0};
    struct reply *reply = &job->replies[0];
    bool begins = reply->sent_reasoning.size == 0;
    if (reply->thought.size == 0)
        return;
    smol_buffer_add(&reply->sent_reasoning, reply->thought.text, reply->thought.size);
    if (begins && !reply->sent_reasoning.failed)
        begin_text_item(job, out);
    if (!reply->sent_reasoning.failed)
        write_text_event(job, out, "delta", 0, &reply->thought, &none);
}

/* Sends a call that begins, or more arguments of the last one. */
static void write_call_news(struct job *job, FILE *out, const struct call *news)
{
    struct reply *reply = &job->replies[0];
    struct calls *calls = &reply->sent_calls;
    if (news->name.size > 0) {
        if (!smol_calls_add(calls, NULL, SMOL_TOOL_CALL, news->name.text, news->name.size)) {
            reply->sent.failed = true;
            return;
        }
        size_t newest = count_items(reply) - 1;
        end_items(job, out, newest);
        write_item_event(job, out, newest, false);
    }
    if (news->arguments.size == 0 || calls->n == 0)
        return;
    write_arguments_event(job, out, "response.function_call_arguments.delta", "delta", calls->n - 1,
                          &news->arguments);
    reply->sent.failed |= !smol_calls_add(calls, NULL, SMOL_TOOL_ARGUMENTS, news->arguments.text,
                                          news->arguments.size);
}

void smol_response_news(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                        const struct buffer *logprobs, bool ended)
{
    struct reply *reply = &job->replies[index];
    struct buffer list;
    add_logprobs(job, logprobs, &list);
    if (!reply->began) {
        write_state(job, out, "response.created", false);
        write_state(job, out, "response.in_progress", false);
        reply->began = true;
    }
    write_thought(job, out);
    bool empty = ended && reply->news.n == 0 && count_items(reply) == 0;
    if (!reply->text_began && (text->size > 0 || list.size > 0 || empty)) {
        reply->text_began = true;
        begin_text_item(job, out);
    }
    if (text->size > 0 || list.size > 0)
        write_text_event(job, out, "delta", first_call(reply) - 1, text, &list);
    free(list.text);
    smol_buffer_add(&reply->sent, text->text, text->size);
    for (size_t i = 0; i < reply->news.n; i++)
        write_call_news(job, out, &reply->news.items[i]);
    if (ended)
        end_items(job, out, count_items(reply));
}

void smol_response_end(struct job *job, FILE *out)
{
    char type[40];
    snprintf(type, sizeof type, "response.%s", status_of(job));
    write_state(job, out, type, true);
}

void smol_response_error(struct job *job, FILE *out, const struct refusal *refusal)
{
    struct event event = begin_event(job, out, "error");
    smol_refusal_write_members(refusal, &event.json);
    smol_event_end_named(&event);
}
