/* Tools as terms, see front_ends.h. */
#include "runtime/constrain/front_ends.h"

#include <string.h>

#include "common/json_reader.h"
#include "common/memory.h"
#include "runtime/constrain/json_tree.h"
#include "runtime/constrain/trie.h"
#include "runtime/tokenizer/tokenizer.h"

enum { TOOL_NAME_MAX = 128, STYLE_TEXT_SIZE = 3 * TOOL_NAME_MAX + 1 };

/* A tool, as texts within the list. */
struct tool {
    char name[TOOL_NAME_MAX + 1];
    const uint8_t *schema; /* (n_schema) of the arguments; NULL: there are none */
    size_t n_schema;
};

struct tools {
    struct term_table *table;
    const struct tokenizer_tables *tokenizer;
    const struct tool_style_texts *texts;
    const smol_constraint_params *params;
    struct tool *items; /* (n) */
    size_t n;
    struct token_text *special; /* (n_special): the special tokens */
    size_t n_special;
    char *scratch; /* room for any string of the list, decoded */
    smol_error *error;
};

/* --- reading the list ------------------------------------------------------------------------- */

static smol_status fail(const struct tools *t, const char *what)
{
    return smol_fail(t->error, SMOL_ERROR_USAGE, "tools: tool %zu: %s", t->n + 1, what);
}

static struct json_reader reader_of(const struct tools *t, const uint8_t *text, size_t size)
{
    return (struct json_reader){.start = text,
                                .at = text,
                                .end = text + size,
                                .name = "tools",
                                .fault = "not valid JSON",
                                .advice = "",
                                .status = SMOL_ERROR_USAGE,
                                .error = t->error};
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_-.:/", c));
}

static smol_status read_name(struct tools *t, struct json_reader *json, struct tool *tool)
{
    static const char expected[] =
        "its name must be a string of 1 to 128 letters, digits and _ - . : /";
    size_t length;
    if (smol_json_peek(json) != '"')
        return fail(t, expected);
    smol_status status = smol_json_string(json, t->scratch, &length);
    if (status)
        return status;
    bool good = length > 0 && length <= TOOL_NAME_MAX;
    for (size_t i = 0; good && i < length; i++)
        good = is_name_byte(t->scratch[i]);
    for (size_t i = 0; good && i < t->n; i++)
        if (strcmp(t->items[i].name, t->scratch) == 0)
            return fail(t, "another one has the same name");
    if (good)
        memcpy(tool->name, t->scratch, length + 1);
    return good ? SMOL_OK : fail(t, expected);
}

static smol_status read_type(struct tools *t, struct json_reader *json)
{
    size_t length = 0;
    t->scratch[0] = '\0';
    smol_status status =
        smol_json_peek(json) == '"' ? smol_json_string(json, t->scratch, &length) : SMOL_OK;
    return status || strcmp(t->scratch, "function") == 0 ? status
                                                         : fail(t, "its type must be function");
}

static smol_status read_schema(struct json_reader *json, struct tool *tool)
{
    if (smol_json_word(json, "null"))
        return SMOL_OK;
    smol_json_peek(json);
    tool->schema = json->at;
    smol_status status = smol_json_skip(json);
    tool->n_schema = (size_t)(json->at - tool->schema);
    return status;
}

/* Reads a tool: {"type": "function", "function": {"name": ..., "parameters": ...}}, or the inner
 * object alone. */
static smol_status read_tool(struct tools *t, struct json_reader *json, bool inner,
                             struct tool *tool)
{
    bool more = false;
    if (smol_json_peek(json) != '{')
        return fail(t, "expected an object");
    smol_status status = smol_json_begin(json, '{', &more);
    while (!status && more) {
        size_t length;
        status = smol_json_name(json, t->scratch, &length);
        if (status)
            break;
        if (!inner && strcmp(t->scratch, "function") == 0)
            status = read_tool(t, json, true, tool);
        else if (strcmp(t->scratch, "name") == 0)
            status = read_name(t, json, tool);
        else if (strcmp(t->scratch, "parameters") == 0)
            status = read_schema(json, tool);
        else if (!inner && strcmp(t->scratch, "type") == 0)
            status = read_type(t, json);
        else
            status = smol_json_skip(json);
        if (!status)
            status = smol_json_more(json, '}', &more);
    }
    return status;
}

static smol_status read_tools(struct tools *t)
{
    struct json_reader json = reader_of(t, (const uint8_t *)t->params->text, t->params->size);
    bool more = false;
    smol_status status = smol_json_check_utf8(&json);
    if (!status && smol_json_peek(&json) != '[')
        status = smol_fail(t->error, SMOL_ERROR_USAGE, "tools: expected a list");
    if (!status)
        status = smol_json_begin(&json, '[', &more);
    while (!status && more) {
        if (t->n == TOOLS_MAX)
            return smol_fail(t->error, SMOL_ERROR_UNSUPPORTED, "tools: more than %d", TOOLS_MAX);
        if (!RESIZE(t->items, t->n + 1))
            return smol_fail_memory(t->error, "tools");
        t->items[t->n] = (struct tool){0};
        status = read_tool(t, &json, false, &t->items[t->n]);
        if (!status && !t->items[t->n].name[0])
            status = fail(t, "it has no name");
        t->n++;
        if (!status)
            status = smol_json_more(&json, ']', &more);
    }
    return status ? status : smol_json_end(&json);
}

/* --- texts ------------------------------------------------------------------------------------ */

/* Lists the special tokens once: a text is compared with them for each tool. */
static smol_status list_special(struct tools *t)
{
    size_t n = 0;
    for (uint32_t id = 0; id < t->tokenizer->header.n_tokens; id++)
        n += smol_tokenizer_text(t->tokenizer, id).special;
    t->special = smol_reallocarray(NULL, n + 1, sizeof *t->special);
    if (!t->special)
        return smol_fail_memory(t->error, "tools");
    for (uint32_t id = 0; id < t->tokenizer->header.n_tokens; id++) {
        struct token_text token = smol_tokenizer_text(t->tokenizer, id);
        if (token.special)
            t->special[t->n_special++] = token;
    }
    return SMOL_OK;
}

/* Returns the length of the longest special token at the start of a text, or 0. */
static size_t special_at(const struct tools *t, const char *text)
{
    size_t longest = 0, n = strlen(text);
    for (size_t i = 0; i < t->n_special; i++) {
        const struct token_text *token = &t->special[i];
        if (token->length > longest && token->length <= n &&
            memcmp(text, token->bytes, token->length) == 0)
            longest = token->length;
    }
    return longest;
}

/* Writes a text of the style as terms have it: special tokens between two TRIE_SPECIAL. */
static void mark_special(const struct tools *t, const char *text, char out[STYLE_TEXT_SIZE])
{
    while (*text) {
        size_t n = strchr("<[]", *text) ? special_at(t, text) : 0;
        bool special = n > 0;
        n = special ? n : 1 + strcspn(text + 1, "<[]");
        if (special)
            *out++ = (char)TRIE_SPECIAL;
        memcpy(out, text, n);
        out += n;
        if (special)
            *out++ = (char)TRIE_SPECIAL;
        text += n;
    }
    *out = '\0';
}

/* Returns a text of the style, in which special tokens stand for themselves. */
static term text_term(const struct tools *t, const char *text)
{
    char marked[STYLE_TEXT_SIZE];
    mark_special(t, text, marked);
    return smol_term_literal(t->table, marked, strlen(marked));
}

static term optional_text(const struct tools *t, const char *text)
{
    return smol_term_optional(t->table, text_term(t, text));
}

/* Returns the texts without the marker; with `at_start`, those that do not start with it. */
static term free_text(const struct tools *t)
{
    struct byte_set bytes = {0};
    byte_set_add(&bytes, 0, TRIE_SPECIAL - 1);
    term any = smol_term_repeat(t->table, smol_term_bytes(t->table, &bytes), 0, TERM_FOREVER);
    term marker = smol_term_literal(t->table, t->texts->marker, strlen(t->texts->marker));
    term with = smol_term_then(t->table, marker, any);
    if (!t->texts->at_start)
        with = smol_term_then(t->table, any, with);
    return smol_term_without(t->table, any, with);
}

/* --- arguments -------------------------------------------------------------------------------- */

/* Returns whether all properties that a schema requires are among those that it lists. */
static bool lists_required(const struct json_node *schema)
{
    const struct json_node *name = json_first(smol_json_get(schema, "required"));
    const struct json_node *properties = smol_json_get(schema, "properties");
    while (name && (name->kind != JSON_STRING || smol_json_find(properties, name->text)))
        name = name->next;
    return !name;
}

/* Returns what a schema of arguments leaves to be understood: they are an object, and have no
 * properties but those that the schema lists. */
static const char *implied(const struct json_node *schema)
{
    /* keywords that may list further properties, or say otherwise */
    static const char *const names[] = {"additionalProperties",
                                        "unevaluatedProperties",
                                        "patternProperties",
                                        "dependencies",
                                        "dependentRequired",
                                        "dependentSchemas",
                                        "$ref",
                                        "$dynamicRef",
                                        "$recursiveRef",
                                        "allOf",
                                        "anyOf",
                                        "oneOf",
                                        "if",
                                        "not",
                                        "enum",
                                        "const"};
    bool simple = lists_required(schema);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        simple = simple && !smol_json_get(schema, names[i]);
    return !simple                         ? ""
           : smol_json_get(schema, "type") ? "\"additionalProperties\":false"
                                           : "\"type\":\"object\",\"additionalProperties\":false";
}

/* Writes the schema of the arguments to *out, which the caller frees. */
static smol_status write_schema(const struct tools *t, const struct tool *tool, char **out,
                                size_t *size)
{
    static const char none[] = "{}";
    struct tool with = *tool;
    struct arena arena = {0};
    struct json_node *root;
    if (!tool->schema) {
        with.schema = (const uint8_t *)none;
        with.n_schema = sizeof none - 1;
    }
    if (*with.schema != '{')
        return smol_fail(t->error, SMOL_ERROR_USAGE, "tools: %s: parameters must be an object",
                         tool->name);
    smol_status status =
        smol_json_tree(&arena, "tools", (const char *)with.schema, with.n_schema, &root, t->error);
    const char *more = status ? "" : implied(root);
    smol_arena_free(&arena);
    if (status)
        return status;
    const uint8_t *rest = with.schema + 1, *end = with.schema + with.n_schema;
    bool empty = rest + strspn((const char *)rest, " \t\r\n") == end - 1;
    size_t n_more = strlen(more), n_rest = (size_t)(end - rest), n = 1;
    *out = smol_malloc(n_more + n_rest + 2);
    if (!*out)
        return smol_fail_memory(t->error, "tools");
    (*out)[0] = '{';
    memcpy(*out + n, more, n_more);
    n += n_more;
    if (n_more > 0 && !empty)
        (*out)[n++] = ',';
    memcpy(*out + n, rest, n_rest);
    *size = n + n_rest;
    return SMOL_OK;
}

/* The spellings of arguments by level: the arguments, their values, and further ones of XML. */
struct argument_spelling {
    struct spelling levels[4];
    char quote[STYLE_TEXT_SIZE], key[STYLE_TEXT_SIZE], after[STYLE_TEXT_SIZE], end[STYLE_TEXT_SIZE],
        section[STYLE_TEXT_SIZE], section_end[STYLE_TEXT_SIZE];
};

/* Strings of XML are between the same markers as all values. */
static void set_xml(const struct tools *t, struct argument_spelling *out)
{
    const struct tool_style_texts *s = t->texts;
    const struct text_spelling key = {TEXT_NAME, .open = out->key, .close = s->key_end};
    struct text_spelling string = {TEXT_STRING, .open = "", .close = "", .until = s->quote};
    mark_special(t, s->key, out->key);
    mark_special(t, s->after, out->after);
    mark_special(t, "</function>", out->end);
    if (s->cdata) {
        mark_special(t, CDATA_OPEN, out->section);
        mark_special(t, CDATA_CLOSE, out->section_end);
        string.until = CDATA_CLOSE;
        string.section = out->section;
        string.section_end = out->section_end;
    }
    for (size_t i = 0; i < 4; i++)
        out->levels[i] = *smol_json_spelling(JSON_SPACED);
    struct spelling *arguments = &out->levels[0], *values = &out->levels[1];
    arguments->key = key;
    arguments->colon = arguments->object.comma = "";
    arguments->after = out->after;
    arguments->strings = 3;
    values->string = string;
    values->string.kind = TEXT_WORD;
    values->words = WORDS_BOTH;
    values->is_json = false;
    values->within = out->levels[2].within = 2;
    out->levels[3] = *values;
    out->levels[3].string = string;
    out->levels[3].only = TYPE_STRING;
}

/* Fills in the spelling of arguments that are not JSON. */
static void set_plain(const struct tools *t, struct argument_spelling *out)
{
    const bool gemma = t->texts->syntax == ARGUMENTS_GEMMA;
    const struct text_spelling name = {TEXT_NAME, .open = "", .close = ""};
    struct spelling *arguments = &out->levels[0], *values = &out->levels[1];
    mark_special(t, t->texts->quote, out->quote);
    const struct text_spelling raw = {TEXT_STRING, .open = out->quote, .close = out->quote,
                                      .until = t->texts->quote};
    *values = *smol_json_spelling(gemma ? JSON_COMPACT : JSON_SPACED);
    values->string = gemma ? raw : values->string;
    values->key = gemma ? name : values->key;
    values->words = WORDS_BOTH;
    values->sorted = gemma;
    values->is_json = false;
    values->within = 1;
    *arguments = *values;
    arguments->key = name;
    arguments->colon = gemma ? ":" : "=";
    if (t->texts->syntax == ARGUMENTS_XML)
        set_xml(t, out);
    arguments->object.open = "";
    if (t->texts->comma)
        arguments->object.comma = t->texts->comma;
    arguments->object.close = t->texts->syntax == ARGUMENTS_XML ? out->end : gemma ? "}" : ")";
}

/* Fills in the spelling, which must stay where it is. Arguments are an object, whatever the schema
 * says. */
static void set_spelling(const struct tools *t, struct argument_spelling *out)
{
    struct spelling *arguments = &out->levels[0], *values = &out->levels[1];
    if (t->texts->syntax == ARGUMENTS_JSON) {
        *arguments = *values = *smol_json_spelling(JSON_SPACED);
        values->within = 1;
    } else {
        set_plain(t, out);
    }
    arguments->only = TYPE_OBJECT;
    arguments->within = 1;
    arguments->is_json = false;
}

static smol_status arguments_term(const struct tools *t, const struct tool *tool, term *out)
{
    struct argument_spelling spelling;
    const struct schema_options options = {JSON_SPACED, t->params->any_order, spelling.levels};
    char *schema = NULL;
    size_t size = 0;
    smol_error reason = {0};
    smol_status status = write_schema(t, tool, &schema, &size);
    if (status)
        return status;
    set_spelling(t, &spelling);
    status = smol_schema_term(t->table, schema, size, &options, out, &reason);
    smol_free(schema);
    return status ? smol_fail(t->error, status, "tools: %s: %s", tool->name, reason.message)
                  : SMOL_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Returns the id of a call, after the text before it. */
static term id_term(const struct tools *t)
{
    struct byte_set bytes = {0};
    byte_set_add(&bytes, '0', '9');
    byte_set_add(&bytes, 'A', 'Z');
    byte_set_add(&bytes, 'a', 'z');
    term id = smol_term_repeat(t->table, smol_term_bytes(t->table, &bytes), 9, 9);
    return smol_term_then(t->table, text_term(t, t->texts->id), id);
}

/* Returns the member of a call with its number. */
static term number_term(const struct tools *t)
{
    struct byte_set digits = {0};
    byte_set_add(&digits, '0', '9');
    term number = smol_term_repeat(t->table, smol_term_bytes(t->table, &digits), 1, 9);
    number = smol_term_then(t->table, text_term(t, "\": \""), number);
    number = smol_term_then(t->table, text_term(t, t->texts->number), number);
    number = smol_term_then(t->table, text_term(t, "\""), number);
    return smol_term_then(t->table, number, text_term(t, "\", "));
}

static smol_status call_term(const struct tools *t, const struct tool *tool, term *out)
{
    const char *name = t->texts->name ? t->texts->name : "name";
    const char *const before_json[] = {
        "\"", name, "\": \"", tool->name, "\", \"", t->texts->arguments, "\": ", NULL};
    const char *const before_plain[] = {t->texts->call, tool->name, t->texts->name_end, NULL};
    bool json = t->texts->arguments != NULL;
    term arguments;
    smol_status status = arguments_term(t, tool, &arguments);
    if (status)
        return status;
    term all = json ? text_term(t, "{") : TERM_EMPTY;
    if (t->texts->number)
        all = smol_term_then(t->table, all, number_term(t));
    for (const char *const *text = json ? before_json : before_plain; *text; text++) {
        if (*text == t->texts->name_end && t->texts->id)
            all = smol_term_then(t->table, all, id_term(t));
        all = smol_term_then(t->table, all, text_term(t, *text));
    }
    all = smol_term_then(t->table, all, arguments);
    const char *end = json ? "}" : t->texts->call_end;
    *out = end ? smol_term_then(t->table, all, text_term(t, end)) : all;
    return SMOL_OK;
}

/* Returns one call of any tool that may be called. */
static smol_status any_call(const struct tools *t, const char *only, term *out)
{
    term *calls = smol_reallocarray(NULL, t->n + 1, sizeof *calls);
    size_t n = 0;
    smol_status status = calls ? SMOL_OK : smol_fail_memory(t->error, "tools");
    for (size_t i = 0; i < t->n && !status; i++)
        if (!only || strcmp(only, t->items[i].name) == 0)
            status = call_term(t, &t->items[i], &calls[n++]);
    if (!status && n == 0)
        status = smol_fail(t->error, SMOL_ERROR_USAGE,
                           only ? "tool_choice: there is no tool \"%.128s\""
                                : "tool_choice: there is no tool to call",
                           only);
    if (!status)
        *out = smol_term_any_of(t->table, calls, n);
    smol_free(calls);
    return status;
}

/* Returns a and any number of further ones, each after `between`. */
static term chain(struct term_table *table, term a, term between)
{
    term more = smol_term_repeat(table, smol_term_then(table, between, a), 0, TERM_FOREVER);
    return smol_term_then(table, a, more);
}

/* Returns the calls of a group. */
static term calls_term(const struct tools *t, term call)
{
    const struct tool_style_texts *s = t->texts;
    term calls = s->list_next && !t->params->one_call
                     ? chain(t->table, call, text_term(t, s->list_next))
                     : call;
    if (s->brackets == CALLS_PLAIN)
        return calls;
    bool lines = s->brackets == CALLS_INDENTED;
    calls = smol_term_then(t->table, text_term(t, lines ? "[\n    " : "["), calls);
    calls = smol_term_then(t->table, calls, text_term(t, lines ? "\n]" : "]"));
    return s->brackets == CALLS_EITHER ? smol_term_either(t->table, call, calls) : calls;
}

/* Returns the groups of calls, from the first marker to the end of the answer. */
static term groups_term(const struct tools *t, term call)
{
    const struct tool_style_texts *s = t->texts;
    bool line = s->end[0] == '\n';
    term group = text_term(t, s->at_start ? s->at_start : s->marker);
    group = smol_term_then(t->table, group, optional_text(t, s->space));
    group = smol_term_then(t->table, group, calls_term(t, call));
    group = smol_term_then(t->table, group, optional_text(t, line ? "\n" : ""));
    group = smol_term_then(t->table, group, text_term(t, s->end + line));
    return s->next && !t->params->one_call ? chain(t->table, group, text_term(t, s->next)) : group;
}

static smol_status build(const struct tools *t, term text, struct answer_terms *answer)
{
    const bool schema = t->params->answer_schema != NULL;
    const char *choice = t->params->tool_choice ? t->params->tool_choice : "auto";
    bool is_auto = strcmp(choice, "auto") == 0, none = strcmp(choice, "none") == 0;
    bool any = is_auto || strcmp(choice, "required") == 0;
    term call;
    *answer = (struct answer_terms){schema ? text : free_text(t), TERM_NOTHING,
                                    !schema && (none || is_auto)};
    if (none || (is_auto && t->n == 0))
        return SMOL_OK;
    smol_status status = any_call(t, any ? NULL : choice, &call);
    if (status)
        return status;
    term groups = groups_term(t, call);
    if (!is_auto)
        answer->whole = groups;
    else if (t->texts->at_start || schema)
        answer->whole = smol_term_either(t->table, answer->whole, groups);
    else
        answer->whole =
            smol_term_then(t->table, answer->whole, smol_term_optional(t->table, groups));
    if (!t->texts->at_start)
        answer->calls = groups;
    return SMOL_OK;
}

smol_status smol_tools_term(struct term_table *table, const struct tokenizer_tables *tokenizer,
                            const struct tool_style_texts *texts,
                            const smol_constraint_params *params, term text,
                            struct answer_terms *answer, smol_error *error)
{
    struct tools t = {.table = table,
                      .tokenizer = tokenizer,
                      .texts = texts,
                      .params = params,
                      .scratch = smol_malloc(params->size + 1),
                      .error = error};
    smol_status status = t.scratch ? read_tools(&t) : smol_fail_memory(error, "tools");
    if (!status)
        status = list_special(&t);
    if (!status)
        status = build(&t, text, answer);
    smol_free(t.items);
    smol_free(t.special);
    smol_free(t.scratch);
    return status;
}
