/* Tools and calls, see calls.h. */
#include "cli/request/calls.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/memory.h"

/* --- members ---------------------------------------------------------------------------------- */

smol_status smol_set_tools(struct request_reader *r)
{
    return smol_member_copy_json(r, '[', &r->request->tools);
}

bool smol_is_choice_word(const char *choice)
{
    static const char *const words[] = {"auto", "none", "required"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(choice, words[i]) == 0)
            return true;
    return false;
}

/* Reads the name in {"type": "function", "function": {"name": ...}}, or {..., "name": ...}. */
static smol_status set_chosen(struct request_reader *r)
{
    struct json_reader start = r->json, at = r->json;
    size_t length;
    bool found = false;
    smol_status status = smol_json_skip(&r->json);
    if (!status)
        status = smol_member_seek(&at, r->scratch, "function", &found);
    if (!found)
        at = start;
    else if (smol_json_peek(&at) != '{')
        return smol_member_fail(r, "function must be an object");
    if (!status)
        status = smol_member_seek(&at, r->scratch, "name", &found);
    if (status)
        return status;
    if (!found || smol_json_peek(&at) != '"')
        return smol_member_fail(r, "expected the name of a function in it");
    status = smol_json_string(&at, r->scratch, &length);
    if (!status && smol_is_choice_word(r->scratch))
        return smol_member_fail(r, "a function called auto, none or required cannot be chosen");
    return status ? status : smol_member_copy(r, r->scratch, length, &r->request->tool_choice);
}

smol_status smol_set_tool_choice(struct request_reader *r)
{
    size_t size;
    int c = smol_json_peek(&r->json);
    if (c == '"')
        return smol_member_text(r, &r->request->tool_choice, &size);
    return c == '{' ? set_chosen(r) : smol_member_fail(r, "expected a string or an object");
}

smol_status smol_set_parallel_calls(struct request_reader *r)
{
    bool several = true;
    smol_status status = smol_member_flag(r, &several);
    r->request->one_call = !several;
    return status;
}

static bool is_empty_list(const char *json)
{
    size_t n = 1 + strspn(json + 1, " \t\r\n");
    return json[n] == ']';
}

smol_status smol_request_constrain_calls(struct request *request, const smol_model *model,
                                         smol_error *error)
{
    struct wanted_constraint *format = &request->format;
    const char *choice = request->tool_choice ? request->tool_choice : "auto";
    bool none = strcmp(choice, "none") == 0;
    if (!request->tools || is_empty_list(request->tools)) {
        if (none || strcmp(choice, "auto") == 0)
            return SMOL_OK;
        return smol_fail(error, SMOL_ERROR_USAGE, "tool_choice: there are no tools");
    }
    if (none && (format->text || !smol_model_tool_style(model)))
        return SMOL_OK;
    if (format->text && format->kind != SMOL_CONSTRAINT_JSON_SCHEMA)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "response_format: only JSON can be combined with tools, which constrain "
                         "the answer too: leave out one of the two");
    if (!smol_model_tool_style(model))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "tools: the model's chat template does not call them in a known style: "
                         "convert with --chat-template and one that does; with \"tool_choice\": "
                         "\"none\" they are only shown to it");
    char *schema = strcmp(choice, "auto") == 0 ? format->text : NULL;
    if (!schema)
        free(format->text); /* there is a call */
    *format = (struct wanted_constraint){.given = true,
                                         .kind = SMOL_CONSTRAINT_TOOLS,
                                         .text = strdup(request->tools),
                                         .size = strlen(request->tools),
                                         .tool_choice = strdup(choice),
                                         .answer_schema = schema,
                                         .one_call = request->one_call};
    return format->text && format->tool_choice ? SMOL_OK : smol_fail_memory(error, "tools");
}

/* --- calls ------------------------------------------------------------------------------------ */

void smol_call_id(uint64_t prompt_digest, size_t index, char id[CALL_ID_SIZE])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    const uint64_t seed[] = {prompt_digest, index};
    uint64_t digest = smol_digest(seed, sizeof seed);
    for (size_t i = 0; i < CALL_ID_SIZE - 1; i++, digest /= sizeof digits - 1)
        id[i] = digits[digest % (sizeof digits - 1)];
    id[CALL_ID_SIZE - 1] = '\0';
}

bool smol_calls_add(struct calls *calls, struct buffer *text, smol_tool_part part,
                    const char *piece, size_t size)
{
    bool begins = part == SMOL_TOOL_CALL || (part == SMOL_TOOL_ARGUMENTS && calls->n == 0);
    if (part == SMOL_TOOL_CALL_END)
        return true;
    if (begins && !RESIZE(calls->items, calls->n + 1))
        return false;
    if (begins)
        calls->items[calls->n++] = (struct call){0};
    struct buffer *to = part == SMOL_TOOL_TEXT   ? text
                        : part == SMOL_TOOL_CALL ? &calls->items[calls->n - 1].name
                                                 : &calls->items[calls->n - 1].arguments;
    smol_buffer_add(to, piece, size);
    return !to->failed;
}

static void print_text(struct json_out *json, const char *key, const struct buffer *text)
{
    smol_json_key(json, key);
    smol_json_text(json, text->text, text->size);
}

void smol_call_print(const struct call *call, uint64_t prompt_digest, size_t index,
                     struct json_out *json)
{
    char id[CALL_ID_SIZE];
    if (call->name.size > 0) {
        smol_call_id(prompt_digest, index, id);
        smol_json_member_text(json, "id", id);
        smol_json_member_text(json, "type", "function");
    }
    smol_json_member_open(json, "function", '{');
    if (call->name.size > 0)
        print_text(json, "name", &call->name);
    print_text(json, "arguments", &call->arguments);
    smol_json_close(json, '}');
}

void smol_calls_print(const struct calls *calls, uint64_t prompt_digest, struct json_out *json)
{
    if (calls->n == 0)
        return;
    smol_json_member_open(json, "tool_calls", '[');
    for (size_t i = 0; i < calls->n; i++) {
        smol_json_open(json, '{');
        smol_call_print(&calls->items[i], prompt_digest, i, json);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
}

void smol_calls_free(struct calls *calls)
{
    for (size_t i = 0; i < calls->n; i++) {
        free(calls->items[i].name.text);
        free(calls->items[i].arguments.text);
    }
    free(calls->items);
    *calls = (struct calls){0};
}
