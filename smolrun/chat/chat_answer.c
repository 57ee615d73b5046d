/* Answers, see chat.h. */
#include <string.h>

#include "cli/print.h"
#include "cli/standard.h"
#include "common/clock.h"
#include "smolrun/chat/chat.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/screen.h"
#include "smolrun/chat/signals.h"
#include "smolrun/constrain.h"
#include "smolrun/session_file.h"

/* Tokens evaluated between two checks for Ctrl-C: as many as pass through the layers at once. */
enum { STEP = 128 };

/* --- the prompt --------------------------------------------------------------------------- */

/* The part of the conversation that fits in the context. */
struct prompt {
    uint32_t *ids; /* (n), owned */
    size_t n;
    size_t n_dropped; /* oldest messages to leave out */
};

static smol_status read_conversation(const struct chat *chat, struct prompt *prompt,
                                     smol_error *error)
{
    smol_free(prompt->ids);
    prompt->ids = NULL;
    return smol_conversation_ids(&chat->conversation, prompt->n_dropped, chat->settings,
                                 chat->loaded.model, &prompt->ids, &prompt->n, error);
}

/* Tokenizes the conversation. With --slide, reserves room for max_tokens, at most half of the
 * context. If the conversation leaves less room, drops its oldest turns until it takes at most half
 * of the rest. Only whole turns are dropped, so that a conversation remains, and many at once,
 * because the rest must be evaluated again. */
static smol_status make_prompt(const struct chat *chat, struct prompt *prompt, smol_error *error)
{
    size_t capacity = smol_context_capacity(chat->loaded.context), wanted;
    wanted = chat->max_tokens;
    size_t most = capacity - (wanted < capacity / 2 ? wanted : capacity / 2);
    smol_status status = read_conversation(chat, prompt, error);
    size_t n_droppable = chat->settings->slide && prompt->n > most
                             ? smol_conversation_droppable(&chat->conversation)
                             : 0;
    while (!status && prompt->n > most / 2 && prompt->n_dropped < n_droppable) {
        prompt->n_dropped += 2;
        status = read_conversation(chat, prompt, error);
    }
    if (status || prompt->n <= capacity)
        return status;
    return smol_fail(
        error, SMOL_ERROR_CONTEXT_FULL, "the context is full (%zu tokens, %s would take %zu): %s",
        capacity, chat->settings->slide ? "this message alone" : "the conversation", prompt->n,
        chat->settings->slide ? "shorten it, or start the chat with a longer --ctx"
                              : "/reset begins anew; --slide or a longer --ctx avoids this");
}

/* --- the answer --------------------------------------------------------------------------- */

/* Takes and shows the parts of the answer that are new. */
static void show(struct chat *chat)
{
    smol_buffer_add(&chat->answer, chat->parts.text.text, chat->parts.text.size);
    smol_answer_show(&chat->parts, &chat->reasons, smol_screen_print);
}

static int take_text(void *user, const char *text, size_t size, uint32_t id)
{
    struct chat *chat = user;
    if (!smol_parts_add(&chat->parts, text, size, id))
        chat->answer.failed = true;
    show(chat);
    chat->output_status = smol_standard_flush(&chat->output_error);
    smol_chat_read_ahead();
    return chat->output_status || chat->answer.failed || smol_chat_interrupted();
}

/* Evaluates all steps of the prompt except the last one. Stores the number of tokens evaluated in
 * *done. */
static smol_status read_prompt(struct chat *chat, const uint32_t *ids, size_t n, size_t *done,
                               smol_error *error)
{
    smol_status status = SMOL_OK;
    double start = clock_seconds();
    *done = 0;
    while (!status && n - *done > STEP && !smol_chat_interrupted()) {
        status = smol_eval(chat->loaded.context, ids + *done, STEP, 0, NULL, error);
        *done += status ? 0 : STEP;
        smol_chat_read_ahead();
    }
    if (status == SMOL_ERROR_CANCELLED)
        status = SMOL_OK;
    chat->stats.n_prefill += *done;
    chat->stats.prefill_seconds += clock_seconds() - start;
    return status;
}

/* Reads the text of the last answer, whose first token follows n tokens of the context. */
static smol_status read_answer(struct chat *chat, size_t n, smol_error *error)
{
    size_t length, size;
    const char *text;
    const uint32_t *ids = smol_context_ids(chat->loaded.context, &length);
    smol_status status = SMOL_OK;
    for (; !status && n <= length; n++) {
        uint32_t id = n < length ? ids[n] : smol_context_pending(chat->loaded.context);
        status = smol_token_text(chat->loaded.model, id, &text, &size, NULL, error);
        if (!status && !smol_parts_add(&chat->parts, text, size, id))
            status = smol_fail_memory(error, "an answer");
    }
    return status;
}

/* Reads the last answer of a loaded session again, so that it continues where it was cut off, for
 * example within its reasoning. The limit of that reasoning is not known. If the sequence does not
 * begin with the conversation, because it has slid or the template tells the date, the rest of the
 * answer is plain text. */
static smol_status read_again(struct chat *chat, smol_error *error)
{
    struct prompt prompt = {0};
    size_t n;
    const uint32_t *ids = smol_context_ids(chat->loaded.context, &n);
    chat->conversation.n--; /* the answer */
    smol_status status = read_conversation(chat, &prompt, error);
    chat->conversation.n++;
    if (!status && prompt.n <= n && memcmp(ids, prompt.ids, prompt.n * sizeof *ids) == 0) {
        status = smol_answer_begin(chat->settings, chat->loaded.model, prompt.ids, prompt.n,
                                   &chat->wanted, &chat->parts, error);
        if (!status)
            status = read_answer(chat, prompt.n, error);
        buffer_clear(&chat->parts.text); /* in the conversation, as far as it is text */
        buffer_clear(&chat->parts.reasoning);
        smol_reasoning_limit_free(chat->parts.limit);
        chat->parts.limit = NULL;
    }
    if (status)
        smol_parts_free(&chat->parts);
    smol_free(prompt.ids);
    return status;
}

/* Begins the answer to a prompt, or resumes the last one if it is NULL, in its constraint. */
static smol_status constrain(struct chat *chat, const struct prompt *prompt, smol_error *error)
{
    const smol_model *model = chat->loaded.model;
    smol_reasoning had = chat->wanted.reasoning;
    smol_status status = SMOL_OK;
    smol_matcher_free(chat->matcher);
    chat->matcher = NULL;
    if (prompt) {
        chat->place.size = 0;
        chat->reasons = false;
        status = smol_answer_begin(chat->settings, model, prompt->ids, prompt->n, &chat->wanted,
                                   &chat->parts, error);
    } else if (!chat->parts.reasoning_reader) {
        status = read_again(chat, error);
    }
    if (!status && (chat->wanted.reasoning != had || !chat->constraint))
        status = smol_constrain(chat->settings, model, &chat->wanted, &chat->constraint, error);
    return status ? status
                  : smol_place_find(&chat->place, chat->settings, model, &chat->wanted,
                                    &chat->constraint, &chat->matcher, error);
}

static smol_status generate(struct chat *chat, const uint32_t *ids, size_t n,
                            smol_generate_result *result, smol_error *error)
{
    const struct settings *settings = chat->settings;
    smol_generate_params params = {.max_tokens = chat->max_tokens,
                                   .prompt_only = chat->max_tokens == 0,
                                   .stop = settings->stop.items,
                                   .n_stop = settings->stop.n,
                                   .slide = settings->slide,
                                   .n_keep = chat->n_keep,
                                   .penalize_context = 1,
                                   .on_text = take_text,
                                   .user = chat,
                                   .matcher = chat->matcher,
                                   .lookup = (uint64_t)settings->lookup,
                                   .new_text = 1};
    smol_parts_set(&chat->parts, &params);
    smol_status status =
        smol_generate(chat->loaded.context, chat->sampler, ids, n, &params, result, error);
    smol_stats_add(&chat->stats, result);
    if (!status && chat->matcher)
        status = smol_place_store(&chat->place, chat->constraint, chat->matcher, error);
    return status;
}

static smol_status answer_prompt(struct chat *chat, const struct prompt *prompt,
                                 smol_generate_result *result, smol_error *error)
{
    size_t half = smol_context_capacity(chat->loaded.context) / 2;
    chat->n_keep = prompt->n < half ? prompt->n : half;
    chat->n_known = smol_session_keep(chat->loaded.context, prompt->ids, prompt->n);
    const uint32_t *ids = prompt->ids + chat->n_known;
    size_t n = prompt->n - chat->n_known, done;
    smol_status status = read_prompt(chat, ids, n, &done, error);
    chat->n_read = done;
    if (status || smol_chat_interrupted())
        return status;
    status = generate(chat, ids + done, n - done, result, error);
    chat->n_read += result->n_prompt;
    return status;
}

/* Returns the generation's error. An error of the output comes first, because it ended the
 * generation. */
static smol_status settle(struct chat *chat, smol_status status, smol_error *error)
{
    if (chat->answer.failed && !status)
        return smol_fail_memory(error, "an answer");
    if (!chat->output_status)
        return status;
    *error = chat->output_error;
    return chat->output_status;
}

static void print_end(const struct chat *chat, const smol_generate_result *result)
{
    smol_screen_end();
    if (!smol_chat_is_interactive())
        return;
    if (smol_chat_interrupted())
        printf(chat->is_cut ? "[stopped: /continue resumes the answer]\n" : "[stopped]\n");
    else if (result->finish == SMOL_FINISH_LENGTH)
        printf("[cut off after %zu token%s (-n): /continue resumes the answer]\n",
               result->n_generated, plural(result->n_generated));
    else if (result->finish == SMOL_FINISH_CONTEXT_FULL)
        printf("[cut off: the context is full (%zu tokens): /reset begins anew; --slide or a "
               "longer --ctx avoids this]\n",
               smol_context_capacity(chat->loaded.context));
}

/* Answers the prompt, or resumes the last answer if it is NULL. */
static smol_status answer(struct chat *chat, const struct prompt *prompt, smol_error *error)
{
    smol_generate_result result = {.finish = SMOL_FINISH_CANCELLED};
    chat->answer.size = 0;
    chat->is_cut = false;
    if (prompt && prompt->n_dropped > 0 && smol_chat_is_interactive())
        printf("[the context was full: the oldest %zu messages are forgotten]\n",
               prompt->n_dropped);
    smol_status status = prompt ? answer_prompt(chat, prompt, &result, error)
                                : generate(chat, NULL, 0, &result, error);
    status = settle(chat, status, error);
    chat->is_cut = !status && result.finish != SMOL_FINISH_STOP &&
                   smol_context_pending(chat->loaded.context) != SMOL_NO_TOKEN;
    if (!status && !chat->is_cut) { /* a cut one may be resumed within a marker */
        chat->answer.failed |= !smol_parts_end(&chat->parts);
        show(chat);
        status = settle(chat, SMOL_OK, error);
    }
    if (!status)
        print_end(chat, &result);
    else if (smol_chat_is_interactive())
        smol_screen_end(); /* the error message begins on a new line */
    return status;
}

bool smol_chat_can_continue(const struct chat *chat)
{
    return chat->is_cut && smol_conversation_ends_with(&chat->conversation, ROLE_ASSISTANT);
}

smol_status smol_chat_continue(struct chat *chat, smol_error *error)
{
    smol_chat_forget_interrupt();
    smol_status status = constrain(chat, NULL, error);
    if (status)
        return status;
    status = answer(chat, NULL, error);
    if (status == SMOL_ERROR_CONTEXT_FULL) /* nothing changed */
        chat->is_cut = true;
    return status ? status
                  : smol_conversation_extend(&chat->conversation, chat->answer.text,
                                             chat->answer.size, error);
}

smol_status smol_chat_answer(struct chat *chat, smol_error *error)
{
    struct prompt prompt = {0};
    smol_chat_forget_interrupt();
    smol_status status = make_prompt(chat, &prompt, error);
    if (!status)
        status = constrain(chat, &prompt, error);
    if (!status)
        status = answer(chat, &prompt, error);
    else if (status == SMOL_ERROR_CANCELLED) { /* Ctrl-C came while the prompt was tokenized */
        chat->answer.size = 0;                 /* it has the answer before */
        chat->is_cut = false;
        print_end(chat, &(smol_generate_result){.finish = SMOL_FINISH_CANCELLED});
        status = SMOL_OK;
    }
    smol_free(prompt.ids);
    if (!status)
        status = smol_conversation_add(&chat->conversation, ROLE_ASSISTANT, chat->answer.text,
                                       chat->answer.size, error);
    if (!status)
        smol_conversation_drop(&chat->conversation, prompt.n_dropped);
    return status;
}
