/* Items of responses as messages of a chat, see messages.h. */
#include <string.h>

#include "smolserve/messages.h"

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
    smol_status status =
        smol_messages_copy(r, "{\"type\":\"function\",\"id\":", "call_id", "\"", out);
    if (!status)
        status = smol_messages_copy(r, ",\"function\":{\"name\":", "name", "\"", out);
    if (!status)
        status = smol_messages_copy(r, ",\"arguments\":", "arguments", "\"", out);
    smol_buffer_print(out, "}}]}");
    return status;
}

static smol_status copy_result(struct request_reader *r, struct buffer *out)
{
    smol_status status =
        smol_messages_copy(r, "{\"role\":\"tool\",\"tool_call_id\":", "call_id", "\"", out);
    if (!status)
        status = smol_messages_copy(r, ",\"content\":", "output", "\"[", out);
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
    status = smol_messages_join(&inner, out);
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
    return smol_messages_copy_message(r, out, continues ? CONTENT : ROLE_AND_CONTENT);
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
        status = smol_messages_find(r, "type", "\"", &at);
    if (!status && found)
        status = smol_json_string(&at, r->scratch, &length);
    if (status)
        return status;
    bool calls = found && smol_member_is(r->scratch, length, "function_call");
    bool result = found && smol_member_is(r->scratch, length, "function_call_output");
    bool reasons = found && smol_member_is(r->scratch, length, "reasoning");
    if (found && !calls && !result && !reasons && !smol_member_is(r->scratch, length, "message"))
        return smol_messages_fail_type(r, "an item", length,
                                       "only message, reasoning, function_call and "
                                       "function_call_output are supported");
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

smol_status smol_chat_set_items(struct request_reader *r)
{
    return smol_messages_set(r, copy_item, &(enum turn){TURN_OTHER});
}

/* --- tools ------------------------------------------------------------------------------------ */

/* Copies a tool, whose members besides its type become those of a chat's `function`. */
static smol_status copy_tool(struct request_reader *r, struct buffer *out, enum turn *turn)
{
    (void)turn;
    bool more, any = false;
    size_t length;
    if (smol_json_peek(&r->json) != '{')
        return smol_member_fail(r, "a tool must be an object");
    smol_status status = smol_json_begin(&r->json, '{', &more);
    smol_buffer_add(out, ",", out->size > 1);
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
    struct json_reader start = r->json;
    smol_status status = smol_member_copy_json(r, '[', &smol_body_job(r)->tools);
    if (status)
        return status;
    r->json = start;
    return smol_messages_list(r, copy_tool, &(enum turn){TURN_OTHER}, &r->request->tools);
}
