/* Conversations as text and ids, see smol.h. Does the work that the reference's apply_chat_template
 * does before and after it runs the template. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/file.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "runtime/chat.h"
#include "runtime/engine/fpenv.h"
#include "runtime/model.h"
#include "runtime/template/template_value.h"
#include "runtime/template/template_vm.h"
#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/tokenizer.h"

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

static struct value constant_text(const struct template_code *code, uint32_t constant)
{
    const struct template_constant *c = &code->constants[constant];
    return value_text(code->text + c->value, c->length);
}

/* Sets the special tokens of the template section, which count as the template's own text. */
static bool set_tokens(struct machine *machine, struct variables *variables)
{
    const struct template_code *code = machine->code;
    for (uint32_t i = 0; i < code->header.n_variables; i++)
        if (!set_variable(machine, variables, constant_text(code, code->variables[i].name),
                          constant_text(code, code->variables[i].value)))
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

/* How messages' contents change before the template sees them. */
struct contents {
    bool as_parts;    /* texts become lists of one part, otherwise lists of parts texts */
    unsigned list_at; /* the number of the first message with a list that became a text */
};

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

static const char *const known_roles[] = {"system", "developer", "user",    "assistant",
                                          "tool",   "function",  "ipython", NULL};

/* Marks a role as the template's own text, because templates build special tokens from it. The role
 * must therefore be a known name: one of known_roles, or one that the template compares with. */
static bool check_role(struct machine *machine, unsigned number, struct value *role)
{
    if (!is_text(role))
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "messages: the role of message %u must be a string", number);
    bool named = false;
    for (const char *const *known = known_roles; *known && !named; known++)
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
        if (!arguments || !is_text(arguments))
            continue;
        const struct value text = arguments->n > 0 ? *arguments : literal("{}");
        if (!smol_template_read_json(machine, "arguments", (const char *)text.bytes, text.n,
                                     (struct value *)(uintptr_t)arguments))
            return false;
    }
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
    return items != NULL;
}

/* The variables that have parameters of their own. */
static const char *const own_variables[] = {"messages", "tools", "documents",
                                            "add_generation_prompt"};
enum { N_OWN = sizeof own_variables / sizeof own_variables[0] };

/* Checks that the caller's variables are others. */
static bool check_variables(struct machine *machine, const struct value *variables)
{
    if (variables->type != VALUE_DICT)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "variables: must be an object");
    for (size_t i = 0; i < N_OWN; i++) {
        const struct value name = literal(own_variables[i]);
        const struct value *found;
        if (!smol_dict_find(machine, variables, &name, &found))
            return false;
        if (found)
            return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                      "the template's variable %s belongs to the conversation: "
                                      "leave it out of the variables",
                                      own_variables[i]);
    }
    return true;
}

/* Sets the variables of the template, then the caller's, then those of the conversation.
 * `contents` may be NULL. */
static bool set_all(struct machine *machine, const smol_chat_params *params,
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
        if (!set_variable(machine, &variables, literal(own_variables[i]), values[i]))
            return false;
    machine->variables = value_items(VALUE_DICT, variables.pairs, variables.n);
    return true;
}

int smol_chat_reads(const smol_model *model, const char *variable)
{
    const struct template_code *code = &model->blob.template;
    size_t n = strlen(variable);
    for (uint32_t i = 0; model->blob.template_section && i < code->header.n_operations; i++) {
        const struct template_operation *operation = &code->operations[i];
        if (operation->code != OP_RESOLVE)
            continue;
        const struct template_constant *name = &code->constants[operation->b];
        if (name->length == n && memcmp(code->text + name->value, variable, n) == 0)
            return 1;
    }
    return 0;
}

/* --- the time --------------------------------------------------------------------------------- */

static bool within(int value, int low, int high)
{
    return value >= low && value <= high;
}

static bool set_time(struct machine *machine, const struct tm *now)
{
    struct tm local;
    time_t clock = time(NULL);
    if (!now)
        now = localtime_r(&clock, &local);
    if (!now || !within(now->tm_year, -1900 + 1, 9999 - 1900) || !within(now->tm_mon, 0, 11) ||
        !within(now->tm_mday, 1, 31) || !within(now->tm_hour, 0, 23) ||
        !within(now->tm_min, 0, 59) || !within(now->tm_sec, 0, 60))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "now: no such time");
    machine->time = (struct template_time){now->tm_year + 1900, now->tm_mon + 1, now->tm_mday,
                                           now->tm_hour,        now->tm_min,     now->tm_sec};
    return true;
}

/* --- the public functions ----------------------------------------------------------------------
 */

/* Copies the result, which the machine's memory holds, to the caller's text. */
static bool take_text(struct machine *machine, const struct value *result, smol_chat_text *text)
{
    text->size = result->n;
    text->text = smol_malloc(text->size + 1);
    text->from_conversation = smol_malloc(text->size + 1);
    if (!text->text || !text->from_conversation) {
        machine->status = smol_fail_memory(machine->error, "the conversation");
        return false;
    }
    memcpy(text->text, result->bytes, text->size);
    text->text[text->size] = '\0';
    for (size_t i = 0; i < text->size; i++)
        text->from_conversation[i] = text_argument(result, i);
    return true;
}

/* Returns why a blob's template was not compiled, shortened to fit an error message, or NULL if it
 * was compiled or does not exist. */
static const char *why_unsupported(const struct blob *blob, int *length)
{
    const struct template_code *code = &blob->template;
    if (!blob->template_section || code->header.n_functions > 0)
        return NULL;
    const struct value reason = constant_text(code, code->header.reason);
    *length = (int)(reason.n < 300 ? reason.n : 300);
    return (const char *)reason.bytes;
}

bool smol_chat_supported(const smol_model *model)
{
    return model->blob.template_section && !why_unsupported(&model->blob, &(int){0});
}

static smol_status check_template(const struct blob *blob, smol_error *error)
{
    int length;
    const char *reason = why_unsupported(blob, &length);
    if (!blob->template_section)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: has no chat template: convert with --chat-template, or complete text",
                         blob->path);
    if (!reason)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: its chat template is not supported (%.*s): convert with --chat-template, "
                     "or complete text",
                     blob->path, length, reason);
}

void smol_chat_log(const smol_model *model)
{
    int length;
    const char *reason = why_unsupported(&model->blob, &length);
    if (reason)
        smol_log(model, SMOL_LOG_INFO, "the chat template is not supported (%.*s): no chats",
                 length, reason);
}

static bool run(struct machine *machine, const smol_chat_params *params, struct contents *contents,
                struct value *result)
{
    return set_time(machine, params->now) && set_all(machine, params, contents) &&
           smol_template_run(machine, result);
}

/* Renders a conversation whose failure is no error. Returns whether the template succeeds. */
static bool render_quietly(const struct template_code *code, const smol_chat_params *params,
                           struct contents *contents, smol_chat_text *text)
{
    smol_error ignored;
    struct value result;
    struct machine machine = {.code = code, .error = &ignored, .steps = TEMPLATE_STEPS};
    bool good = run(&machine, params, contents, &result) && take_text(&machine, &result, text);
    smol_template_free(&machine);
    return good;
}

/* Renders a conversation whose calls keep their arguments as texts. Some templates, such as
 * DeepSeek's, add them to other texts. Returns whether the template succeeds. */
static bool render_argument_texts(const struct template_code *code, const smol_chat_params *params,
                                  smol_chat_text *text)
{
    smol_chat_params as_texts = *params;
    as_texts.parse_arguments = 0;
    return render_quietly(code, &as_texts, NULL, text);
}

/* Returns the parameters of a conversation of one message. */
static smol_chat_params alone(const smol_chat_params *params, const smol_chat_message *message)
{
    return (smol_chat_params){.messages = message,
                              .n_messages = 1,
                              .tools_json = params->tools_json ? "[]" : NULL,
                              .add_generation_prompt = params->add_generation_prompt,
                              .now = params->now};
}

/* Renders, and returns whether that succeeds and a byte of the text is the conversation's. */
static bool speaks(const struct template_code *code, const smol_chat_params *params,
                   struct contents *contents, smol_chat_text *text)
{
    return render_quietly(code, params, contents, text) &&
           memchr(text->from_conversation, 1, text->size);
}

/* If the text says nothing of the conversation, renders again with each text as a list of one part,
 * provided that the template leaves out any text, but not parts. Those of some models that also
 * read pictures, such as SmolVLM's, read parts only. */
static void render_parts(const struct template_code *code, const smol_chat_params *params,
                         smol_chat_text *text)
{
    static const smol_chat_message message = {"user", "x", 1};
    const smol_chat_params short_params = alone(params, &message);
    struct contents contents = {.as_parts = true};
    smol_chat_text brief = {0}, other = {0};
    if (memchr(text->from_conversation, 1, text->size))
        return;
    if (!speaks(code, &short_params, NULL, &brief) && brief.text &&
        speaks(code, params, &contents, &other)) {
        const smol_chat_text silent = *text;
        *text = other;
        other = silent;
    }
    smol_chat_text_free(&brief);
    smol_chat_text_free(&other);
}

/* Returns whether the template succeeds once each list of parts is replaced with a text. Sets
 * *list_at to the number of the first message with such a list. */
static bool takes_text_only(const struct template_code *code, const smol_chat_params *params,
                            unsigned *list_at)
{
    smol_error ignored;
    struct value result;
    struct contents contents = {0};
    struct machine machine = {.code = code, .error = &ignored, .steps = TEMPLATE_STEPS};
    bool takes = set_time(&machine, params->now) && set_all(&machine, params, &contents) &&
                 contents.list_at > 0 && smol_template_run(&machine, &result);
    *list_at = contents.list_at;
    smol_template_free(&machine);
    return takes;
}

/* Appends the reason to the template's message: the model takes text only. */
static void explain_list(smol_error *error, unsigned list_at)
{
    char said[SMOL_ERROR_MESSAGE_SIZE];
    if (!error)
        return;
    snprintf(said, sizeof said, "%s", error->message);
    smol_fail(
        error, SMOL_ERROR_USAGE,
        "%.300s (content of message %u is a list, and this model's template takes text only): "
        "give one text",
        said, list_at);
}

/* Returns whether the template runs out of steps or memory even for one empty message. */
static bool exhausts_alone(const struct template_code *code, const smol_chat_params *params)
{
    static const smol_chat_message least = {"user", "", 0};
    const smol_chat_params least_params = alone(params, &least);
    struct value result;
    struct machine machine = {.code = code, .steps = TEMPLATE_STEPS};
    run(&machine, &least_params, NULL, &result);
    smol_template_free(&machine);
    return machine.exhausted;
}

/* Appends to the message what the user can do about a lack of steps or memory. */
static void explain_exhaustion(smol_error *error, bool alone)
{
    char said[SMOL_ERROR_MESSAGE_SIZE];
    snprintf(said, sizeof said, "%s", error->message);
    smol_fail(error, SMOL_ERROR_UNSUPPORTED, "%.300s: %s", said,
              alone ? "the template does so even for an empty message: convert with --chat-template"
                    : "pass fewer or shorter messages");
}

smol_status smol_chat_run(const struct template_code *code, const smol_chat_params *params,
                          smol_chat_text *text, smol_error *error)
{
    struct value result;
    struct machine machine = {.code = code, .error = error, .steps = TEMPLATE_STEPS};
    fenv_t saved;
    unsigned list_at;
    *text = (smol_chat_text){0};
    fpenv_enter(&saved);
    if (run(&machine, params, NULL, &result) && take_text(&machine, &result, text))
        render_parts(code, params, text);
    smol_template_free(&machine);
    bool refused = machine.status == SMOL_ERROR_USAGE;
    if (refused && machine.line > 0 && params->parse_arguments &&
        render_argument_texts(code, params, text)) {
        machine.status = SMOL_OK;
        error_clear(error);
    } else if (error && machine.exhausted) {
        explain_exhaustion(error, machine.line > 0 && exhausts_alone(code, params));
    } else if (error && refused && takes_text_only(code, params, &list_at)) {
        explain_list(error, list_at);
    }
    fpenv_leave(&saved);
    if (machine.status)
        smol_chat_text_free(text);
    return machine.status;
}

/* Logs ill-formed messages after the last answer. Each turn passes the whole conversation, and
 * earlier messages were logged when they were new. */
static void log_ill_formed(const smol_model *model, const smol_chat_params *params)
{
    const smol_chat_message *messages = params->messages;
    size_t first = params->n_messages;
    if (params->messages_json) /* rejected if not UTF-8 */
        return;
    while (first > 0 && strcmp(messages[first - 1].role, "assistant") != 0)
        first--;
    for (size_t i = first; i < params->n_messages; i++)
        smol_log_ill_formed(model, "a message", messages[i].content, messages[i].size);
}

static smol_status format(const smol_model *model, const smol_chat_params *params,
                          smol_chat_text *text, smol_error *error)
{
    smol_status status = CHECK_RESERVED(chat_params, params, error);
    if (!status)
        status = check_template(&model->blob, error);
    if (!status)
        log_ill_formed(model, params);
    return status ? status : smol_chat_run(&model->blob.template, params, text, error);
}

smol_status smol_chat_format(const smol_model *model, const smol_chat_params *params,
                             smol_chat_text *text, smol_error *error)
{
    error_clear(error);
    *text = (smol_chat_text){0};
    return format(model, params, text, error);
}

void smol_chat_text_free(smol_chat_text *text)
{
    if (!text)
        return;
    smol_free(text->text);
    smol_free(text->from_conversation);
    *text = (smol_chat_text){0};
}

/* Lists the names that a role can have, as terminated strings in one block, which the caller frees.
 */
static smol_status list_roles(const struct template_code *code, char ***list, smol_error *error)
{
    struct machine machine = {.code = code, .error = error, .steps = TEMPLATE_STEPS};
    uint32_t n = code->header.n_constants;
    char **roles = NULL, *text;
    size_t n_known = sizeof known_roles / sizeof known_roles[0] - 1, n_roles = n_known, n_bytes = 0;
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
    memcpy(roles, known_roles, n_known * sizeof *roles);
    text = (char *)(roles + n_roles + 1);
    n_roles = n_known;
    for (uint32_t i = 0; i < n; i++) {
        if (!names[i])
            continue;
        const struct value name = constant_text(code, i);
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

smol_status smol_chat_tokenize(const smol_model *model, const smol_chat_params *params,
                               uint32_t **ids, size_t *n, smol_error *error)
{
    const struct blob *blob = &model->blob;
    struct token_list list = {0};
    smol_chat_text text = {0};
    error_clear(error);
    smol_status status = format(model, params, &text, error);
    char **roles = NULL;
    if (!status && !smol_added_all_special(&blob->tokenizer))
        status = list_roles(&blob->template, &roles, error);
    if (!status) {
        const struct mixed_text mixed = {.text = text.text,
                                         .arguments = text.from_conversation,
                                         .size = text.size,
                                         .literals = blob->template.text,
                                         .n_literals = blob->template.header.n_text_bytes,
                                         .roles = roles ? (const char *const *)roles : known_roles};
        const struct listener listener = {params->on_progress, params->user};
        const struct encode_params encode = {.added = &model->added, .listener = &listener};
        status = smol_tokenizer_encode_mixed(&blob->tokenizer, &mixed, &encode, &list, error);
        status = file_settle(&blob->file, blob->path, status, error);
    }
    smol_chat_text_free(&text);
    smol_free(roles);
    if (status)
        smol_free(list.ids);
    *ids = status ? NULL : list.ids;
    *n = status ? 0 : list.n;
    return status;
}
