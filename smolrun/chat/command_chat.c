/* smolrun chat: a conversation. */
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/standard.h"
#include "common/file.h"
#include "smolrun/chat/chat.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/screen.h"
#include "smolrun/chat/signals.h"
#include "smolrun/command.h"
#include "smolrun/constrain.h"
#include "smolrun/session_file.h"

#define RULE_ANSWER_TOKENS                                                                         \
    {                                                                                              \
        "", 'n', "N", "cut an answer off after N tokens; -1: no limit (-1)", OPTION_LIMIT,         \
            FIELD(max_tokens), 0, 0, NULL                                                          \
    }

static const struct option_rule rules[] = {
    RULE_ANSWER_TOKENS,
    RULES_SAMPLING,
    RULE_STOP,
    RULES_CONSTRAINT,
    RULE_CTX,
    {"slide", 0, "", "when the context is full, forget the oldest turns (see below)", OPTION_FLAG,
     FIELD(slide), 0, 0, NULL},
    RULE_LOOKUP,
    RULE_THREADS,
    RULE_KV,
    RULE_TEMPLATE_ARG,
    RULE_REASONING_BUDGET,
    {"system", 0, "TEXT", "the system message", OPTION_TEXT, FIELD(system), 0, 0, NULL},
    {"session", 0, "FILE", "resume the conversation in FILE if it exists, and save it there",
     OPTION_TEXT, FIELD(session), 0, 0, NULL},
    {"save-dir", 0, "DIR", "let /save NAME and /load NAME use files in the folder DIR", OPTION_TEXT,
     FIELD(save_dir), 0, 0, NULL},
    RULE_STATS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "chat FILE.smol",
    .about =
        "Holds a conversation: answers each line that is typed, with the model's chat template.\n"
        "/help lists the commands. Ctrl-C stops an answer, Ctrl-D ends the chat. Each turn\n"
        "evaluates only its new tokens.\n",
    .notes =
        "--slide leaves room for an answer: -n tokens, at most half of the context. When the\n"
        "conversation would take that room, its oldest questions and answers are forgotten until\n"
        "it takes half of the rest. The system message stays. A longer answer loses its middle.\n"
        "What is kept is evaluated again: a pause as for a prompt of that length.\n\n"
        "If standard input is not a terminal, each of its lines is answered, and nothing else is\n"
        "printed. NO_COLOR in the environment turns colours off. At a terminal, lines are edited\n"
        "with libedit if it is installed; its history is smol/chat_history below XDG_STATE_HOME\n"
        "(~/.local/state).\n",
    .max_words = 1,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* --- /set --------------------------------------------------------------------------------- */

static const struct option_rule set_rules[] = {RULE_ANSWER_TOKENS, RULES_SAMPLER};
enum { N_SET = sizeof set_rules / sizeof set_rules[0] };
_Static_assert((int)N_SET <= (int)SETTABLE, "chat.set has room for each");

static const struct command_line set_line = {
    .program = "smolrun", .words = "chat", .rules = set_rules, .n_rules = N_SET};

/* Applies the options of /set to the sampler and max_tokens, parsed as a command line. */
static smol_status apply_set(struct chat *chat, smol_error *error)
{
    char *argv[N_SET + 2] = {"chat"};
    int argc = 1;
    for (int i = 0; i < N_SET; i++)
        if (chat->set[i])
            argv[argc++] = chat->set[i];
    return smol_settings_reread(&set_line, argc, argv, chat->sampler, &chat->max_tokens, error);
}

static int find_set_rule(const char *name)
{
    int i = 0;
    while (i < N_SET && strcmp(name, *set_rules[i].name ? set_rules[i].name : "n") != 0)
        i++;
    return i;
}

smol_status smol_chat_set(struct chat *chat, const char *name, const char *value, smol_error *error)
{
    int i = find_set_rule(name);
    if (i == N_SET || !value[0])
        return smol_fail(error, SMOL_ERROR_USAGE,
                         i == N_SET ? "/set %s: no such option: /set lists them"
                                    : "/set %s: the value is missing",
                         name);
    char *word = NULL, *old = chat->set[i];
    int n = *set_rules[i].name ? asprintf(&word, "--%s=%s", name, value)
                               : asprintf(&word, "-%s%s", name, value);
    if (n < 0)
        return smol_fail_memory(error, "an option");
    chat->set[i] = word;
    smol_status status = apply_set(chat, error);
    if (status)
        chat->set[i] = old;
    free(status ? word : old);
    return status;
}

smol_status smol_chat_reread(struct chat *chat, smol_error *error)
{
    smol_status status =
        smol_settings_resample(chat->settings, chat->loaded.model, chat->sampler, error);
    chat->max_tokens = chat->settings->max_tokens;
    return status ? status : apply_set(chat, error);
}

/* Applies --system. Refuses to discard the messages of a session. */
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

static smol_status check_save_dir(const struct settings *settings, smol_error *error)
{
    if (settings->session)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--save-dir and --session: conversations are saved beside the file of "
                         "--session: leave out one of them");
    if (!smol_is_folder(settings->save_dir))
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%.300s: not a folder, and cannot be created: name another one",
                         settings->save_dir);
    return SMOL_OK;
}

/* --- the conversation --------------------------------------------------------------------- */

static smol_status prepare(struct chat *chat, smol_error *error)
{
    const struct settings *settings = chat->settings;
    smol_sampler_params sampling;
    smol_status status = smol_load(settings, &chat->loaded, error);
    if (!status)
        status = smol_settings_sampling(settings, chat->loaded.model, &sampling, error);
    if (!status)
        status = smol_constrain_read(settings, &chat->wanted, error);
    if (!status)
        status =
            smol_constrain(settings, chat->loaded.model, &chat->wanted, &chat->constraint, error);
    if (!status)
        status = smol_sampler_create(&sampling, &chat->sampler, error);
    smol_chat_cancel(chat->loaded.context);
    if (!status && settings->save_dir)
        status = check_save_dir(settings, error);
    if (!status && settings->session)
        status = smol_chat_open(chat, error);
    if (!status && settings->system)
        status = begin_with(chat, settings->system, error);
    return status;
}

/* Returns whether the chat continues after `status`. At a terminal, mistakes, a full context and
 * numeric errors do not end it. */
static bool continues(smol_status status)
{
    return smol_chat_is_interactive() &&
           (status == SMOL_ERROR_CONTEXT_FULL || status == SMOL_ERROR_USAGE ||
            status == SMOL_ERROR_NUMERIC);
}

static smol_status take_message(struct chat *chat, const struct buffer *text, smol_error *error)
{
    bool slash = text->text[0] == '/'; /* two slashes mean one */
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
    while (strchr(" \t\n", text->text[text->size - 1]))
        text->size--; /* blanks after a command are no part of a name or a value */
    smol_buffer_add(text, "", 1);
    if (text->failed)
        return smol_fail_memory(error, "a message");
    return smol_chat_command(chat, text->text, error);
}

/* Prints the last messages of a restored conversation. */
static void show_restored(const struct chat *chat)
{
    enum { LAST = 4 };
    size_t n = chat->conversation.n;
    if (!smol_chat_is_interactive() || n == 0)
        return;
    if (n > LAST)
        printf("[%zu earlier message%s: /history shows all]\n", n - LAST, plural(n - LAST));
    smol_screen_show(&chat->conversation, LAST, true);
}

/* Prints, at a terminal, the model's name, how to save the conversation, and its length. */
static void greet(const struct chat *chat)
{
    const struct settings *settings = chat->settings;
    if (!smol_chat_is_interactive())
        return;
    printf("%s: /help lists the commands\n", smol_base_name(settings->model));
    if (!settings->session)
        printf(settings->save_dir
                   ? "/save NAME saves the conversation in %s\n"
                   : "the conversation cannot be saved: for that, start with --save-dir DIR or "
                     "--session FILE\n",
               settings->save_dir);
    else if (chat->file.fd >= 0)
        printf("%s: resumed, %zu message%s, %zu tokens\n", smol_base_name(settings->session),
               chat->conversation.n, plural(chat->conversation.n),
               smol_context_length(chat->loaded.context));
    else
        printf("%s: the conversation is saved there at the end\n",
               smol_base_name(settings->session));
    show_restored(chat);
}

static smol_status talk(struct chat *chat, smol_error *error)
{
    struct buffer text = {0};
    smol_status status = SMOL_OK;
    enum entry entry = ENTRY_TEXT;
    while (!status && !chat->quit && entry != ENTRY_END && !smol_chat_ended()) {
        smol_chat_forget_interrupt();
        entry = smol_chat_read(&text, error);
        if (entry == ENTRY_TEXT)
            status = take_entry(chat, &text, error);
        else if (entry == ENTRY_FAILED)
            status = error->status;
        if (continues(status)) {
            smol_print_failure("smolrun", error);
            status = SMOL_OK;
        }
        if (!status)
            status = smol_standard_flush(error);
    }
    smol_free(text.text);
    return status;
}

/* Runs the chat and saves the conversation, even after an error. If saving fails at a terminal, the
 * chat continues once more, so that the user can save elsewhere. */
static smol_status run(struct chat *chat, smol_error *error)
{
    smol_error unsaved = {.status = SMOL_OK};
    smol_status status = prepare(chat, error);
    if (status)
        return status;
    greet(chat);
    status = talk(chat, error);
    smol_status saved = smol_chat_save(chat, &unsaved);
    if (saved && !status && !chat->file.moved && smol_chat_is_interactive()) {
        smol_print_failure("smolrun", &unsaved);
        puts("the conversation is not saved: /save NAME saves it to another file, /quit drops it");
        chat->quit = false;
        status = talk(chat, error);
        saved = smol_chat_save(chat, &unsaved);
    }
    if (status)
        smol_print_failure("smolrun", &unsaved); /* `status` ended the chat */
    else if (saved)
        *error = unsaved;
    else if (chat->settings->stats)
        smol_stats_print(stderr, &chat->stats, &chat->loaded);
    return status ? status : saved;
}

smol_status smolrun_chat(int argc, char **argv, smol_error *error)
{
    struct settings settings = {.max_tokens = SIZE_MAX,
                                .reasoning_budget = SIZE_MAX,
                                .sampler = {.top_p = 1, .seed = 42},
                                .chat = 1,
                                .before_sandbox = smol_chat_input_open};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    struct chat chat = {.settings = &settings, .max_tokens = settings.max_tokens};
    status = run(&chat, error);
    smol_conversation_clear(&chat.conversation, true);
    for (int i = 0; i < N_SET; i++)
        free(chat.set[i]);
    smol_free(chat.answer.text);
    smol_free(chat.place.text);
    smol_sampler_free(chat.sampler);
    smol_matcher_free(chat.matcher);
    smol_parts_free(&chat.parts);
    smol_constraint_free(chat.constraint);
    smol_free(chat.wanted.text);
    smol_chat_cancel(NULL);
    smol_session_close(&chat.file);
    smol_unload(&chat.loaded);
    smol_chat_input_close();
    return status;
}
