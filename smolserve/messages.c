/* Conversations, see chat.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/request/calls.h"
#include "smolserve/chat.h"
#include "smolserve/server.h"

/* Appends the JSON text of a string between its quotes. */
static void add_inside(struct buffer *out, const uint8_t *start, const uint8_t *end)
{
    smol_buffer_add(out, (const char *)start + 1, (size_t)(end - start) - 2);
}

/* Reads a part of a message's content, which must be a text, and appends it. */
static smol_status read_part(struct request_reader *r, struct buffer *out)
{
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
    if (!smol_member_is(r->scratch, length, "text") &&
        !smol_member_is(r->scratch, length, "input_text") &&
        !smol_member_is(r->scratch, length, "output_text"))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "%s: a part of `content` has the type %.*s: only text is supported",
                         r->field, (int)(length < 40 ? length : 40), length ? r->scratch : "");
    at = r->json;
    status = smol_member_seek(&at, r->scratch, "text", &found);
    if (!status && (!found || smol_json_peek(&at) != '"'))
        return smol_member_fail(r, "a part of `content` has no text");
    const uint8_t *start = at.at;
    if (!status)
        status = smol_json_string(&at, NULL, &length);
    if (!status)
        add_inside(out, start, at.at);
    return status ? status : smol_json_skip(&r->json);
}

/* Writes the parts of a content as one text, each on lines of its own. */
static smol_status join_parts(struct request_reader *r, struct buffer *out)
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

/* Checks the value of the member that r->scratch names, and sets *has_role if it is the role. */
static smol_status check_value(struct request_reader *r, size_t length, bool *has_role)
{
    int c = smol_json_peek(&r->json);
    bool is_role = smol_member_is(r->scratch, length, "role");
    *has_role |= is_role;
    if (is_role && c != '"')
        return smol_member_fail(r, "`role` must be a string");
    if (smol_member_is(r->scratch, length, "tool_calls"))
        return check_calls(r);
    if (smol_member_is(r->scratch, length, "content") && c != '"' && c != '[' && c != 'n')
        return smol_member_fail(r, "`content` must be a string, a list of texts or null");
    return SMOL_OK;
}

/* Decides about the member that r->scratch names, before its value: *keeps whether it is copied. Of
 * an item of a response, only role and content are; its type must be that of a message. */
static smol_status look_at(struct request_reader *r, size_t length, bool is_item, bool *keeps)
{
    struct json_reader at = r->json;
    *keeps = !is_item || smol_member_is(r->scratch, length, "role") ||
             smol_member_is(r->scratch, length, "content");
    if (*keeps || !smol_member_is(r->scratch, length, "type"))
        return SMOL_OK;
    if (smol_json_peek(&at) != '"')
        return smol_member_fail(r, "the type of an item must be a string");
    smol_status status = smol_json_string(&at, r->scratch, &length);
    if (status || smol_member_is(r->scratch, length, "message"))
        return status;
    return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                     "%s: an item has the type %.*s: only message is supported", r->field,
                     (int)(length < 40 ? length : 40), r->scratch);
}

static smol_status copy_message(struct request_reader *r, struct buffer *out, bool is_item)
{
    bool more, keeps, any = false, has_role = false;
    size_t length;
    const uint8_t *start;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a message must be an object");
    smol_status status = smol_json_begin(&r->json, '{', &more);
    smol_buffer_add(out, "{", 1);
    while (!status && more) {
        smol_json_peek(&r->json);
        start = r->json.at;
        status = smol_json_name(&r->json, r->scratch, &length);
        if (status)
            return status;
        bool joins =
            smol_member_is(r->scratch, length, "content") && smol_json_peek(&r->json) == '[';
        status = look_at(r, length, is_item, &keeps);
        if (!status && keeps)
            status = check_value(r, length, &has_role);
        if (!status && !joins)
            status = smol_json_skip(&r->json);
        if (keeps && any)
            smol_buffer_add(out, ",", 1);
        if (keeps)
            smol_buffer_add(out, (const char *)start, (size_t)(r->json.at - start));
        any |= keeps;
        if (!status && joins)
            status = join_parts(r, out);
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
    smol_buffer_add(out, "}", 1);
    return status || has_role ? status : smol_member_fail(r, "a message has no role");
}

/* Copies the messages, with contents that are lists of texts as one text: chat templates expect
 * that. */
static smol_status set_list(struct request_reader *r, bool has_items)
{
    bool more;
    struct buffer out = {0};
    if (smol_json_peek(&r->json) != '[')
        return smol_member_fail(r, "expected a list");
    smol_status status = smol_json_begin(&r->json, '[', &more);
    if (!status && !more)
        return smol_member_fail(r, "expected at least one");
    smol_buffer_add(&out, "[", 1);
    while (!status && more) {
        status = copy_message(r, &out, has_items);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
        if (more)
            smol_buffer_add(&out, ",", 1);
    }
    smol_buffer_add(&out, "]", 2); /* and a 0 */
    if (!status && out.failed)
        status = smol_fail_memory(r->json.error, "a request");
    if (status)
        free(out.text);
    else
        r->request->messages = out.text;
    return status;
}

smol_status smol_chat_set_messages(struct request_reader *r)
{
    return set_list(r, false);
}

smol_status smol_chat_set_items(struct request_reader *r)
{
    return set_list(r, true);
}

smol_status smol_chat_prepare(struct job *job, smol_error *error)
{
    struct tm now;
    if (!smol_job_add_prompts(job, 1))
        return smol_fail_memory(error, "a request");
    time_t seconds = time(NULL);
    localtime_r(&seconds, &now);
    const smol_chat_params chat = {.messages_json = job->request.messages,
                                   .tools_json = job->request.tools,
                                   .parse_arguments = 1,
                                   .documents_json = job->request.documents,
                                   .variables_json = job->request.variables,
                                   .now = &now};
    smol_status status = smol_prompt_messages(job->generator->model, chat, &job->prompts[0].ids,
                                              &job->prompts[0].n, error);
    if (!status)
        status = smol_request_constrain_calls(&job->request, job->generator->model, error);
    return status;
}
