/* Answers, see chat.h. */
#include <string.h>

#include "runtime/clock.h"
#include "runtime/command/chat.h"
#include "runtime/command/chat_input.h"
#include "runtime/command/chat_signals.h"
#include "runtime/command/print.h"
#include "runtime/command/session_file.h"

/* Tokens between two looks whether the user has had enough: as many as go through the layers at
 * once. */
enum { STEP = 128 };

static int take_text(void *user, const char *text, size_t size, uint32_t id)
{
    struct chat *chat = user;
    (void)id;
    smol_buffer_add(&chat->answer, text, size);
    smol_command_print(text, size);
    chat->output_status = smol_command_flush(&chat->output_error);
    return chat->output_status || chat->answer.failed || smol_chat_interrupted();
}

/* All but the last step of the prompt; *done is how many tokens that is. */
static smol_status read_prompt(struct chat *chat, const uint32_t *ids, size_t n, size_t *done,
                               smol_error *error)
{
    smol_status status = SMOL_OK;
    double start = clock_seconds();
    *done = 0;
    while (!status && n - *done > STEP && !smol_chat_interrupted()) {
        status = smol_eval(chat->session.context, ids + *done, STEP, 0, NULL, error);
        *done += status ? 0 : STEP;
    }
    if (status == SMOL_ERROR_CANCELLED)
        status = SMOL_OK;
    chat->stats.n_prefill += *done;
    chat->stats.prefill_seconds += clock_seconds() - start;
    return status;
}

static smol_status check_room(const struct chat *chat, size_t n, smol_error *error)
{
    size_t capacity = smol_context_capacity(chat->session.context);
    if (n <= capacity)
        return SMOL_OK;
    return smol_command_fail(error, SMOL_ERROR_CONTEXT_FULL,
                             "the context is full (%zu tokens, the conversation would take %zu): "
                             "/reset it, or chat with a longer --ctx",
                             capacity, n);
}

static smol_status generate(struct chat *chat, const uint32_t *ids, size_t n,
                            smol_generate_result *result, smol_error *error)
{
    const struct settings *settings = chat->settings;
    const smol_generate_params params = {.max_tokens = settings->max_tokens,
                                         .stop = settings->stop.items,
                                         .n_stop = settings->stop.n,
                                         .penalize_context = 1,
                                         .on_text = take_text,
                                         .user = chat};
    size_t done;
    smol_status status = read_prompt(chat, ids, n, &done, error);
    chat->n_read = done;
    if (status || smol_chat_interrupted())
        return status;
    status = smol_generate(chat->session.context, chat->sampler, ids + done, n - done, &params,
                           result, error);
    chat->n_read += result->n_prompt;
    smol_stats_add(&chat->stats, result);
    return status;
}

/* Errors of the output come first: they ended the generation. */
static smol_status settle(struct chat *chat, smol_status status, smol_error *error)
{
    if (chat->answer.failed && !status)
        return smol_command_fail(error, SMOL_ERROR_MEMORY, "out of memory for an answer");
    if (!chat->output_status)
        return status;
    *error = chat->output_error;
    return chat->output_status;
}

static void print_end(const struct chat *chat, const smol_generate_result *result)
{
    putchar('\n');
    if (!smol_chat_is_interactive())
        return;
    if (smol_chat_interrupted())
        printf("[stopped]\n");
    else if (result->finish == SMOL_FINISH_LENGTH)
        printf("[cut off after %zu tokens: see -n]\n", result->n_generated);
    else if (result->finish == SMOL_FINISH_CONTEXT_FULL)
        printf("[cut off: the context is full (%zu tokens); /reset it, or chat with a longer "
               "--ctx]\n",
               smol_context_capacity(chat->session.context));
}

smol_status smol_chat_answer(struct chat *chat, smol_error *error)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    smol_generate_result result = {.finish = SMOL_FINISH_CANCELLED};
    chat->answer.size = 0;
    smol_chat_forget_interrupt();
    smol_status status = smol_conversation_ids(&chat->conversation, chat->session.model,
                                               &chat->settings->now, &ids, &n, error);
    if (!status)
        status = check_room(chat, n, error);
    if (!status) {
        chat->n_known = smol_session_keep(chat->session.context, ids, n);
        status = generate(chat, ids + chat->n_known, n - chat->n_known, &result, error);
        status = settle(chat, status, error);
        if (!status)
            print_end(chat, &result);
        else if (smol_chat_is_interactive())
            putchar('\n'); /* the message begins a line */
    }
    smol_free(ids);
    if (!status)
        status = smol_conversation_add(&chat->conversation, ROLE_ASSISTANT, chat->answer.text,
                                       chat->answer.size, error);
    return status;
}
