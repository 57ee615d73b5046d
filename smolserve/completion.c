/* Parts of answers, see completion.h. */
#include "smolserve/completion.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "smolserve/server.h"

void smol_completion_begin(struct job *job, struct json_out *json, const char *object)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "id", job->id);
    smol_json_member_text(json, "object", object);
    smol_json_member_whole(json, "created", (uint64_t)job->created);
    smol_json_member_text(json, "model", job->generator->name);
    smol_json_member_text(json, "system_fingerprint", "smol-" SMOL_VERSION);
    smol_json_member_whole(json, "seed", job->request.sampler.seed);
}

void smol_completion_usage(struct job *job, struct json_out *json)
{
    size_t n = 0, n_reasoning = 0;
    pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < job->n_replies; i++) {
        n += job->replies[i].parts.n_tokens;
        n_reasoning += job->replies[i].parts.n_reasoning_tokens;
    }
    pthread_mutex_unlock(&job->lock);
    smol_json_member_open(json, "usage", '{');
    smol_json_member_whole(json, "prompt_tokens", smol_job_count(job));
    smol_json_member_whole(json, "completion_tokens", n);
    smol_json_member_whole(json, "total_tokens", smol_job_count(job) + n);
    smol_json_member_open(json, "prompt_tokens_details", '{');
    smol_json_member_whole(json, "cached_tokens", smol_job_count_cached(job));
    smol_json_close(json, '}');
    smol_parts_print_details(n_reasoning, json);
    smol_json_close(json, '}');
}

void smol_completion_finish(struct json_out *json, const struct reply *reply, bool ended)
{
    smol_json_key(json, "finish_reason");
    if (!ended)
        smol_json_literal(json, "null");
    else if (reply->result.finish != SMOL_FINISH_STOP)
        smol_json_literal(json, "\"length\"");
    else
        smol_json_literal(json, reply->n_calls > 0 && !reply->parts.call_cut ? "\"tool_calls\""
                                                                             : "\"stop\"");
}

struct event smol_event_begin(FILE *out)
{
    fputs("data: ", out);
    return (struct event){out, {.file = out}};
}

void smol_event_end(struct event *event)
{
    fputs("\n\n", event->file);
}

struct event smol_event_begin_named(FILE *out, const char *name)
{
    fprintf(out, "event: %s\n", name);
    struct event event = smol_event_begin(out);
    smol_json_open(&event.json, '{');
    smol_json_member_text(&event.json, "type", name);
    return event;
}

void smol_event_end_named(struct event *event)
{
    smol_json_close(&event->json, '}');
    smol_event_end(event);
}

void smol_completion_no_usage(const struct job *job, struct json_out *json)
{
    if (!job->include_usage)
        return;
    smol_json_member_null(json, "usage");
}

bool smol_completion_events(struct job *job, FILE *out)
{
    bool failed = false;
    for (uint32_t i = 0; i < job->n_replies; i++) {
        struct reply *reply = &job->replies[i];
        struct buffer text, logprobs;
        bool ended = smol_reply_take(reply, &text, &logprobs);
        bool any = text.size > 0 || reply->thought.size > 0 || reply->news.n > 0;
        if (any || logprobs.size > 0 || (ended && !reply->finish_sent))
            job->endpoint->write_event(job, out, i, &text, &logprobs, ended);
        reply->finish_sent |= ended;
        smol_reply_drop_news(reply);
        free(text.text);
        free(logprobs.text);
        failed |= reply->sent.failed || reply->sent_reasoning.failed || logprobs.failed;
    }
    return !failed;
}

uint64_t smol_completion_call_seed(const struct job *job, uint32_t index)
{
    const struct prompt *prompt = &job->prompts[index / job->n];
    return smol_digest(prompt->ids, prompt->n * sizeof *prompt->ids) + index % job->n;
}

static void write_usage_event(struct job *job, FILE *out)
{
    struct event event = smol_event_begin(out);
    smol_completion_begin(job, &event.json, job->endpoint->object);
    smol_json_member_open(&event.json, "choices", '[');
    smol_json_close(&event.json, ']');
    smol_completion_usage(job, &event.json);
    smol_json_close(&event.json, '}');
    smol_event_end(&event);
}

void smol_completion_end(struct job *job, FILE *out)
{
    if (job->include_usage)
        write_usage_event(job, out);
    fputs("data: [DONE]\n\n", out);
}

/* Writes the members of an open object. */
static void write_token(struct json_out *json, const smol_model *model, const struct ranked *one)
{
    const char *text = "";
    size_t size = 0;
    smol_token_text(model, one->id, &text, &size, NULL, NULL);
    smol_json_key(json, "token");
    smol_json_text(json, text, size);
    smol_json_member_real(json, "logprob", one->log_probability);
    smol_json_member_open(json, "bytes", '[');
    for (size_t i = 0; i < size; i++)
        smol_json_whole(json, (unsigned char)text[i]);
    smol_json_close(json, ']');
}

/* Writes a token and its alternatives: ranked (1 + n_alternatives). */
static void write_ranked(struct json_out *json, const smol_model *model,
                         const struct ranked *ranked, size_t n_alternatives)
{
    smol_json_open(json, '{');
    write_token(json, model, &ranked[0]);
    smol_json_member_open(json, "top_logprobs", '[');
    for (size_t i = 1; i <= n_alternatives; i++) {
        if (ranked[i].id == SMOL_NO_TOKEN)
            continue;
        smol_json_open(json, '{');
        write_token(json, model, &ranked[i]);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
    smol_json_close(json, '}');
}

void smol_completion_logprobs(struct json_out *json, const struct job *job,
                              const struct buffer *logprobs)
{
    const struct ranked *ranked = (const void *)logprobs->text;
    size_t n_alternatives = (size_t)job->request.logprobs;
    size_t n = logprobs->size / sizeof *ranked / (1 + n_alternatives);
    smol_json_open(json, '[');
    for (size_t i = 0; i < n; i++, ranked += 1 + n_alternatives)
        write_ranked(json, job->generator->model, ranked, n_alternatives);
    smol_json_close(json, ']');
}
