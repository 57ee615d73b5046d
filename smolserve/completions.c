/* POST /v1/completions. */
#include <stdlib.h>
#include <string.h>

#include "smolserve/body.h"
#include "smolserve/completion.h"
#include "smolserve/job.h"
#include "smolserve/server.h"

static smol_status set_echo(struct request_reader *r)
{
    return smol_member_flag(r, &smol_body_job(r)->echo);
}

static smol_status set_best_of(struct request_reader *r)
{
    uint64_t n = 0;
    smol_status status = smol_member_whole(r, SERVE_MAX_CHOICES, &n);
    smol_body_job(r)->best_of = (uint32_t)n;
    return status;
}

static const struct request_member members[] = {
    {"prompt", smol_prompts_set}, BODY_MEMBERS,       {"logprobs", smol_set_logprobs},
    BODY_INERT_MEMBERS,           {"echo", set_echo}, {"suffix", smol_body_unsupported},
    {"best_of", set_best_of},
};

static smol_status check_completion(struct job *job, const char **param, smol_error *error)
{
    if (job->request.max_tokens == SIZE_MAX)
        job->request.max_tokens = 16; /* OpenAI's default */
    *param = "best_of";
    if (job->best_of > 0 && job->best_of != job->n)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "best_of: expected the value of n, %u: all answers are returned", job->n);
    return smol_prompts_check(job, "prompt", job->server->settings->n_sequences / job->n, param,
                              error);
}

/* With `echo`, every prompt gets its text. */
static smol_status prepare_completion(struct job *job, smol_error *error)
{
    smol_status status = smol_prompts_tokenize(job, error);
    for (size_t i = 0; !status && job->echo && i < job->n_prompts; i++) {
        struct prompt *prompt = &job->prompts[i];
        if (!prompt->text)
            status = smol_detokenize(job->generator->model, prompt->ids, prompt->n, 1,
                                     &prompt->text, &prompt->size, error);
    }
    return status;
}

/* --- log-probabilities ------------------------------------------------------------------------ */

/* Writes the text of a token as a string. The bytes of one that is not UTF-8 by itself are shown,
 * as OpenAI does. */
static void write_token(struct json_out *json, const smol_model *model, uint32_t id)
{
    const char *text = "";
    size_t size = 0;
    smol_token_text(model, id, &text, &size, NULL, NULL);
    if (smol_utf8_well_formed((const uint8_t *)text, size) == size)
        smol_json_text(json, text, size);
    else
        smol_json_bytes(json, text, size);
}

/* Returns the number of characters that begin in text[0..size). */
static size_t count_characters(const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* Returns how much of text[0..size), which begins with a token, is the token's. The text may leave
 * its blank out, or, if the token was added to the prompt, all of it. A normalizer may have changed
 * the text. */
static size_t size_within(const char *text, size_t size, const char *token, size_t n, bool special)
{
    for (size_t left_out = 0; left_out <= (n > 0 && token[0] == ' '); left_out++)
        if (n - left_out <= size && memcmp(text, token + left_out, n - left_out) == 0)
            return n - left_out;
    return special ? 0 : n < size ? n : size;
}

/* Moves the offset in the text past a token. The first one of `text`, which is all or the newest
 * part, may have lost its blank. */
static void pass_token(struct reply *reply, const struct prompt *echoed, const struct buffer *text,
                       uint32_t id)
{
    const char *token = "";
    size_t size = 0;
    int special = 0;
    smol_token_text(reply->job->generator->model, id, &token, &size, &special, NULL);
    if (echoed) {
        const char *rest = echoed->text + reply->n_passed;
        size = size_within(rest, echoed->size - reply->n_passed, token, size, special);
        reply->n_passed += size;
        reply->text_offset += count_characters(rest, size);
    } else if (!special) {
        bool stripped = reply->text_offset == 0 && size > 0 && token[0] == ' ' && text->size > 0 &&
                        text->text[0] != ' ';
        reply->text_offset += count_characters(token, size) - stripped;
    }
}

static void write_offsets(const struct job *job, struct json_out *json, struct reply *reply,
                          const struct buffer *text, const struct ranked *ranked, size_t n)
{
    const struct prompt *prompt = &job->prompts[(reply - job->replies) / job->n];
    const size_t n_echoed = job->echo ? prompt->n : 0, each = 1 + (size_t)job->request.logprobs;
    smol_json_member_open(json, "text_offset", '[');
    for (size_t i = 0; i < n; i++) {
        bool echoed = reply->n_listed + i < n_echoed;
        if (reply->n_listed + i == n_echoed && n_echoed > 0)
            reply->text_offset = count_characters(prompt->text, prompt->size);
        smol_json_whole(json, reply->text_offset);
        pass_token(reply, echoed ? prompt : NULL, text, ranked[i * each].id);
    }
    smol_json_close(json, ']');
}

/* Writes an object of the alternatives, of which the token itself is one. */
static void write_top(struct json_out *json, const smol_model *model, const struct ranked *ranked,
                      size_t n_alternatives)
{
    bool listed = false;
    smol_json_open(json, '{');
    for (size_t i = 1; i <= n_alternatives; i++) {
        if (ranked[i].id == SMOL_NO_TOKEN)
            continue;
        listed |= ranked[i].id == ranked[0].id;
        write_token(json, model, ranked[i].id);
        smol_json_make_key(json);
        smol_json_real(json, ranked[i].log_probability);
    }
    if (!listed) {
        write_token(json, model, ranked[0].id);
        smol_json_make_key(json);
        smol_json_real(json, ranked[0].log_probability);
    }
    smol_json_close(json, '}');
}

/* Writes a log-probability, or that there is none. */
static void write_real(struct json_out *json, bool none, double value)
{
    if (none)
        smol_json_literal(json, "null");
    else
        smol_json_real(json, value);
}

/* The first token of a prompt follows nothing. */
static void write_logprobs(const struct job *job, struct json_out *json, struct reply *reply,
                           const struct buffer *text, const struct buffer *logprobs)
{
    const struct ranked *ranked = (const void *)logprobs->text;
    const smol_model *model = job->generator->model;
    const bool begins = job->echo && reply->n_listed == 0;
    smol_json_key(json, "logprobs");
    if (job->request.logprobs < 0) {
        smol_json_literal(json, "null");
        return;
    }
    size_t each = 1 + (size_t)job->request.logprobs;
    size_t n = logprobs->size / sizeof *ranked / each;
    smol_json_open(json, '{');
    smol_json_member_open(json, "tokens", '[');
    for (size_t i = 0; i < n; i++)
        write_token(json, model, ranked[i * each].id);
    smol_json_close(json, ']');
    smol_json_member_open(json, "token_logprobs", '[');
    for (size_t i = 0; i < n; i++)
        write_real(json, begins && i == 0, ranked[i * each].log_probability);
    smol_json_close(json, ']');
    smol_json_member_open(json, "top_logprobs", '[');
    for (size_t i = 0; i < n; i++)
        if (begins && i == 0)
            smol_json_literal(json, "null");
        else
            write_top(json, model, ranked + i * each, each - 1);
    smol_json_close(json, ']');
    write_offsets(job, json, reply, text, ranked, n);
    smol_json_close(json, '}');
    reply->n_listed += n;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void write_choice(struct job *job, struct json_out *json, uint32_t index,
                         const struct buffer *text, const struct buffer *logprobs, bool ended)
{
    smol_json_open(json, '{');
    smol_json_member_whole(json, "index", index);
    smol_json_key(json, "text");
    smol_json_text(json, text->text, text->size);
    write_logprobs(job, json, &job->replies[index], text, logprobs);
    smol_completion_finish(json, &job->replies[index], ended);
    smol_json_close(json, '}');
}

static void write_completion(struct job *job, struct json_out *json)
{
    smol_completion_begin(job, json, job->endpoint->object);
    smol_json_member_open(json, "choices", '[');
    for (uint32_t i = 0; i < job->n_replies; i++) {
        struct buffer text, logprobs;
        smol_reply_take(&job->replies[i], &text, &logprobs);
        write_choice(job, json, i, &text, &logprobs, true);
        smol_reply_drop_news(&job->replies[i]);
        free(text.text);
        free(logprobs.text);
    }
    smol_json_close(json, ']');
    smol_completion_usage(job, json);
    smol_json_close(json, '}');
}

static void write_event(struct job *job, FILE *out, uint32_t index, const struct buffer *text,
                        const struct buffer *logprobs, bool ended)
{
    struct event event = smol_event_begin(out);
    smol_completion_begin(job, &event.json, job->endpoint->object);
    smol_json_member_open(&event.json, "choices", '[');
    write_choice(job, &event.json, index, text, logprobs, ended);
    smol_json_close(&event.json, ']');
    smol_completion_no_usage(job, &event.json);
    smol_json_close(&event.json, '}');
    smol_event_end(&event);
}

const struct endpoint smol_endpoint_completions = {
    .path = "/v1/completions",
    .object = "text_completion",
    .id_prefix = "cmpl-",
    .work = WORK_GENERATE,
    .members = members,
    .n_members = sizeof members / sizeof members[0],
    .check = check_completion,
    .prepare = prepare_completion,
    .write = write_completion,
    .write_event = write_event,
    .write_end = smol_completion_end,
};
