/* Messages of Anthropic's interface, whose contents are lists of blocks, as messages of a chat, and
 * its tools, see messages.h. */
#include <stdlib.h>
#include <string.h>

#include "smolserve/anthropic.h"
#include "smolserve/messages.h"

enum block { TEXT_BLOCK, RESULT_BLOCK, CALL_BLOCK, THINKING_BLOCK, REDACTED_BLOCK };

static const char *const types[] = {"text",     "tool_result",       "tool_use",
                                    "thinking", "redacted_thinking", NULL};

/* A message as far as it has been read, as JSON text: `text` and `thinking` are the insides of
 * strings, `calls` are objects. */
struct contents {
    enum role { USER, ASSISTANT, SYSTEM } role;
    bool has_text, has_thinking;
    struct buffer text, thinking, calls;
};

static void free_contents(struct contents *contents)
{
    free(contents->text.text);
    free(contents->thinking.text);
    free(contents->calls.text);
}

/* Appends a string whose inside is `text`. */
static void add_string(struct buffer *out, const char *key, const struct buffer *text)
{
    smol_buffer_print(out, "%s\"", key);
    smol_buffer_add(out, text->text, text->size);
    smol_buffer_add(out, "\"", 1);
}

/* Takes the end of the last message, `"}`, away, and goes on with its content. */
static void continue_content(struct buffer *out, const struct contents *contents)
{
    if (!out->failed)
        out->size -= 2;
    smol_buffer_add(out, "\\n", contents->has_text ? 2 : 0);
    smol_buffer_add(out, contents->text.text, contents->text.size);
    smol_buffer_add(out, "\"", 1);
}

/* Appends the texts of the user or the system so far as a message, or to the user's last one: roles
 * alternate in many templates. */
static void end_text(struct contents *contents, struct buffer *out, enum turn *turn)
{
    if (*turn == TURN_USER && contents->role == USER) {
        continue_content(out, contents);
    } else {
        smol_buffer_add(out, ",", out->size > 1);
        smol_buffer_print(out, "{\"role\":\"%s\"", contents->role == USER ? "user" : "system");
        add_string(out, ",\"content\":", &contents->text);
    }
    smol_buffer_add(out, "}", 1);
    *turn = contents->role == USER ? TURN_USER : TURN_OTHER;
    buffer_clear(&contents->text);
    contents->has_text = false;
}

/* Appends the message of the assistant, or what it adds to the last one. */
static void end_answer(const struct contents *contents, struct buffer *out, enum turn *turn)
{
    const bool thinks = contents->thinking.size > 0; /* which may have been left out */
    if (*turn == TURN_ASSISTANT && !thinks) {
        continue_content(out, contents);
    } else {
        smol_buffer_add(out, ",", out->size > 1);
        smol_buffer_print(out, "{\"role\":\"assistant\"");
        if (thinks)
            add_string(out, ",\"reasoning_content\":", &contents->thinking);
        add_string(out, ",\"content\":", &contents->text);
    }
    *turn = contents->calls.size > 0 ? TURN_CALLS : TURN_ASSISTANT;
    if (contents->calls.size > 0) {
        smol_buffer_print(out, ",\"tool_calls\":[");
        smol_buffer_add(out, contents->calls.text, contents->calls.size);
        smol_buffer_add(out, "]", 1);
    }
    smol_buffer_add(out, "}", 1);
}

/* Appends a member, unless it is missing or null. *found: whether it is there. */
static smol_status copy_optional(struct request_reader *r, const char *key, const char *name,
                                 const char *starts, bool *found, struct buffer *out)
{
    struct json_reader at = r->json;
    smol_status status = smol_member_seek(&at, r->scratch, name, found);
    *found = !status && *found && !smol_json_word(&at, "null");
    return *found ? smol_messages_copy(r, key, name, starts, out) : status;
}

/* Appends the text of a block, on lines of its own. */
static smol_status add_text(struct request_reader *r, const char *name, bool *has_any,
                            struct buffer *out)
{
    smol_buffer_add(out, "\\n", *has_any ? 2 : 0);
    *has_any = true;
    return smol_messages_inside(r, name, out);
}

/* Appends the result of a call, a message of its own. */
static smol_status add_result(struct request_reader *r, struct buffer *out)
{
    bool found = false;
    smol_buffer_add(out, ",", out->size > 1);
    smol_status status =
        smol_messages_copy(r, "{\"role\":\"tool\",\"tool_call_id\":", "tool_use_id", "\"", out);
    if (!status)
        status = copy_optional(r, ",\"content\":", "content", "\"[", &found, out);
    smol_buffer_print(out, found ? "}" : ",\"content\":\"\"}");
    return status;
}

static smol_status add_call(struct request_reader *r, struct buffer *out)
{
    smol_buffer_add(out, ",", out->size > 0);
    smol_status status = smol_messages_copy(r, "{\"type\":\"function\",\"id\":", "id", "\"", out);
    if (!status)
        status = smol_messages_copy(r, ",\"function\":{\"name\":", "name", "\"", out);
    if (!status)
        status = smol_messages_copy(r, ",\"arguments\":", "input", "{", out);
    smol_buffer_add(out, "}}", 2);
    return status;
}

/* Finds the type of a block that a message of the role may have. */
static smol_status find_type(struct request_reader *r, enum role role, enum block *type)
{
    static const struct {
        unsigned blocks; /* a bit for each type */
        const char *whose, *advice;
    } kinds[] = {
        [USER] = {1u << TEXT_BLOCK | 1u << RESULT_BLOCK, "a block of the user",
                  "only text and tool_result are supported"},
        [ASSISTANT] = {1u << TEXT_BLOCK | 1u << CALL_BLOCK | 1u << THINKING_BLOCK |
                           1u << REDACTED_BLOCK,
                       "a block of the assistant",
                       "only text, thinking, redacted_thinking and tool_use are supported"},
        [SYSTEM] = {1u << TEXT_BLOCK, "a block of the system", "only text is supported"},
    };
    struct json_reader at;
    size_t length;
    smol_status status = smol_messages_find(r, "type", "\"", &at);
    if (!status)
        status = smol_json_string(&at, r->scratch, &length);
    if (status)
        return status;
    for (size_t i = 0; types[i]; i++)
        if (smol_member_is(r->scratch, length, types[i]) && (kinds[role].blocks >> i & 1)) {
            *type = (enum block)i;
            return SMOL_OK;
        }
    return smol_messages_fail_type(r, kinds[role].whose, length, kinds[role].advice);
}

/* Takes a block. Its other members, such as cache_control and is_error, change nothing. */
static smol_status read_block(struct request_reader *r, struct contents *contents,
                              struct buffer *out, enum turn *turn)
{
    enum block type = TEXT_BLOCK;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a block of `content` must be an object");
    smol_status status = find_type(r, contents->role, &type);
    if (status)
        return status;
    switch (type) {
    case TEXT_BLOCK:
        status = add_text(r, "text", &contents->has_text, &contents->text);
        break;
    case THINKING_BLOCK:
        status = add_text(r, "thinking", &contents->has_thinking, &contents->thinking);
        break;
    case CALL_BLOCK:
        status = add_call(r, &contents->calls);
        break;
    case RESULT_BLOCK:
        if (contents->has_text)
            end_text(contents, out, turn);
        status = add_result(r, out);
        *turn = TURN_OTHER;
        break;
    case REDACTED_BLOCK:
        break;
    }
    return status ? status : smol_json_skip(&r->json);
}

/* Takes the blocks of a message, or a string, which is the only one. */
static smol_status read_content(struct request_reader *r, struct contents *contents,
                                struct buffer *out, enum turn *turn)
{
    struct json_reader at;
    bool more = true;
    smol_status status = smol_messages_find(r, "content", "\"[", &at);
    if (status)
        return status;
    if (smol_json_peek(&at) == '"')
        return add_text(r, "content", &contents->has_text, &contents->text);
    struct request_reader inner = *r;
    inner.json = at;
    status = smol_json_begin(&inner.json, '[', &more);
    while (!status && more) {
        status = read_block(&inner, contents, out, turn);
        if (!status)
            status = smol_json_more(&inner.json, ']', &more);
    }
    return status;
}

static smol_status read_role(struct request_reader *r, enum role *role)
{
    static const char *const words[] = {"user", "assistant", "system", NULL};
    struct request_reader inner = *r;
    size_t i = 0;
    smol_status status = smol_messages_find(r, "role", "\"", &inner.json);
    if (!status)
        status =
            smol_member_word(&inner, words, "expected user, assistant or system as `role`", &i);
    *role = (enum role)i;
    return status;
}

/* Copies a message: one of a user becomes several, one for each result of a call. */
static smol_status copy_message(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    static const char *const names[] = {"role", "content", NULL};
    struct contents contents = {0};
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a message must be an object");
    const size_t before = out->size;
    smol_status status = smol_member_only(r, r->json, names);
    if (!status)
        status = read_role(r, &contents.role);
    if (!status)
        status = read_content(r, &contents, out, turn);
    if (!status && contents.role == ASSISTANT)
        end_answer(&contents, out, turn);
    else if (!status && (contents.has_text || out->size == before))
        end_text(&contents, out, turn);
    if (!status && (contents.text.failed || contents.thinking.failed || contents.calls.failed))
        status = smol_fail_memory(r->json.error, "a request");
    free_contents(&contents);
    return status ? status : smol_json_skip(&r->json);
}

smol_status smol_anthropic_set_messages(struct request_reader *r)
{
    enum turn turn = TURN_OTHER;
    smol_status status = smol_messages_set(r, copy_message, &turn);
    r->request->continues = turn == TURN_ASSISTANT;
    return status || turn != TURN_CALLS
               ? status
               : smol_member_fail(r, "the last one must not call a tool: its result is missing");
}

/* --- tools ------------------------------------------------------------------------------------ */

/* Checks that a tool has the type "custom", or none. */
static smol_status check_type(struct request_reader *r)
{
    struct json_reader at = r->json;
    bool found;
    size_t length;
    smol_status status = smol_member_seek(&at, r->scratch, "type", &found);
    if (status || !found || smol_json_word(&at, "null"))
        return status;
    status = smol_messages_find(r, "type", "\"", &at);
    if (!status)
        status = smol_json_string(&at, r->scratch, &length);
    if (status || smol_member_is(r->scratch, length, "custom"))
        return status;
    return smol_messages_fail_type(r, "a tool", length,
                                   "only \"custom\" is supported: tools that the client runs");
}

static smol_status copy_tool(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    bool found;
    (void)turn;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a tool must be an object");
    smol_status status = check_type(r);
    smol_buffer_add(out, ",", out->size > 1);
    if (!status)
        status = smol_messages_copy(r, "{\"type\":\"function\",\"function\":{\"name\":", "name",
                                    "\"", out);
    if (!status)
        status = copy_optional(r, ",\"description\":", "description", "\"", &found, out);
    if (!status)
        status = smol_messages_copy(r, ",\"parameters\":", "input_schema", "{", out);
    smol_buffer_add(out, "}}", 2);
    return status ? status : smol_json_skip(&r->json);
}

smol_status smol_anthropic_set_tools(struct request_reader *r)
{
    return smol_messages_list(r, copy_tool, &(enum turn){TURN_OTHER}, &r->request->tools);
}
