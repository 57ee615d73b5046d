/* smolrun chat: a conversation. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "cli/path.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "smolrun/chat/chat.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/signals.h"
#include "smolrun/command.h"
#include "smolrun/session_file.h"

static const struct option_rule rules[] = {
    RULE_MAX_TOKENS,
    RULES_SAMPLING,
    RULE_STOP,
    RULE_CTX,
    {"slide", 0, NULL, "when the context is full, forget the oldest turns and go on (see below)",
     OPTION_FLAG, FIELD(slide), 0, 0, NULL},
    RULE_THREADS,
    RULE_KV,
    RULE_TEMPLATE_ARG,
    {"system", 0, "TEXT", "the system message", OPTION_TEXT, FIELD(system), 0, 0, NULL},
    {"session", 0, "FILE", "go on with the conversation in FILE, if it is there, and save it there",
     OPTION_TEXT, FIELD(session), 0, 0, NULL},
    RULE_STATS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "chat FILE.smol",
    .about =
        "Answers what is typed, line by line, by the model's chat template. /help says what else\n"
        "there is. Ctrl-C stops an answer, Ctrl-D ends the chat. What is already in the context\n"
        "is not read again.\n",
    .notes =
        "--slide leaves room for an answer (-n tokens, at most half of the context): before a\n"
        "conversation takes it, its oldest questions and answers are forgotten until it takes\n"
        "half of what is left. The system message stays. An answer that is longer still loses\n"
        "its middle. What is kept is read anew: a pause as for a prompt of that length.\n\n"
        "Where standard input is no terminal, each line of it is answered, and nothing else is\n"
        "printed. NO_COLOR in the environment leaves out colours. At a terminal lines are\n"
        "edited with libedit, if it is there; its history is smol/chat_history below\n"
        "XDG_STATE_HOME (~/.local/state).\n",
    .max_words = 1,
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
};

smol_status smol_chat_reread(struct chat *chat, smol_error *error)
{
    return smol_settings_reread(&command, chat->argc, chat->argv, chat->sampler, error);
}

/* --system. What was said in a session is not given up for it. */
static smol_status begin_with(struct chat *chat, const char *text, smol_error *error)
{
    struct conversation *conversation = &chat->conversation;
    const struct message *had = smol_conversation_system(conversation);
    size_t size = strlen(text);
    if (had && had->size == size && memcmp(had->text, text, size) == 0)
        return SMOL_OK;
    if (conversation->n > (had ? 1 : 0))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%.300s: a conversation with %s system message: leave out "
                         "--system, or name another session",
                         chat->settings->session, had ? "another" : "no");
    smol_conversation_clear(conversation, true);
    return smol_conversation_add(conversation, ROLE_SYSTEM, text, size, error);
}

static smol_status prepare(struct chat *chat, smol_error *error)
{
    const struct settings *settings = chat->settings;
    smol_status status = smol_load(settings, &chat->loaded, error);
    if (!status)
        status = smol_sampler_create(&settings->sampler, &chat->sampler, error);
    smol_chat_cancel(chat->loaded.context);
    if (!status && settings->session)
        status = smol_chat_open(chat, error);
    if (!status && settings->system)
        status = begin_with(chat, settings->system, error);
    return status;
}

/* At a terminal a mistake, or a conversation that is too long, does not end it. */
static bool goes_on(smol_status status)
{
    return smol_chat_is_interactive() &&
           (status == SMOL_ERROR_CONTEXT_FULL || status == SMOL_ERROR_USAGE ||
            status == SMOL_ERROR_NUMERIC);
}

static smol_status take_message(struct chat *chat, const struct buffer *text, smol_error *error)
{
    bool slash = text->text[0] == '/'; /* two of them stand for one */
    smol_status status = smol_conversation_add(&chat->conversation, ROLE_USER, text->text + slash,
                                               text->size - slash, error);
    if (status)
        return status;
    status = smol_chat_answer(chat, error);
    if (status)
        smol_conversation_pop(&chat->conversation);
    return status;
}

static smol_status take_entry(struct chat *chat, struct buffer *text, smol_error *error)
{
    if (text->size == 0)
        return SMOL_OK;
    if (text->text[0] != '/' || (text->size > 1 && text->text[1] == '/'))
        return take_message(chat, text, error);
    smol_buffer_add(text, "", 1);
    if (text->failed)
        return smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for a message");
    return smol_chat_command(chat, text->text, error);
}

/* At a terminal: where one is, and what goes on. */
static void greet(const struct chat *chat)
{
    const struct settings *settings = chat->settings;
    if (!smol_chat_is_interactive())
        return;
    printf("%s: /help lists what else there is\n", smol_base_name(settings->model));
    if (chat->file.path && chat->file.fd >= 0)
        printf("%s: goes on, %zu messages, %zu tokens\n", smol_base_name(settings->session),
               chat->conversation.n, smol_context_length(chat->loaded.context));
}

static smol_status talk(struct chat *chat, smol_error *error)
{
    struct buffer text = {0};
    smol_status status = SMOL_OK;
    enum entry entry = ENTRY_TEXT;
    greet(chat);
    while (!status && !chat->quit && entry != ENTRY_END && !smol_chat_ended()) {
        smol_chat_forget_interrupt();
        entry = smol_chat_read(&text, error);
        if (entry == ENTRY_TEXT)
            status = take_entry(chat, &text, error);
        else if (entry == ENTRY_FAILED)
            status = error->status;
        if (goes_on(status))
            status = (smol_command_status(status, error), SMOL_OK);
        if (!status)
            status = smol_standard_flush(error);
    }
    smol_free(text.text);
    return status;
}

/* What was reached is saved after an error, too. At a terminal there is one more chance where it
 * cannot be. */
static smol_status run(struct chat *chat, smol_error *error)
{
    smol_error unsaved = {.status = SMOL_OK};
    smol_status status = prepare(chat, error);
    if (status)
        return status;
    status = talk(chat, error);
    smol_status saved = smol_chat_save(chat, &unsaved);
    if (saved && !status && !chat->file.moved && smol_chat_is_interactive()) {
        smol_command_status(saved, &unsaved);
        puts("the conversation is not saved: /save it to another FILE, or /quit again");
        chat->quit = false;
        status = talk(chat, error);
        saved = smol_chat_save(chat, &unsaved);
    }
    if (status)
        smol_command_status(saved, &unsaved); /* the other one is what ended it */
    else if (saved)
        *error = unsaved;
    else if (chat->settings->stats)
        smol_stats_print(stderr, &chat->stats, &chat->loaded);
    return status ? status : saved;
}

int smol_command_chat(int argc, char **argv)
{
    struct settings settings = {.max_tokens = 256,
                                .sampler = {.top_p = 1, .seed = 42},
                                .chat = 1,
                                .before_sandbox = smol_chat_input_open};
    int exit_status;
    if (!smol_settings_parse(&command, argc, argv, &settings, &exit_status))
        return exit_status;
    struct chat chat = {.settings = &settings, .argc = argc, .argv = argv};
    smol_error error = {.status = SMOL_OK};
    smol_status status = run(&chat, &error);
    smol_conversation_clear(&chat.conversation, true);
    smol_free(chat.answer.text);
    smol_sampler_free(chat.sampler);
    smol_chat_cancel(NULL);
    smol_session_close(&chat.file);
    smol_unload(&chat.loaded);
    smol_chat_input_close();
    return smol_command_status(status, &error);
}
