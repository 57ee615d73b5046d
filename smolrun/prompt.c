/* Prompts, see prompt.h. */
#include "smolrun/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/request/request.h"
#include "cli/text.h"
#include "common/json_reader.h"
#include "common/text.h"

/* --- lists of ids ------------------------------------------------------------------------- */

/* Returns the number in the digits text[0..size), or UINT32_MAX, which is never an id, if it is too
 * large. */
static uint32_t read_id(const char *text, size_t size)
{
    uint64_t id = 0;
    for (size_t i = 0; i < size && id < UINT32_MAX; i++)
        id = id * 10 + (uint64_t)(text[i] - '0');
    return id < UINT32_MAX ? (uint32_t)id : UINT32_MAX;
}

static smol_status parse_ids(const struct text_in *in, uint32_t vocab_size, uint32_t *ids,
                             size_t *n, smol_error *error)
{
    enum { SHOWN = 20 }; /* bytes of a faulty id in the message */
    const char *text = in->text, *end = in->text + in->size;
    for (*n = 0;; ++*n) {
        size_t size = 0;
        while (text < end && *text && strchr(" \t\r\n,", *text))
            text++;
        if (text == end)
            return SMOL_OK;
        while (text + size < end && is_digit(text[size]))
            size++;
        int shown = size > 0 ? (int)(size < SHOWN ? size : SHOWN)
                             : (int)(end - text < SHOWN ? end - text : SHOWN);
        if (size == 0)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "\"%.*s\" is not a token id (item %zu of the list): separate ids by "
                             "spaces",
                             shown, text, *n + 1);
        ids[*n] = read_id(text, size);
        if (ids[*n] >= vocab_size)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "token id %.*s (item %zu of the list): the vocabulary has ids 0 to %u",
                             shown, text, *n + 1, vocab_size - 1);
        text += size;
    }
}

smol_status smol_prompt_list(const char *argument, uint32_t vocab_size, uint32_t **ids, size_t *n,
                             smol_error *error)
{
    struct text_in in;
    *ids = NULL;
    smol_status status = smol_text_read(argument, &in, error);
    if (status)
        return status;
    *ids = calloc(in.size / 2 + 1, sizeof **ids); /* an id takes two characters, except the last */
    status = *ids ? parse_ids(&in, vocab_size, *ids, n, error)
                  : smol_fail_memory(error, "the token ids");
    free(in.owned);
    if (status) {
        free(*ids);
        *ids = NULL;
    }
    return status;
}

/* --- text --------------------------------------------------------------------------------- */

smol_status smol_prompt_argument(const char *argument, const smol_model *model, uint32_t **ids,
                                 size_t *n, smol_error *error)
{
    struct text_in in;
    *ids = NULL;
    smol_status status = smol_text_read(argument, &in, error);
    if (status)
        return status;
    status = smol_prompt_text(in.text, in.size, model, NULL, NULL, ids, n, error);
    free(in.owned);
    return status;
}

smol_status smol_prompt_file(struct input file, const smol_model *model, uint32_t **ids, size_t *n,
                             smol_error *error)
{
    const smol_tokenize_params params = {.parse_special = 1, .whole_text = 1};
    struct text_in in;
    smol_status status = smol_text_read_input(&file, &in, error);
    if (!status)
        status = smol_tokenize(model, in.text, in.size, &params, ids, n, error);
    free(in.owned);
    return status;
}

/* --- chats -------------------------------------------------------------------------------- */

/* Returns the size of NAME in NAME=JSON, or 0 if the argument does not have this form. */
static size_t name_size(const char *argument)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t size = strspn(argument, letters);
    return argument[size] == '=' && !is_digit(argument[0]) ? size : 0;
}

static void add_separator(struct buffer *out)
{
    if (out->size > 1) /* more than the brace */
        smol_buffer_add(out, ", ", 2);
}

/* Checks that `json`, the value of the variable argument[0..size), is one JSON value. */
static smol_status check_json(const char *argument, size_t size, const char *json,
                              smol_error *error)
{
    char name[80];
    snprintf(name, sizeof name, "--template-arg %.*s", (int)(size < 60 ? size : 60), argument);
    struct json_reader reader = {
        .start = (const uint8_t *)json,
        .at = (const uint8_t *)json,
        .end = (const uint8_t *)json + strlen(json),
        .name = name,
        .fault = "not valid JSON",
        .advice = ": put texts in double quotes",
        .status = SMOL_ERROR_USAGE,
        .error = error,
    };
    smol_status status = smol_json_check_utf8(&reader);
    if (!status)
        status = smol_json_skip(&reader);
    return status ? status : smol_json_end(&reader);
}

/* Appends NAME=JSON as a member to the object in *out. */
static smol_status add_argument(struct buffer *out, const char *argument, smol_error *error)
{
    size_t size = name_size(argument);
    if (size == 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--template-arg \"%.60s\": must be NAME=JSON, for example "
                         "enable_thinking=false",
                         argument);
    const char *json = argument + size + 1;
    smol_status status = check_json(argument, size, json, error);
    if (status)
        return status;
    add_separator(out);
    smol_buffer_add(out, "\"", 1);
    smol_buffer_add(out, argument, size);
    smol_buffer_add(out, "\": ", 3);
    smol_buffer_add(out, json, strlen(json));
    return SMOL_OK;
}

/* Appends the members of the JSON object `text` to the object in *out. */
static void add_members(struct buffer *out, const char *text)
{
    const char *first = strchr(text, '{'), *last = strrchr(text, '}');
    if (!first || !last || first + 1 + strspn(first + 1, " \t\r\n") == last)
        return;
    add_separator(out);
    smol_buffer_add(out, first + 1, (size_t)(last - first - 1));
}

/* Joins the variables of --template-arg and of `more`, a JSON object or NULL, to one object. If a
 * name appears twice, the template uses the last value. The caller frees out->text. */
static smol_status join_variables(const struct option_texts *arguments, const char *more,
                                  struct buffer *out, smol_error *error)
{
    smol_status status = SMOL_OK;
    smol_buffer_add(out, "{", 1);
    for (size_t i = 0; !status && i < arguments->n; i++)
        status = add_argument(out, arguments->items[i], error);
    if (more)
        add_members(out, more);
    smol_buffer_add(out, "}", 2);
    if (!status && out->failed)
        status = smol_fail_memory(error, "the template's variables");
    return status;
}

smol_status smol_prompt_chat(const struct settings *settings, const smol_model *model,
                             smol_chat_params chat, uint32_t **ids, size_t *n, smol_error *error)
{
    struct buffer variables = {0};
    smol_status status = SMOL_OK;
    if (settings->template_args.n > 0) {
        status = join_variables(&settings->template_args, chat.variables_json, &variables, error);
        chat.variables_json = variables.text;
    }
    if (!status)
        status = smol_prompt_messages(model, &chat, ids, n, error);
    free(variables.text);
    return status;
}

static smol_status read_message(const struct settings *settings, const smol_model *model,
                                uint32_t **ids, size_t *n, smol_error *error)
{
    struct text_in in;
    smol_status status = smol_text_read(settings->text, &in, error);
    if (status)
        return status;
    smol_chat_message messages[2];
    size_t n_messages = 0;
    if (settings->system)
        messages[n_messages++] =
            (smol_chat_message){"system", settings->system, strlen(settings->system)};
    messages[n_messages++] = (smol_chat_message){"user", in.text, in.size};
    const smol_chat_params chat = {.messages = messages,
                                   .n_messages = n_messages,
                                   .add_generation_prompt = 1,
                                   .now = &settings->now};
    status = smol_prompt_chat(settings, model, chat, ids, n, error);
    free(in.owned);
    return status;
}

smol_status smol_prompt_read(const struct settings *settings, const smol_model *model,
                             uint32_t **ids, size_t *n, smol_error *error)
{
    if (settings->chat)
        return read_message(settings, model, ids, n, error);
    if (settings->system || settings->template_args.n > 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s is for a chat: add --chat, or leave it out",
                         settings->system ? "--system" : "--template-arg");
    return smol_prompt_argument(settings->text, model, ids, n, error);
}
