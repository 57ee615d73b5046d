/* Calls of tools in answers, see smol.h and chat.h. */
#include "runtime/chat.h"

#include <string.h>

#include "common/buffer.h"
#include "common/json_reader.h"
#include "common/memory.h"
#include "common/text.h"
#include "runtime/arguments.h"
#include "runtime/model.h"

static enum tool_style style_of(const smol_model *model)
{
    return model->blob.template_section ? model->blob.template.header.tool_style : TOOLS_NONE;
}

const char *smol_model_tool_style(const smol_model *model)
{
    return smol_tool_style_name(style_of(model));
}

smol_status smol_tool_texts(const smol_model *model, const struct tool_style_texts **texts,
                            smol_error *error)
{
    *texts = smol_tool_style_texts(style_of(model));
    return *texts ? SMOL_OK
                  : smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                              "%s: its chat template does not call tools in a known style (see "
                              "format/FORMAT.md, 5.11)",
                              model->blob.path);
}

/* --- reading answers -------------------------------------------------------------------------- */

/* The place in an answer: what the next byte belongs to. */
enum place {
    IN_TEXT,
    BEFORE_CALL,  /* after the marker, or within a list: white space, brackets, commas */
    IN_NAME,      /* a name that is followed by name_end */
    IN_CALL,      /* within the object of a call, between its members */
    IN_KEY,       /* a member's name */
    BEFORE_VALUE, /* the colon */
    IN_VALUE,
    IN_ARGUMENTS, /* that are not JSON */
    AFTER_CALL,   /* the rest of the call, and of the group */
};

struct smol_tool_reader {
    const struct tool_style_texts *texts;
    smol_on_tool_part *on_part;
    void *user;
    enum place place;
    struct buffer held; /* text that may be a part of a marker, or a name */
    size_t n_spaces;    /* before the part of a marker */
    struct buffer raw;  /* the call until its name is known, as text: it may be none */
    struct buffer name, arguments;
    struct arena arena;
    const struct json_node *tools; /* the list, or NULL */
    struct argument_reader others; /* arguments that are not JSON */
    char key[16];                  /* of the current member; cut */
    size_t n_key;
    bool in_string, escaped; /* within a value */
    unsigned depth;          /* of its brackets */
    bool listed;             /* the group's calls are between brackets */
    const char *rest;        /* AFTER_CALL: what ends the call or the list, then the group */
    bool begun;              /* the call was reported */
    bool called;             /* there was a call */
    bool anything;           /* the answer is not empty */
    bool after_group;        /* only white space has followed a group of calls */
    bool calls_first;        /* no text comes before them */
    smol_status status;
};

static void report(struct smol_tool_reader *r, smol_tool_part part, const char *text, size_t size)
{
    bool empty = size == 0 && (part == SMOL_TOOL_TEXT || part == SMOL_TOOL_ARGUMENTS);
    if (!r->status && !empty && r->on_part(r->user, part, text, size))
        r->status = SMOL_ERROR_CANCELLED;
}

/* Reports what is held as text, but for the last `keep` bytes. */
static void release(struct smol_tool_reader *r, size_t keep)
{
    struct buffer *held = &r->held;
    if (keep == held->size)
        return;
    report(r, SMOL_TOOL_TEXT, held->text, held->size - keep);
    smol_buffer_keep_last(held, keep);
}

/* Returns how many bytes at the end of what is held may be the start of the marker, `overlap`, and
 * the white space before them, which belongs to the call if they are. */
static size_t possible_marker(const struct smol_tool_reader *r, size_t overlap)
{
    const struct buffer *held = &r->held;
    size_t rest = held->size - r->n_spaces, n = overlap;
    while (n < rest && json_is_space(held->text[held->size - n - 1]))
        n++;
    return n < rest ? n : held->size;
}

/* Begins a group of calls with the marker and the white space before it, but for the last byte,
 * which read_byte's caller keeps. */
static void begin_calls(struct smol_tool_reader *r)
{
    buffer_clear(&r->raw);
    smol_buffer_add(&r->raw, r->held.text, r->held.size - 1);
    buffer_clear(&r->held);
    r->n_spaces = 0;
    r->place = r->texts->arguments || r->texts->brackets ? BEFORE_CALL : IN_NAME;
    r->listed = false;
}

static void begin_call(struct smol_tool_reader *r)
{
    buffer_clear(&r->name);
    buffer_clear(&r->arguments);
    r->place = IN_CALL;
}

static void read_byte(struct smol_tool_reader *r, char c);

static void text_byte(struct smol_tool_reader *r, char c)
{
    const char *marker = r->texts->marker, *start = r->texts->at_start;
    const bool begins = start || r->calls_first;
    r->after_group = r->after_group && json_is_space(c);
    if (r->after_group)
        return;
    smol_buffer_add(&r->held, &c, 1);
    size_t overlap = smol_buffer_overlap(&r->held, marker);
    size_t possible = possible_marker(r, overlap);
    if (begins && (r->anything || possible < r->held.size))
        possible = overlap = 0; /* too late for a call */
    r->anything |= possible < r->held.size;
    release(r, possible);
    r->n_spaces = possible - overlap;
    if (overlap < strlen(marker))
        return;
    begin_calls(r);
    if (start)
        for (r->place = BEFORE_CALL, marker += strlen(start); *marker; marker++)
            read_byte(r, *marker);
}

/* Goes back to text: what follows is no call, and nor is what was kept of one. */
static void begin_text(struct smol_tool_reader *r)
{
    buffer_clear(&r->held);
    smol_buffer_add(&r->held, r->raw.text, r->raw.size);
    buffer_clear(&r->raw);
    r->place = IN_TEXT;
    r->anything = true;
}

/* Reports the call once its name is known, and its arguments so far. */
static void report_call(struct smol_tool_reader *r)
{
    if (!r->begun) {
        report(r, SMOL_TOOL_CALL, r->name.text, r->name.size);
        r->begun = true;
    }
    report(r, SMOL_TOOL_ARGUMENTS, r->arguments.text, r->arguments.size);
    buffer_clear(&r->arguments);
}

/* Ends a call. Returns false if it has no name: then it is text, and so is the next byte. */
static bool end_call(struct smol_tool_reader *r)
{
    bool named = r->name.size > 0;
    if (named) {
        report_call(r);
        report(r, SMOL_TOOL_CALL_END, NULL, 0);
        r->called = true;
        r->rest = r->texts->call_end ? r->texts->call_end : r->listed ? "]" : r->texts->end;
        r->place = AFTER_CALL;
    } else {
        begin_text(r);
    }
    buffer_clear(&r->name);
    buffer_clear(&r->arguments);
    r->begun = false;
    return named;
}

/* Ends a call before a byte that cannot be in one. */
static void give_up(struct smol_tool_reader *r, char c)
{
    if (end_call(r))
        begin_text(r);
    text_byte(r, c);
}

static bool key_is(const struct smol_tool_reader *r, const char *name)
{
    return r->n_key == strlen(name) && memcmp(r->key, name, r->n_key) == 0;
}

static bool in_name_value(const struct smol_tool_reader *r)
{
    return key_is(r, r->texts->name ? r->texts->name : "name");
}

/* Makes the first n bytes of the buffer the name. Then the call is one. */
static void set_name(struct smol_tool_reader *r, size_t n)
{
    r->name.size = n;
    if (n > 0)
        buffer_clear(&r->raw);
}

/* Takes the value as the name, a JSON string. */
static void take_name(struct smol_tool_reader *r)
{
    struct json_reader json = {.start = (const uint8_t *)r->held.text,
                               .at = (const uint8_t *)r->held.text,
                               .end = (const uint8_t *)r->held.text + r->held.size,
                               .name = "",
                               .fault = "",
                               .advice = "",
                               .status = SMOL_ERROR_USAGE};
    size_t length = 0;
    smol_buffer_add(&r->name, r->held.text, r->held.size); /* as much room as the text */
    if (!r->name.failed && r->held.size > 0 && r->held.text[0] == '"' &&
        smol_json_string(&json, r->name.text, &length) != SMOL_OK)
        length = 0;
    set_name(r, length);
}

/* Keeps a byte of a value: of the name, of the arguments, or of what nobody needs. */
static void value_byte(struct smol_tool_reader *r, char c)
{
    if (!r->texts->arguments || key_is(r, r->texts->arguments))
        smol_buffer_add(&r->arguments, &c, 1);
    else if (in_name_value(r))
        smol_buffer_add(&r->held, &c, 1);
}

static void end_value(struct smol_tool_reader *r)
{
    if (in_name_value(r) && r->name.size == 0)
        take_name(r);
    buffer_clear(&r->held);
    r->place = IN_CALL;
    if (!r->texts->arguments)
        end_call(r);
}

/* Follows a value to its end. Returns whether the byte belongs to it. */
static bool follow_value(struct smol_tool_reader *r, char c)
{
    bool was_string = r->in_string;
    bool starts = !was_string && (c == '{' || c == '[');
    bool ends = !was_string && (c == '}' || c == ']');
    if (r->depth == 0 && !was_string && (c == ',' || ends)) {
        end_value(r); /* after a number or a word */
        return false;
    }
    value_byte(r, c);
    if (c == '"' && !r->escaped)
        r->in_string = !was_string;
    r->escaped = was_string && c == '\\' && !r->escaped;
    r->depth += starts;
    r->depth -= ends;
    if (r->depth == 0 && (ends || (was_string && !r->in_string)))
        end_value(r);
    if (r->place == IN_TEXT)
        text_byte(r, c);
    return true;
}

/* Returns the schema of the arguments of the tool that is called, or NULL. */
static const struct json_node *schema_of(const struct smol_tool_reader *r)
{
    const struct json_text name = {r->name.text, r->name.size};
    for (const struct json_node *tool = json_first(r->tools); tool; tool = tool->next) {
        const struct json_node *inner = smol_json_get(tool, "function");
        const struct json_node *own = smol_json_get(inner ? inner : tool, "name");
        if (own && own->kind == JSON_STRING && json_text_equal(own->text, name))
            return smol_json_get(inner ? inner : tool, "parameters");
    }
    return NULL;
}

static void name_byte(struct smol_tool_reader *r, char c)
{
    const char *call = r->texts->call, *end = r->texts->name_end;
    size_t n_call = strlen(call), n_end = strlen(end);
    if (r->held.size == 0 && json_is_space(c))
        return;
    if (r->held.size < n_call && c != call[r->held.size]) {
        give_up(r, c);
        return;
    }
    smol_buffer_add(&r->held, &c, 1);
    if (r->held.size <= n_call || !bytes_end_with(r->held.text, r->held.size, end))
        return;
    buffer_clear(&r->name);
    smol_buffer_add(&r->name, r->held.text + n_call, r->held.size - n_call - n_end);
    const char *id = r->texts->id && r->name.size > 0
                         ? memmem(r->name.text, r->name.size, r->texts->id, strlen(r->texts->id))
                         : NULL;
    set_name(r, id ? (size_t)(id - r->name.text) : r->name.size);
    buffer_clear(&r->held);
    buffer_clear(&r->arguments);
    r->n_key = 0;
    r->place = BEFORE_VALUE;
    if (r->texts->syntax != ARGUMENTS_JSON) {
        smol_arguments_begin(&r->others, r->texts, schema_of(r), &r->arguments);
        r->place = IN_ARGUMENTS;
    }
}

/* Reads arguments that are not JSON. */
static void argument_byte(struct smol_tool_reader *r, char c)
{
    enum argument_step step = smol_arguments_byte(&r->others, c, &r->arguments);
    if (step == ARGUMENTS_END && !end_call(r))
        text_byte(r, c);
    else if (step == ARGUMENTS_WRONG)
        give_up(r, c);
}

static void key_byte(struct smol_tool_reader *r, char c)
{
    if (c == '"')
        r->place = BEFORE_VALUE;
    else if (r->n_key < sizeof r->key)
        r->key[r->n_key++] = c;
}

static void call_byte(struct smol_tool_reader *r, char c)
{
    if (c == '"') {
        r->n_key = 0;
        r->place = IN_KEY;
    } else if (c == '}') {
        if (!end_call(r))
            text_byte(r, c);
    } else if (c != ',' && !json_is_space(c)) {
        give_up(r, c);
    }
}

static bool is_start(const struct buffer *held, const char *text)
{
    return held->size <= strlen(text) &&
           (held->size == 0 || memcmp(held->text, text, held->size) == 0);
}

/* Returns whether a byte after what is held, which began like the end of the group, belongs to the
 * next call of the list. */
static bool begins_next(const struct smol_tool_reader *r, char c)
{
    const char *next = r->texts->list_next;
    if (!next || r->rest == r->texts->call_end)
        return false;
    return json_is_space(*next) ? is_start(&r->held, r->texts->call)
                                : r->held.size == 0 && c == *next;
}

/* Reads the end of a call and that of a group, or the next call of it. Other text follows the
 * group. */
static void after_call(struct smol_tool_reader *r, char c)
{
    const char *rest = r->rest + strspn(r->rest, " \n");
    if (r->held.size == 0 && json_is_space(c))
        return;
    smol_buffer_add(&r->held, &c, 1);
    if (is_start(&r->held, rest)) {
        if (r->held.size < strlen(rest))
            return;
        buffer_clear(&r->held);
        r->after_group = r->rest == r->texts->end || !*r->texts->end;
        if (r->after_group)
            r->place = IN_TEXT;
        r->rest = r->texts->end;
        return;
    }
    r->held.size--;
    if (!begins_next(r, c)) {
        r->place = IN_TEXT;
        text_byte(r, c);
        return;
    }
    buffer_clear(&r->raw);
    smol_buffer_add(&r->raw, r->held.text, r->held.size);
    r->place = r->held.size > 0 ? IN_NAME : BEFORE_CALL;
    if (json_is_space(*r->texts->list_next))
        read_byte(r, c);
}

static void read_byte(struct smol_tool_reader *r, char c)
{
    switch (r->place) {
    case IN_TEXT:
        text_byte(r, c);
        break;
    case BEFORE_CALL:
        if (!r->texts->arguments && !json_is_space(c) && c != '[')
            r->place = IN_NAME, name_byte(r, c);
        else if (c == '{')
            begin_call(r);
        else if (!json_is_space(c) && c != '[')
            give_up(r, c);
        r->listed |= c == '[' && r->place == BEFORE_CALL;
        break;
    case IN_NAME:
        name_byte(r, c);
        break;
    case IN_CALL:
        call_byte(r, c);
        break;
    case IN_KEY:
        key_byte(r, c);
        break;
    case BEFORE_VALUE:
        if (json_is_space(c) || c == ':')
            break;
        r->place = IN_VALUE;
        r->in_string = r->escaped = false;
        r->depth = 0;
        read_byte(r, c);
        break;
    case IN_VALUE:
        if (!follow_value(r, c))
            read_byte(r, c);
        break;
    case IN_ARGUMENTS:
        argument_byte(r, c);
        break;
    case AFTER_CALL:
        after_call(r, c);
        break;
    }
}

smol_status smol_tool_reader_create(const smol_model *model, const char *tools,
                                    smol_on_tool_part *on_part, void *user,
                                    smol_tool_reader **reader, smol_error *error)
{
    const struct tool_style_texts *texts;
    error_clear(error);
    *reader = NULL;
    smol_status status = smol_tool_texts(model, &texts, error);
    if (status)
        return status;
    *reader = smol_calloc(1, sizeof **reader);
    if (!*reader)
        return smol_fail_memory(error, "a reader of tool calls");
    **reader = (struct smol_tool_reader){.texts = texts, .on_part = on_part, .user = user};
    if (!tools || texts->syntax != ARGUMENTS_XML)
        return SMOL_OK; /* smol_arguments_begin needs no schemas */
    struct json_node *list = NULL;
    status = smol_json_tree(&(*reader)->arena, "tools", tools, strlen(tools), &list, error);
    if (!status && list->kind == JSON_LIST)
        (*reader)->tools = list;
    if (status)
        smol_tool_reader_free(*reader), *reader = NULL;
    return status;
}

static smol_status finish(struct smol_tool_reader *r, smol_error *error)
{
    bool failed = r->held.failed || r->raw.failed || r->name.failed || r->arguments.failed ||
                  r->others.open.failed || r->others.held.failed;
    if (failed && !r->status)
        r->status = SMOL_ERROR_MEMORY;
    if (r->status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "a reader of tool calls");
    return r->status ? smol_fail(error, r->status, "a callback ended the answer") : SMOL_OK;
}

void smol_tool_reader_calls_first(smol_tool_reader *r)
{
    r->calls_first = true;
}

smol_status smol_tool_reader_add(smol_tool_reader *reader, const char *text, size_t size,
                                 smol_error *error)
{
    error_clear(error);
    for (size_t i = 0; i < size && !reader->status; i++) {
        read_byte(reader, text[i]);
        if (reader->place != IN_TEXT && reader->place != AFTER_CALL && reader->name.size == 0)
            smol_buffer_add(&reader->raw, &text[i], 1);
    }
    if (reader->arguments.size > 0 && reader->name.size > 0)
        report_call(reader);
    return finish(reader, error);
}

smol_status smol_tool_reader_end(smol_tool_reader *reader, smol_error *error)
{
    error_clear(error);
    bool called = reader->called;
    if (reader->place != IN_TEXT && reader->place != AFTER_CALL)
        end_call(reader);
    /* After a call, what is held began another one, which was cut off. */
    if (reader->place == IN_TEXT && !called)
        release(reader, 0);
    return finish(reader, error);
}

void smol_tool_reader_free(smol_tool_reader *reader)
{
    if (!reader)
        return;
    smol_free(reader->held.text);
    smol_free(reader->raw.text);
    smol_free(reader->name.text);
    smol_free(reader->arguments.text);
    smol_arguments_free(&reader->others);
    smol_arena_free(&reader->arena);
    smol_free(reader);
}
