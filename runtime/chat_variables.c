/* The variables of a chat template. Messages, tools and documents become values as the reference's
 * apply_chat_template passes them to the template. */
#include "runtime/chat_variables.h"

#include <string.h>

#include "common/memory.h"
#include "common/utf8.h"

/* --- variables -------------------------------------------------------------------------------- */

/* The variables of a template, collected into a dict one by one. */
struct variables {
    struct value *pairs;
    uint32_t n, capacity;
};

static struct value literal(const char *text)
{
    return value_text(text, strlen(text));
}

/* Sets a variable. A later variable replaces an earlier one with the same name. */
static bool set_variable(struct machine *machine, struct variables *variables, struct value name,
                         struct value value)
{
    const struct value so_far = value_items(VALUE_DICT, variables->pairs, variables->n);
    const struct value *found;
    if (!smol_dict_find(machine, &so_far, &name, &found))
        return false;
    if (found) {
        variables->pairs[found - variables->pairs] = value;
        return true;
    }
    variables->pairs[2 * variables->n] = name;
    variables->pairs[2 * variables->n++ + 1] = value;
    return true;
}

/* Sets the special tokens of the template section, which count as the template's own text. */
static bool set_tokens(struct machine *machine, struct variables *variables)
{
    const struct template_code *code = machine->code;
    for (uint32_t i = 0; i < code->header.n_variables; i++)
        if (!set_variable(machine, variables, template_text(code, code->variables[i].name),
                          template_text(code, code->variables[i].value)))
            return false;
    return true;
}

/* --- messages --------------------------------------------------------------------------------- */

static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};
enum { N_REASONING = sizeof reasoning_names / sizeof reasoning_names[0] };

/* Sets *reasoning to the first reasoning field that exists and is not None, or to NULL. Returns
 * false on failure. */
static bool find_reasoning(struct machine *machine, const struct value *message,
                           const struct value **reasoning)
{
    *reasoning = NULL;
    for (size_t i = 0; i < N_REASONING && !*reasoning; i++) {
        const struct value name = literal(reasoning_names[i]);
        if (!smol_dict_find(machine, message, &name, reasoning))
            return false;
        if (*reasoning && (*reasoning)->type == VALUE_NONE)
            *reasoning = NULL;
    }
    return true;
}

/* Sets *out to a list of one part, a text. */
static bool list_part(struct machine *machine, const struct value *text, struct value *out)
{
    struct value *part = smol_template_alloc(machine, 5, sizeof *part);
    if (!part)
        return false;
    part[0] = literal("type");
    part[1] = part[2] = literal("text");
    part[3] = *text;
    part[4] = value_items(VALUE_DICT, part, 2);
    *out = value_items(VALUE_LIST, &part[4], 1);
    return true;
}

/* Sets *out to the value of a message's member that the template sees. `contents` may be NULL. */
static bool member_value(struct machine *machine, const struct value *name,
                         const struct value *given, unsigned number, struct contents *contents,
                         struct value *out)
{
    *out = *given;
    if (!contents || !text_is(name, "content"))
        return true;
    if (contents->as_parts)
        return !is_text(given) || list_part(machine, given, out);
    if (given->type == VALUE_LIST) {
        contents->list_at = contents->list_at ? contents->list_at : number;
        *out = literal("text");
    }
    return true;
}

const char *const smol_chat_roles[] = {"system", "developer", "user",    "assistant",
                                       "tool",   "function",  "ipython", NULL};

/* Marks a role as the template's own text, because templates build special tokens from it. The role
 * must therefore be a known name: one of smol_chat_roles, or one that the template compares with.
 */
static bool check_role(struct machine *machine, unsigned number, struct value *role)
{
    if (!is_text(role))
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "messages: the role of message %u must be a string", number);
    bool named = false;
    for (const char *const *known = smol_chat_roles; *known && !named; known++)
        named = text_is(role, *known);
    if (!named && !smol_template_names_role(machine, role, &named))
        return false;
    role->argument = 0;
    role->marks = NULL;
    return named ||
           smol_template_fail(machine, SMOL_ERROR_USAGE,
                              "messages: unknown role \"%.*s\" (message %u): expected system, "
                              "developer, user, assistant, tool, function, ipython or a role that "
                              "the chat template names",
                              (int)smol_utf8_well_formed(role->bytes, role->n < 64 ? role->n : 64),
                              (const char *)role->bytes, number);
}

/* Copies the members of a message and prepares them as the reference does before it runs the
 * template: omits members that are None, and stores the reasoning as `thinking` and
 * `reasoning_content`. */
static bool prepare_message(struct machine *machine, const struct value *message, unsigned number,
                            struct contents *contents, struct value *out)
{
    const struct value *reasoning;
    struct variables members = {0};
    if (message->type != VALUE_DICT)
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "messages: message %u must be an object", number);
    members.pairs =
        smol_template_alloc(machine, ((uint64_t)message->n + 2) * 2, sizeof *members.pairs);
    if (!members.pairs || !find_reasoning(machine, message, &reasoning))
        return false;
    if (reasoning && !set_variable(machine, &members, literal("thinking"), *reasoning))
        return false;
    for (uint32_t i = 0; i < message->n; i++) {
        const struct value *name = &message->items[2 * i], *given = name + 1;
        struct value value;
        if (!member_value(machine, name, given, number, contents, &value))
            return false;
        if (value.type == VALUE_NONE)
            continue;
        if (text_is(name, "role") && !check_role(machine, number, &value))
            return false;
        if (!set_variable(machine, &members, *name, value))
            return false;
    }
    if (reasoning && !set_variable(machine, &members, literal("reasoning_content"), *reasoning))
        return false;
    *out = value_items(VALUE_DICT, members.pairs, members.n);
    return true;
}

static bool read_list(struct machine *machine, const char *name, const char *json,
                      struct value *list)
{
    *list = value_none();
    if (!json)
        return true;
    if (!smol_template_read_json(machine, name, json, strlen(json), list))
        return false;
    bool good = list->type == VALUE_LIST;
    for (uint32_t i = 0; good && i < list->n; i++)
        good = list->items[i].type == VALUE_DICT;
    return good ||
           smol_template_fail(machine, SMOL_ERROR_USAGE, "%s: must be a list of objects", name);
}

/* Sets *out to a text of the caller's, or to a repaired copy if it is not UTF-8. */
static bool argument_text(struct machine *machine, const char *text, size_t n, struct value *out)
{
    struct text_builder builder = {0};
    if (n > TEMPLATE_MEMORY)
        return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "messages: longer than %d MiB",
                                  TEMPLATE_MEMORY >> 20);
    *out = value_text(n > 0 ? text : "", n); /* the pointer must not be NULL */
    out->argument = 1;
    if (smol_utf8_well_formed((const uint8_t *)text, n) == n)
        return true;
    for (size_t i = 0; i < n;) {
        uint32_t code_point;
        i += smol_utf8_decode((const uint8_t *)text + i, n - i, &code_point);
        if (!smol_builder_add_code_point(machine, &builder, code_point, true))
            return false;
    }
    *out = smol_builder_text(&builder);
    return true;
}

/* Converts plain messages to the list that their JSON text would produce. */
static bool list_messages(struct machine *machine, const smol_chat_params *params,
                          struct value *list)
{
    struct value *items = smol_template_alloc(machine, params->n_messages, sizeof *items);
    struct value *pairs =
        smol_template_alloc(machine, (uint64_t)params->n_messages * 4, sizeof *pairs);
    if (!items || !pairs)
        return false;
    for (size_t i = 0; i < params->n_messages; i++, pairs += 4) {
        const smol_chat_message *message = &params->messages[i];
        pairs[0] = literal("role");
        pairs[2] = literal("content");
        if (!argument_text(machine, message->role, strlen(message->role), &pairs[1]) ||
            !argument_text(machine, message->content, message->size, &pairs[3]))
            return false;
        items[i] = value_items(VALUE_DICT, pairs, 2);
    }
    *list = value_items(VALUE_LIST, items, (uint32_t)params->n_messages);
    return true;
}

/* Finds a member of a dict; NULL if there is none, or `dict` is no dict. */
static bool find_member(struct machine *machine, const struct value *dict, const char *name,
                        const struct value **found)
{
    const struct value key = literal(name);
    *found = NULL;
    return !dict || dict->type != VALUE_DICT || smol_dict_find(machine, dict, &key, found);
}

/* Reads the text of arguments as JSON. Templates expect an object, so a call that was cut off gets
 * one, as pydantic-ai writes it. */
static bool read_arguments(struct machine *machine, struct value *arguments)
{
    const struct value text = arguments->n > 0 ? *arguments : literal("{}");
    if (smol_template_read_json(machine, "arguments", (const char *)text.bytes, text.n, arguments))
        return true;
    if (machine->status != SMOL_ERROR_USAGE)
        return false;
    struct value *pair = smol_template_alloc(machine, 2, sizeof *pair);
    if (!pair)
        return false;
    error_clear(machine->error); /* the text is not JSON */
    machine->status = SMOL_OK;
    pair[0] = literal("INVALID_JSON");
    pair[1] = text;
    *arguments = value_items(VALUE_DICT, pair, 1);
    return true;
}

/* Replaces the texts of arguments in a message's calls of tools by the JSON values in them. The
 * message was just read from JSON, so nothing else refers to its values. */
static bool parse_arguments(struct machine *machine, const struct value *message)
{
    const struct value *calls, *function, *arguments;
    if (!find_member(machine, message, "tool_calls", &calls))
        return false;
    for (uint32_t i = 0; calls && calls->type == VALUE_LIST && i < calls->n; i++) {
        if (!find_member(machine, &calls->items[i], "function", &function) ||
            !find_member(machine, function, "arguments", &arguments))
            return false;
        if (arguments && is_text(arguments) &&
            !read_arguments(machine, (struct value *)(uintptr_t)arguments))
            return false;
    }
    return true;
}

/* Returns the text of a content, or of its last part that has one; NULL if there is none. */
static struct value *content_text(struct machine *machine, const struct value *content)
{
    const struct value *text = content;
    if (content && content->type == VALUE_LIST) {
        text = NULL;
        for (uint32_t i = content->n; i > 0 && !text; i--)
            if (!find_member(machine, &content->items[i - 1], "text", &text))
                return NULL;
    }
    return text && is_text(text) ? (struct value *)(uintptr_t)text : NULL;
}

/* Appends the mark to the content of a message, which was just made. */
static bool mark_end(struct machine *machine, const smol_chat_params *params,
                     const struct value *message)
{
    const struct value *content;
    struct text_builder builder = {0};
    if (params->add_generation_prompt)
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "continue_final_message: not with add_generation_prompt");
    if (!find_member(machine, message, "content", &content))
        return false;
    struct value *text = content_text(machine, content);
    if (!text)
        return machine->status ? false
                               : smol_template_fail(machine, SMOL_ERROR_USAGE,
                                                    "continue_final_message: the last message has "
                                                    "no text as content");
    if (!smol_builder_add_part(machine, &builder, text, 0, text->n) ||
        !smol_builder_add_literal(machine, &builder, CONTINUED_MARK, true))
        return false;
    *text = smol_builder_text(&builder);
    return true;
}

static bool read_messages(struct machine *machine, const smol_chat_params *params,
                          struct contents *contents, struct value *list)
{
    bool good = params->messages_json ? read_list(machine, "messages", params->messages_json, list)
                                      : list_messages(machine, params, list);
    if (!good)
        return false;
    if (list->n == 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "messages: expected at least one");
    struct value *items = smol_template_alloc(machine, list->n, sizeof *items);
    for (uint32_t i = 0; items && params->parse_arguments && i < list->n; i++)
        if (!parse_arguments(machine, &list->items[i]))
            return false;
    for (uint32_t i = 0; items && i < list->n; i++)
        if (!prepare_message(machine, &list->items[i], i + 1, contents, &items[i]))
            return false;
    list->items = items;
    return items &&
           (!params->continue_final_message || mark_end(machine, params, &items[list->n - 1]));
}

/* The names of the conversation's own parameters; all but the last are variables. */
static const char *const own_names[] = {"messages", "tools", "documents", "add_generation_prompt",
                                        "continue_final_message"};
enum { N_NAMES = sizeof own_names / sizeof own_names[0], N_OWN = N_NAMES - 1 };

/* Checks that the caller's variables are others. */
static bool check_variables(struct machine *machine, const struct value *variables)
{
    if (variables->type != VALUE_DICT)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "variables: must be an object");
    for (size_t i = 0; i < N_NAMES; i++) {
        const struct value name = literal(own_names[i]);
        const struct value *found;
        if (!smol_dict_find(machine, variables, &name, &found))
            return false;
        if (found)
            return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                      "the template's variable %s belongs to the conversation: "
                                      "leave it out of the variables",
                                      own_names[i]);
    }
    return true;
}

bool smol_chat_set_variables(struct machine *machine, const smol_chat_params *params,
                             struct contents *contents)
{
    struct value values[N_OWN], more = value_items(VALUE_DICT, NULL, 0);
    struct variables variables = {0};
    if (params->variables_json &&
        !smol_template_read_json(machine, "variables", params->variables_json,
                                 strlen(params->variables_json), &more))
        return false;
    if (!check_variables(machine, &more))
        return false;
    values[3] = value_boolean(params->add_generation_prompt != 0);
    if (!read_messages(machine, params, contents, &values[0]) ||
        !read_list(machine, "tools", params->tools_json, &values[1]) ||
        !read_list(machine, "documents", params->documents_json, &values[2]))
        return false;
    uint64_t most = (uint64_t)machine->code->header.n_variables + more.n + N_OWN;
    variables.pairs = smol_template_alloc(machine, most * 2, sizeof *variables.pairs);
    if (!variables.pairs || !set_tokens(machine, &variables))
        return false;
    for (uint32_t i = 0; i < more.n; i++)
        if (!set_variable(machine, &variables, more.items[2 * i], more.items[2 * i + 1]))
            return false;
    for (size_t i = 0; i < N_OWN; i++)
        if (!set_variable(machine, &variables, literal(own_names[i]), values[i]))
            return false;
    machine->variables = value_items(VALUE_DICT, variables.pairs, variables.n);
    return true;
}

/* --- roles ---------------------------------------------------------------------------------- */

smol_status smol_chat_list_roles(const struct template_code *code, char ***list, smol_error *error)
{
    struct machine machine = {.code = code, .error = error, .steps = TEMPLATE_STEPS};
    uint32_t n = code->header.n_constants;
    char **roles = NULL, *text;
    size_t n_known = sizeof smol_chat_roles / sizeof smol_chat_roles[0] - 1, n_roles = n_known,
           n_bytes = 0;
    bool *names = smol_calloc(n + (size_t)1, sizeof *names);
    if (names && !smol_template_role_names(&machine, names)) {
        smol_free(names);
        return machine.status;
    }
    for (uint32_t i = 0; names && i < n; i++) {
        names[i] = names[i] && code->constants[i].length > 0;
        n_roles += names[i];
        n_bytes += names[i] ? code->constants[i].length + (size_t)1 : 0;
    }
    if (names)
        roles = smol_malloc((n_roles + 1) * sizeof *roles + n_bytes);
    if (!roles) {
        smol_free(names);
        return smol_fail_memory(error, "roles");
    }
    memcpy(roles, smol_chat_roles, n_known * sizeof *roles);
    text = (char *)(roles + n_roles + 1);
    n_roles = n_known;
    for (uint32_t i = 0; i < n; i++) {
        if (!names[i])
            continue;
        const struct value name = template_text(code, i);
        memcpy(text, name.bytes, name.n);
        text[name.n] = '\0';
        roles[n_roles++] = text;
        text += name.n + 1;
    }
    roles[n_roles] = NULL;
    *list = roles;
    smol_free(names);
    return SMOL_OK;
}
