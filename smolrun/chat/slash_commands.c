/* Commands of a chat: lines that begin with a slash, see chat.h. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "smolrun/chat/chat.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/screen.h"
#include "smolrun/chat/signals.h"

static smol_status help(struct chat *chat, const char *argument, smol_error *error);

static smol_status set_system(struct chat *chat, const char *argument, smol_error *error)
{
    const struct message *had = smol_conversation_system(&chat->conversation);
    if (!argument[0]) {
        if (had) /* it may come from a session */
            smol_screen_print(had->text, had->size);
        else
            smol_screen_print("no system message", 17);
        smol_screen_end();
        return SMOL_OK;
    }
    smol_conversation_clear(&chat->conversation, true);
    return smol_conversation_add(&chat->conversation, ROLE_SYSTEM, argument, strlen(argument),
                                 error);
}

static smol_status reset(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    (void)error;
    smol_conversation_clear(&chat->conversation, false);
    return SMOL_OK;
}

static smol_status regenerate(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    if (!smol_conversation_ends_with(&chat->conversation, ROLE_ASSISTANT)) {
        fputs("there is no answer yet\n", stdout);
        return SMOL_OK;
    }
    struct conversation *conversation = &chat->conversation;
    struct message old = conversation->messages[--conversation->n];
    smol_status status = smol_chat_answer(chat, error);
    bool stopped = !status && smol_chat_interrupted() && chat->answer.size == 0 && !chat->is_cut;
    if (stopped) /* by Ctrl-C, before the answer began */
        smol_conversation_pop(conversation);
    if (status || stopped) /* there is room for it, where it was */
        conversation->messages[conversation->n++] = old;
    else
        free(old.text);
    return status;
}

static smol_status resume(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    if (smol_chat_can_continue(chat))
        return smol_chat_continue(chat, error);
    puts(smol_conversation_ends_with(&chat->conversation, ROLE_ASSISTANT)
             ? "the last answer is complete: /regen answers again"
             : "there is no answer yet");
    return SMOL_OK;
}

static void show_settings(const struct chat *chat)
{
    const smol_sampler_params params = smol_sampler_get_params(chat->sampler);
    float penalty = params.repetition_penalty == 0 ? 1 : params.repetition_penalty;
    printf("%-15s %g\n%-15s %u\n%-15s %g\n%-15s %g\n%-15s %g\n%-15s %" PRIu64 "\n", "temp",
           (double)params.temperature, "top-k", params.top_k, "top-p",
           (double)(params.top_p == 0 ? 1 : params.top_p), "min-p", (double)params.min_p,
           "repeat-penalty", (double)penalty, "seed", params.seed);
    if (chat->max_tokens == SIZE_MAX)
        printf("%-15s -1 (no limit)\n", "n");
    else
        printf("%-15s %zu\n", "n", chat->max_tokens);
}

static smol_status set(struct chat *chat, const char *argument, smol_error *error)
{
    char name[32];
    size_t length = strcspn(argument, " \t\n=");
    const char *value = argument + length + strspn(argument + length, " \t\n=");
    if (!argument[0]) {
        show_settings(chat);
        return SMOL_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name),
             argument);
    smol_status status = smol_chat_set(chat, name, value, error);
    if (status != SMOL_ERROR_USAGE)
        return status;
    smol_print_failure("smolrun", error);
    return SMOL_OK;
}

static smol_status show_history(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    (void)error;
    smol_screen_show(&chat->conversation, chat->conversation.n, false);
    if (chat->conversation.n == 0)
        puts("nothing has been said yet");
    return SMOL_OK;
}

static smol_status save(struct chat *chat, const char *argument, smol_error *error)
{
    (void)error;
    smol_chat_save_as(chat, argument, false);
    return SMOL_OK;
}

static smol_status replace(struct chat *chat, const char *argument, smol_error *error)
{
    (void)error;
    smol_chat_save_as(chat, argument, true);
    return SMOL_OK;
}

static smol_status load(struct chat *chat, const char *argument, smol_error *error)
{
    (void)error;
    smol_chat_load(chat, argument);
    return SMOL_OK;
}

static smol_status show_stats(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    (void)error;
    printf("%-9s %zu token%s known, %zu evaluated\n", "prompt", chat->n_known,
           plural(chat->n_known), chat->n_read);
    smol_stats_print(stdout, &chat->stats, &chat->loaded);
    return SMOL_OK;
}

static smol_status quit(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    (void)error;
    chat->quit = true;
    return SMOL_OK;
}

static const struct {
    char name[9], argument[13];
    const char *help;
    smol_status (*run)(struct chat *chat, const char *argument, smol_error *error);
} commands[] = {
    {"help", "", "show this list", help},
    {"system", "[TEXT]", "begin anew with this system message; without TEXT, show it", set_system},
    {"reset", "", "begin anew with the same system message", reset},
    {"regen", "", "answer again (differently only with a temperature above 0)", regenerate},
    {"continue", "", "resume an answer that was cut off or stopped", resume},
    {"set", "[NAME VALUE]", "change an option, as in /set temp 0.7; alone, show all", set},
    {"history", "", "show the conversation", show_history},
    {"save", "[NAME]", "save the conversation in a file", save},
    {"save!", "[NAME]", "save it in place of a saved conversation", replace},
    {"load", "[NAME]", "load a saved conversation", load},
    {"stats", "", "show tokens, speed and memory", show_stats},
    {"quit", "", "end the chat, as Ctrl-D does", quit},
    {"exit", "", "the same", quit},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static smol_status help(struct chat *chat, const char *argument, smol_error *error)
{
    (void)chat;
    (void)argument;
    (void)error;
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("/%-9s %-12s %s\n", commands[i].name, commands[i].argument, commands[i].help);
    printf("A line that ends with \\ continues in the next one; \"\"\" begins and ends a text of\n"
           "several lines; // begins a message with a slash. Ctrl-C stops an answer.\n"
           "%c%s.\n",
           smol_chat_editing()[0] - 'a' + 'A', smol_chat_editing() + 1);
    return SMOL_OK;
}

smol_status smol_chat_command(struct chat *chat, const char *line, smol_error *error)
{
    size_t length = strcspn(++line, " \t\n"), i = 0;
    const char *argument = line + length + strspn(line + length, " \t\n");
    while (i < N_COMMANDS &&
           (strlen(commands[i].name) != length || memcmp(commands[i].name, line, length) != 0))
        i++;
    if (i == N_COMMANDS)
        printf("/%.*s: no such command: /help lists them\n", (int)(length < 40 ? length : 40),
               line);
    else if (argument[0] && !commands[i].argument[0])
        printf("/%s: takes no argument\n", commands[i].name);
    else
        return commands[i].run(chat, argument, error);
    return SMOL_OK;
}
