/* Conversations, see body.h. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/request/calls.h"
#include "cli/request/reasoning.h"
#include "smolserve/body.h"
#include "smolserve/server.h"

/* Appends the JSON text of a string between its quotes. */
static void add_inside(struct buffer *out, const uint8_t *start, const uint8_t *end)
{
    smol_buffer_add(out, (const char *)start + 1, (size_t)(end - start) - 2);
}

/* Reads a part of a message's content, which must be a text, and appends it. */
static smol_status read_part(struct request_reader *r, struct buffer *out)
{
    static const char *const types[] = {
        "text", "input_text", "output_text", "reasoning_text", "summary_text", "refusal", NULL};
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
    const char *const *type = types;
    while (*type && !smol_member_is(r->scratch, length, *type))
        type++;
    if (!*type)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "%s: a part of `content` has the type %.*s: only text is supported",
                         r->field, (int)(length < 40 ? length : 40), length ? r->scratch : "");
    at = r->json;
    const bool refuses = strcmp(*type, "refusal") == 0;
    status = smol_member_seek(&at, r->scratch, refuses ? *type : "text", &found);
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

/* How much of a message is copied: all; of an item of a response, its role and content; and after
 * reasoning, which has begun the message, the content. */
enum extent { ALL, ROLE_AND_CONTENT, CONTENT };

static smol_status copy_message(struct request_reader *r, struct buffer *out, enum extent extent)
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
            status = join_parts(r, out);
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

/* --- items of responses ----------------------------------------------------------------------- */

/* The end of the list of messages so far: what follows of the same turn is added to it. */
enum turn { TURN_OTHER, TURN_ASSISTANT, TURN_CALLS, TURN_REASONING };

/* Finds a member of the object at the reader. *at: its value, a string, unless `may_be_list`. */
static smol_status find_text(struct request_reader *r, const char *name, bool may_be_list,
                             struct json_reader *at)
{
    bool found;
    *at = r->json;
    smol_status status = smol_member_seek(at, r->scratch, name, &found);
    int c = found ? smol_json_peek(at) : 0;
    if (status || c == '"' || (may_be_list && c == '['))
        return status;
    return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: `%s` of an item must be a string",
                     r->field, name);
}

/* Appends the JSON text of such a member. */
static smol_status add_member(struct request_reader *r, const char *key, const char *name,
                              struct buffer *out)
{
    struct json_reader at;
    smol_status status = find_text(r, name, false, &at);
    const uint8_t *start = at.at;
    if (!status)
        status = smol_json_skip(&at);
    smol_buffer_print(out, "%s", key);
    smol_buffer_add(out, (const char *)start, (size_t)(at.at - start));
    return status;
}

/* A call that the model has made: a part of the assistant's message before it, as in a chat. */
static smol_status copy_call(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    static const char *const starts[] = {
        [TURN_OTHER] = "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[",
        [TURN_ASSISTANT] = ",\"tool_calls\":[",
        [TURN_CALLS] = ",",
        [TURN_REASONING] = ",\"tool_calls\":[",
    };
    size_t closed = *turn == TURN_CALLS ? 2 : *turn == TURN_OTHER ? 0 : 1; /* brackets */
    if (out->failed)
        return SMOL_OK;
    out->size -= closed;
    smol_buffer_print(out, "%s", starts[*turn]);
    *turn = TURN_CALLS;
    smol_status status = add_member(r, "{\"type\":\"function\",\"id\":", "call_id", out);
    if (!status)
        status = add_member(r, ",\"function\":{\"name\":", "name", out);
    if (!status)
        status = add_member(r, ",\"arguments\":", "arguments", out);
    smol_buffer_print(out, "}}]}");
    return status;
}

static smol_status copy_result(struct request_reader *r, struct buffer *out)
{
    struct request_reader inner = *r;
    smol_status status = add_member(r, "{\"role\":\"tool\",\"tool_call_id\":", "call_id", out);
    if (!status)
        status = find_text(r, "output", true, &inner.json);
    if (!status && smol_json_peek(&inner.json) == '[') {
        smol_buffer_print(out, ",\"content\":");
        status = join_parts(&inner, out);
    } else if (!status) {
        status = add_member(r, ",\"content\":", "output", out);
    }
    smol_buffer_print(out, "}");
    return status;
}

static const char no_content[] = ",\"content\":\"\"}"; /* the end of a message */

/* Reasoning: the beginning of the assistant's message, to which what follows of the turn is
 * added. Its text is the `content`, or without one the `summary`. */
static smol_status copy_reasoning(struct request_reader *r, struct buffer *out)
{
    static const char *const names[] = {"content", "summary"};
    struct request_reader inner = *r;
    bool has_text = false;
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < 2 && !status; i++) {
        struct json_reader at = r->json;
        bool found;
        status = smol_member_seek(&at, r->scratch, names[i], &found);
        bool is_list = found && smol_json_peek(&at) == '[';
        if (!status && found && !is_list && !smol_json_word(&at, "null"))
            return smol_member_fail(r, "`content` and `summary` of an item must be lists");
        if (is_list && !has_text)
            inner.json = at;
        has_text |= is_list;
    }
    if (status || !has_text)
        return status ? status
                      : smol_member_fail(r, "an item of type reasoning must have a list `content` "
                                            "or `summary`");
    smol_buffer_print(out, "{\"role\":\"assistant\",\"reasoning_content\":");
    status = join_parts(&inner, out);
    smol_buffer_print(out, "%s", no_content);
    return status;
}

/* An assistant's message continues that of its reasoning. */
static smol_status copy_message_item(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    struct json_reader at = r->json;
    bool found = false, assistant = false;
    size_t length;
    smol_status status = smol_member_seek(&at, r->scratch, "role", &found);
    if (!status && found && smol_json_peek(&at) == '"') {
        status = smol_json_string(&at, r->scratch, &length);
        assistant = !status && smol_member_is(r->scratch, length, "assistant");
    }
    if (status)
        return status;
    bool continues = assistant && *turn == TURN_REASONING && !out->failed;
    if (continues)
        out->size -= sizeof no_content - 1;
    else
        smol_buffer_add(out, ",", out->size > 1);
    *turn = assistant ? TURN_ASSISTANT : TURN_OTHER;
    return copy_message(r, out, continues ? CONTENT : ROLE_AND_CONTENT);
}

/* Copies an item as a message, or as a part of the one before it. */
static smol_status copy_item(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    struct json_reader at = r->json;
    bool found = false;
    size_t length = 0;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "an item must be an object");
    smol_status status = smol_member_seek(&at, r->scratch, "type", &found);
    if (!status && found)
        status = find_text(r, "type", false, &at);
    if (!status && found)
        status = smol_json_string(&at, r->scratch, &length);
    if (status)
        return status;
    bool calls = found && smol_member_is(r->scratch, length, "function_call");
    bool result = found && smol_member_is(r->scratch, length, "function_call_output");
    bool reasons = found && smol_member_is(r->scratch, length, "reasoning");
    if (found && !calls && !result && !reasons && !smol_member_is(r->scratch, length, "message"))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "%s: an item has the type %.*s: only message, reasoning, function_call "
                         "and function_call_output are supported",
                         r->field, (int)(length < 40 ? length : 40), r->scratch);
    if (!found || smol_member_is(r->scratch, length, "message"))
        return copy_message_item(r, out, turn);
    if (out->size > 1 && (!calls || *turn == TURN_OTHER))
        smol_buffer_add(out, ",", 1);
    if (calls)
        status = copy_call(r, out, turn);
    else if (reasons)
        status = copy_reasoning(r, out);
    else
        status = copy_result(r, out);
    if (!calls)
        *turn = reasons ? TURN_REASONING : TURN_OTHER;
    return status ? status : smol_json_skip(&r->json);
}

/* Copies a tool, whose members besides its type become those of a chat's `function`. */
static smol_status copy_tool(struct request_reader *r, struct buffer *out)
{
    bool more, any = false;
    size_t length;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a tool must be an object");
    smol_status status = smol_json_begin(&r->json, '{', &more);
    smol_buffer_print(out, "{\"type\":\"function\",\"function\":{");
    while (!status && more) {
        smol_json_peek(&r->json);
        const uint8_t *start = r->json.at;
        status = smol_json_name(&r->json, r->scratch, &length);
        if (status)
            return status;
        bool is_type = smol_member_is(r->scratch, length, "type");
        int c = smol_json_peek(&r->json);
        if (is_type && c == '"')
            status = smol_json_string(&r->json, r->scratch, &length);
        if (status)
            return status;
        if (is_type && (c != '"' || !smol_member_is(r->scratch, length, "function")))
            return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                             "%s: only tools of type \"function\" are supported", r->field);
        if (!is_type) {
            status = smol_json_skip(&r->json);
            smol_buffer_add(out, ",", any);
            smol_buffer_add(out, (const char *)start, (size_t)(r->json.at - start));
            any = true;
        }
        if (!status)
            status = smol_json_more(&r->json, '}', &more);
    }
    smol_buffer_print(out, "}}");
    return status;
}

smol_status smol_chat_set_flat_tools(struct request_reader *r)
{
    bool more;
    struct buffer out = {0};
    struct json_reader start = r->json;
    smol_status status = smol_member_copy_json(r, '[', &smol_body_job(r)->tools);
    if (status)
        return status;
    r->json = start;
    status = smol_json_begin(&r->json, '[', &more);
    smol_buffer_add(&out, "[", 1);
    while (!status && more) {
        smol_buffer_add(&out, ",", out.size > 1);
        status = copy_tool(r, &out);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
    }
    smol_buffer_add(&out, "]", 2); /* and a 0 */
    r->request->tools = out.text;
    return !status && out.failed ? smol_fail_memory(r->json.error, "a request") : status;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* Copies the messages, with contents that are lists of texts as one text: chat templates expect
 * that. */
static smol_status set_list(struct request_reader *r, bool has_items)
{
    bool more;
    struct buffer out = {0};
    enum turn turn = TURN_OTHER;
    if (smol_json_peek(&r->json) != '[')
        return smol_member_fail(r, "expected a list");
    smol_status status = smol_json_begin(&r->json, '[', &more);
    if (!status && !more)
        return smol_member_fail(r, "expected at least one");
    smol_buffer_add(&out, "[", 1);
    while (!status && more) {
        smol_buffer_add(&out, ",", !has_items && out.size > 1);
        status = has_items ? copy_item(r, &out, &turn) : copy_message(r, &out, ALL);
        if (!status)
            status = smol_json_more(&r->json, ']', &more);
    }
    smol_buffer_add(&out, "]", 2); /* and a 0 */
    if (!status && out.failed)
        status = smol_fail_memory(r->json.error, "a request");
    if (status)
        free(out.text);
    else
        r->request->messages = out.text;
    r->request->is_chat = true;
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
    struct prompt *prompt = smol_job_add_prompt(job);
    if (!prompt)
        return smol_fail_memory(error, "a request");
    smol_status status = smol_request_apply_effort(&job->request, job->generator->model, error);
    if (status)
        return status;
    time_t seconds = time(NULL);
    localtime_r(&seconds, &now);
    const smol_chat_params chat = {.messages_json = job->request.messages,
                                   .tools_json = job->request.tools,
                                   .parse_arguments = 1,
                                   .documents_json = job->request.documents,
                                   .variables_json = job->request.variables,
                                   .now = &now};
    status = smol_prompt_messages(job->generator->model, chat, &prompt->ids, &prompt->n, error);
    if (!status && job->truncates)
        status = smol_chat_shorten(job, chat, prompt, error);
    if (!status)
        status = smol_request_constrain_calls(&job->request, job->generator->model, error);
    return status;
}
