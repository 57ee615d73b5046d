/* The prompt, see prompt.h. */
#include "smolrun/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "smolrun/text_in.h"

smol_status smol_prompt_chat(const smol_model *model, smol_chat_params chat, uint32_t **ids,
                             size_t *n, smol_error *error)
{
    chat.add_generation_prompt = 1;
    smol_status status = smol_chat_tokenize(model, &chat, ids, n, error);
    if (!status && *n == 0)
        status = smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                           "the chat template writes nothing for these messages");
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
    messages[n_messages++] = (smol_chat_message){"user", in.size ? in.text : "", in.size};
    const smol_chat_params chat = {
        .messages = messages, .n_messages = n_messages, .now = &settings->now};
    status = smol_prompt_chat(model, chat, ids, n, error);
    free(in.owned);
    return status;
}

smol_status smol_prompt_read(const struct settings *settings, const smol_model *model,
                             uint32_t **ids, size_t *n, smol_error *error)
{
    if (settings->chat)
        return read_message(settings, model, ids, n, error);
    if (settings->system)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--system is for a chat: add --chat, or leave it out");
    return smol_text_prompt(settings->text, model, ids, n, error);
}
