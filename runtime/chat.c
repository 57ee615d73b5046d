/* Conversations as text and ids, see smol.h: runs the template, and finds out what a conversation
 * that it refuses lacks. */
#include "runtime/chat.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/file.h"
#include "common/memory.h"
#include "runtime/chat_variables.h"
#include "runtime/engine/fpenv.h"
#include "runtime/model.h"
#include "runtime/template/template_text.h"
#include "runtime/template/template_vm.h"
#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/tokenizer.h"

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
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "now: not a valid time");
    machine->time = (struct template_time){now->tm_year + 1900, now->tm_mon + 1, now->tm_mday,
                                           now->tm_hour,        now->tm_min,     now->tm_sec};
    return true;
}

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
    const struct value reason = template_text(code, code->header.reason);
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
    return set_time(machine, params->now) && smol_chat_set_variables(machine, params, contents) &&
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

/* Cuts the text before the mark of a message that will be continued, and before white space there
 * if the template has trimmed the message. */
static smol_status cut_continued(smol_chat_text *text, smol_error *error)
{
    static const char mark[] = CONTINUED_MARK;
    const size_t size = sizeof mark - 2; /* without the space at the end */
    const char *last = NULL, *at = text->text, *end = text->text + text->size;
    while (at && (at = memmem(at, (size_t)(end - at), mark, size)))
        last = at++;
    if (!last)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "continue_final_message: the chat template leaves out the end of the last "
                         "message");
    const struct value before = value_text(text->text, (size_t)(last - text->text));
    bool trimmed = last[size] != mark[size]; /* the text ends with a 0 */
    text->size = trimmed ? smol_text_strip(&before, NULL, STRIP_RIGHT).n : before.n;
    text->text[text->size] = '\0';
    return SMOL_OK;
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
    bool takes = set_time(&machine, params->now) &&
                 smol_chat_set_variables(&machine, params, &contents) && contents.list_at > 0 &&
                 smol_template_run(&machine, &result);
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
    } else if (error && refused && machine.line > 0 && takes_text_only(code, params, &list_at)) {
        explain_list(error, list_at);
    }
    fpenv_leave(&saved);
    if (!machine.status && params->continue_final_message)
        machine.status = cut_continued(text, error);
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
        status = smol_chat_list_roles(&blob->template, &roles, error);
    if (!status) {
        const struct mixed_text mixed = {.text = text.text,
                                         .arguments = text.from_conversation,
                                         .size = text.size,
                                         .literals = blob->template.text,
                                         .n_literals = blob->template.header.n_text_bytes,
                                         .roles =
                                             roles ? (const char *const *)roles : smol_chat_roles};
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
