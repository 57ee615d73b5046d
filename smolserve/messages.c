/* Conversations, see messages.h and body.h. */
#include "smolserve/messages.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/request/calls.h"
#include "cli/request/reasoning.h"
#include "smolserve/server.h"

/* --- parts of messages ------------------------------------------------------------------------ */

smol_status smol_messages_find(struct request_reader *r, const char *name, const char *starts,
                               struct json_reader *at)
{
    bool found;
    *at = r->json;
    smol_status status = smol_member_seek(at, r->scratch, name, &found);
    int c = found ? smol_json_peek(at) : 0;
    if (status || (c > 0 && strchr(starts, c)))
        return status;
    return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: `%s` in it must be %s", r->field, name,
                     starts[0] == '{'      ? "an object"
                     : strchr(starts, '[') ? "a string or a list of texts"
                                           : "a string");
}

smol_status smol_messages_copy(struct request_reader *r, const char *key, const char *name,
                               const char *starts, struct buffer *out)
{
    struct request_reader inner = *r;
    smol_status status = smol_messages_find(r, name, starts, &inner.json);
    if (status)
        return status;
    smol_buffer_print(out, "%s", key);
    if (smol_json_peek(&inner.json) == '[')
        return smol_messages_join(&inner, out);
    const uint8_t *start = inner.json.at;
    status = smol_json_skip(&inner.json);
    smol_buffer_add(out, (const char *)start, (size_t)(inner.json.at - start));
    return status;
}

smol_status smol_messages_inside(struct request_reader *r, const char *name, struct buffer *out)
{
    struct json_reader at;
    smol_status status = smol_messages_find(r, name, "\"", &at);
    const uint8_t *start = at.at;
    if (!status)
        status = smol_json_string(&at, NULL, &(size_t){0});
    if (!status)
        smol_buffer_add(out, (const char *)start + 1, (size_t)(at.at - start) - 2);
    return status;
}

smol_status smol_messages_fail_type(struct request_reader *r, const char *whose, size_t length,
                                    const char *advice)
{
    return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: %s has the type %.*s: %s", r->field,
                     whose, (int)(length < 40 ? length : 40), length ? r->scratch : "", advice);
}

/* Reads a part of a message's content, which must be a text, and appends it. */
static smol_status read_part(struct request_reader *r, struct buffer *out)
{
    static const struct {
        const char *type, *member;
    } kinds[] = {
        {"text", "text"},
        {"input_text", "text"},
        {"output_text", "text"},
        {"reasoning_text", "text"},
        {"summary_text", "text"},
        {"refusal", "refusal"},
        {"tool_reference", "tool_name"}, /* a tool that a search has found */
    };
    enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
    bool found = false;
    size_t length = 0;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a part of `content` must be an object");
    struct json_reader at = r->json;
    smol_status status = smol_member_seek(&at, r->scratch, "type", &found);
    if (!status && found && smol_json_peek(&at) == '"')
        status = smol_json_string(&at, r->scratch, &length);
    if (status)
        return status;
    size_t i = 0;
    while (i < N_KINDS && !smol_member_is(r->scratch, length, kinds[i].type))
        i++;
    if (i == N_KINDS)
        return smol_messages_fail_type(r, "a part of `content`", length, "only text is supported");
    status = smol_messages_inside(r, kinds[i].member, out);
    return status ? status : smol_json_skip(&r->json);
}

smol_status smol_messages_join(struct request_reader *r, struct buffer *out)
{
    bool more;
    smol_status status = smol_json_begin(&r->json, '[', &more);
    smol_buffer_add(out, "\"", 1);
    while (!status && more) {
        status = read_part(r, out);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
        if (more)
            smol_buffer_add(out, "\\n", 2);
    }
    smol_buffer_add(out, "\"", 1);
    return status;
}

/* --- messages of a chat ----------------------------------------------------------------------- */

/* Returns whether the member `name` of the object at the reader begins with one of `starts`. */
static smol_status begins(struct request_reader *r, struct json_reader at, const char *name,
                          const char *starts, bool *good)
{
    smol_status status = smol_member_seek(&at, r->scratch, name, good);
    int c = *good ? smol_json_peek(&at) : 0;
    *good = c > 0 && strchr(starts, c);
    return status;
}

/* Checks a call of an earlier turn, which the chat template will read. */
static smol_status check_call(struct request_reader *r, struct json_reader at)
{
    bool good = smol_json_peek(&at) == '{';
    smol_status status = good ? begins(r, at, "function", "{", &good) : SMOL_OK;
    if (!status && good)
        status = smol_member_seek(&at, r->scratch, "function", &good);
    if (!status && good)
        status = begins(r, at, "name", "\"", &good);
    if (!status && good)
        status = begins(r, at, "arguments", "\"{", &good);
    return status || good ? status
                          : smol_member_fail(r, "an element of `tool_calls` must have a "
                                                "`function` with `name` and `arguments`");
}

static smol_status check_calls(struct request_reader *r)
{
    struct json_reader at = r->json;
    bool more;
    if (smol_json_peek(&at) != '[')
        return smol_json_word(&at, "null") ? SMOL_OK
                                           : smol_member_fail(r, "`tool_calls` must be a list");
    smol_status status = smol_json_begin(&at, '[', &more);
    while (!status && more) {
        status = check_call(r, at);
        if (!status)
            status = smol_json_skip(&at);
        if (!status)
            status = smol_json_more(&at, ']', &more);
    }
    return status;
}

/* Members of a message. Only an assistant's may lack content, because it may call tools instead. */
struct found_members {
    bool role, is_assistant, is_developer, content;
};

/* Checks the value of the member that r->scratch names. */
static smol_status check_value(struct request_reader *r, size_t length, struct found_members *found)
{
    struct json_reader at = r->json;
    int c = smol_json_peek(&at);
    if (smol_member_is(r->scratch, length, "tool_calls"))
        return check_calls(r);
    if (smol_member_is(r->scratch, length, "content")) {
        found->content = c == '"' || c == '[';
        return found->content || smol_json_word(&at, "null")
                   ? SMOL_OK
                   : smol_member_fail(r, "`content` must be a string, a list of texts or null");
    }
    if (smol_member_is(r->scratch, length, "reasoning_content"))
        return c == '"' || smol_json_word(&at, "null")
                   ? SMOL_OK
                   : smol_member_fail(r, "`reasoning_content` must be a string or null");
    if (!smol_member_is(r->scratch, length, "role"))
        return SMOL_OK;
    found->role = true;
    if (c != '"')
        return smol_member_fail(r, "`role` must be a string");
    smol_status status = smol_json_string(&at, r->scratch, &length);
    found->is_assistant = !status && smol_member_is(r->scratch, length, "assistant");
    found->is_developer = !status && smol_member_is(r->scratch, length, "developer");
    return status;
}

smol_status smol_messages_copy_message(struct request_reader *r, struct buffer *out,
                                       enum extent extent)
{
    bool more, any = extent == CONTENT;
    struct found_members found = {0};
    size_t length;
    const uint8_t *start;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a message must be an object");
    smol_status status = smol_json_begin(&r->json, '{', &more);
    smol_buffer_add(out, "{", !any);
    while (!status && more) {
        smol_json_peek(&r->json);
        start = r->json.at;
        status = smol_json_name(&r->json, r->scratch, &length);
        if (status)
            return status;
        bool is_role = smol_member_is(r->scratch, length, "role");
        bool is_content = smol_member_is(r->scratch, length, "content");
        bool checks = extent == ALL || is_role || is_content;
        bool keeps = checks && !(is_role && extent == CONTENT);
        bool joins = is_content && smol_json_peek(&r->json) == '[';
        if (checks)
            status = check_value(r, length, &found);
        if (!status && !joins)
            status = smol_json_skip(&r->json);
        if (keeps && any)
            smol_buffer_add(out, ",", 1);
        if (keeps && is_role && found.is_developer && smol_body_job(r)->generator->drops_developer)
            smol_buffer_print(out, "\"role\":\"system\"");
        else if (keeps)
            smol_buffer_add(out, (const char *)start, (size_t)(r->json.at - start));
        any |= keeps;
        if (!status && joins)
            status = smol_messages_join(r, out);
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
    smol_buffer_add(out, "}", 1);
    if (!status && !found.role)
        return smol_member_fail(r, "a message has no role");
    if (!status && !found.content && !found.is_assistant)
        return smol_member_fail(r, "a message has no content, which only an assistant's may lack");
    return status;
}

static smol_status copy_whole(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    (void)turn;
    smol_buffer_add(out, ",", out->size > 1);
    return smol_messages_copy_message(r, out, ALL);
}

smol_status smol_chat_set_messages(struct request_reader *r)
{
    return smol_messages_set(r, copy_whole, &(enum turn){TURN_OTHER});
}

/* --- conversations ---------------------------------------------------------------------------- */

smol_status smol_messages_list(struct request_reader *r, smol_copy_element *copy, enum turn *turn,
                               char **list)
{
    bool more;
    struct buffer out = {0};
    if (smol_json_peek(&r->json) != '[')
        return smol_member_fail(r, "expected a list");
    smol_status status = smol_json_begin(&r->json, '[', &more);
    smol_buffer_add(&out, "[", 1);
    while (!status && more) {
        status = copy(r, &out, turn);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
    }
    smol_buffer_add(&out, "]", 2); /* and a 0 */
    if (!status && out.failed)
        status = smol_fail_memory(r->json.error, "a request");
    if (status)
        free(out.text);
    else
        *list = out.text;
    return status;
}

smol_status smol_messages_set(struct request_reader *r, smol_copy_element *copy, enum turn *turn)
{
    char **messages = &r->request->messages;
    r->request->is_chat = true;
    smol_status status = smol_messages_list(r, copy, turn, messages);
    return status || (*messages)[1] != ']' ? status : smol_member_fail(r, "expected at least one");
}

smol_status smol_messages_instruct(struct job *job, smol_error *error)
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

smol_status smol_chat_prepare(struct job *job, smol_error *error)
{
    struct tm now;
    struct prompt *prompt = smol_job_add_prompt(job);
    if (!prompt)
        return smol_fail_memory(error, "a request");
    smol_status status = smol_request_apply_effort(&job->request, job->generator->model, error);
    if (status)
        return status;
    time_t seconds = time(NULL);
    localtime_r(&seconds, &now);
    const smol_chat_params chat = smol_request_chat(&job->request, &now);
    status = smol_prompt_messages(job->generator->model, &chat, &prompt->ids, &prompt->n, error);
    if (!status && job->truncates)
        status = smol_chat_shorten(job, chat, prompt, error);
    if (!status)
        status = smol_request_settle_begun(&job->request, job->generator->model, prompt->ids,
                                           prompt->n, error);
    if (!status)
        status = smol_request_constrain_calls(&job->request, job->generator->model, error);
    return status;
}
