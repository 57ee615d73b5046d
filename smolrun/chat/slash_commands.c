/* What a chat's lines that begin with a slash do, and saving and loading, see chat.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/path.h"
#include "cli/print.h"
#include "cli/terminal.h"
#include "smolrun/chat/chat.h"
#include "smolrun/chat/entry.h"
#include "smolrun/session_file.h"

/* --- sessions ----------------------------------------------------------------------------- */

static smol_status pack_session(const struct chat *chat, struct buffer *bytes,
                                smol_session *session, smol_error *error)
{
    smol_conversation_pack(&chat->conversation, bytes);
    *session = (smol_session){.sampler = chat->sampler, .data = bytes->text, .size = bytes->size};
    return bytes->failed ? smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for the conversation")
                         : SMOL_OK;
}

smol_status smol_chat_save(struct chat *chat, smol_error *error)
{
    struct buffer bytes = {0};
    smol_session session;
    if (!chat->file.path)
        return SMOL_OK;
    smol_status status = pack_session(chat, &bytes, &session, error);
    if (!status)
        status = smol_session_save(&chat->file, chat->loaded.context, &session, error);
    smol_free(bytes.text);
    return status;
}

static smol_status save_as(const struct chat *chat, const char *path, bool replace,
                           smol_error *error)
{
    struct buffer bytes = {0};
    smol_session session;
    smol_status status = pack_session(chat, &bytes, &session, error);
    if (!status)
        status = smol_session_write(path, replace, chat->loaded.context, &session, error);
    smol_free(bytes.text);
    return status;
}

/* Takes over what was restored, and frees the session's data. A session that is not a chat's is of
 * use too: its tokens need not be read again. */
static smol_status adopt(struct chat *chat, smol_session *session, smol_error *error)
{
    struct conversation loaded = {0};
    smol_status status = smol_chat_reread(chat, error);
    if (!status && smol_conversation_unpack(&loaded, session->data, session->size)) {
        smol_conversation_clear(&chat->conversation, true);
        chat->conversation = loaded;
    } else {
        smol_conversation_clear(&loaded, true);
    }
    smol_free(session->data);
    return status;
}

smol_status smol_chat_open(struct chat *chat, smol_error *error)
{
    smol_session session = {.sampler = chat->sampler};
    smol_status status = smol_session_open(&chat->file, chat->settings->session,
                                           chat->loaded.context, &session, error);
    return status || chat->file.fd < 0 ? status : adopt(chat, &session, error);
}

static smol_status load_from(struct chat *chat, const char *path, smol_error *error)
{
    smol_session session = {.sampler = chat->sampler};
    bool found;
    smol_status status = smol_session_read(path, chat->loaded.context, &session, &found, error);
    if (!status && !found)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: no such file", path);
    return status ? status : adopt(chat, &session, error);
}

/* The file that /save and /load mean, owned: a name without a folder lies in that of --session's.
 * NULL: none, which was said. */
static char *session_path(const struct chat *chat, const char *argument)
{
    const char *own = chat->settings->session;
    if (!own) {
        fputs("start the chat with --session FILE: smolrun can write nowhere else\n", stdout);
        return NULL;
    }
    char *path = NULL;
    int folder = strchr(argument, '/') ? 0 : (int)(smol_base_name(own) - own), n;
    n = argument[0] ? asprintf(&path, "%.*s%s", folder, own, argument) : asprintf(&path, "%s", own);
    if (n < 0)
        path = NULL;
    if (!path)
        fputs("out of memory for a file name\n", stdout);
    return path;
}

/* Whether the folder that `path` lies in is one of those that the sandbox took away. */
static bool is_out_of_reach(const char *path)
{
    char *folder = smol_path_folder(path);
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool refused = folder && fd < 0 && errno == EACCES;
    smol_free(folder);
    if (fd >= 0)
        close(fd);
    return refused;
}

/* What went wrong is said, and the conversation goes on. */
static smol_status say(const struct chat *chat, const char *done, char *path, smol_status status,
                       smol_error *error)
{
    char *folder = smol_path_folder(chat->settings->session);
    if (status)
        smol_command_status(status, error);
    else
        printf("%s %s\n", done, path);
    if (status == SMOL_ERROR_FILE && folder && is_out_of_reach(path))
        printf(
            "A chat's files lie in the folder of --session's (%s) or below: smolrun gave up all\n"
            "others when it began (see SMOL_SANDBOX in smolrun --help).\n",
            folder);
    smol_free(folder);
    free(path);
    return SMOL_OK;
}

/* Whether `path` is the file of --session, which need not exist yet. */
static bool is_own(const struct chat *chat, const char *path)
{
    const char *own = chat->file.path;
    if (!own || strcmp(smol_base_name(path), smol_base_name(own)) != 0)
        return false;
    char *folder = smol_path_folder(path), *own_folder = smol_path_folder(own);
    bool same = folder && own_folder && smol_same_file(folder, own_folder);
    smol_free(folder);
    smol_free(own_folder);
    return same;
}

static smol_status save_over(struct chat *chat, const char *argument, bool replace,
                             smol_error *error)
{
    char *path = session_path(chat, argument);
    struct stat info;
    if (!path)
        return SMOL_OK;
    if (is_own(chat, path))
        return say(chat, "saved to", path, smol_chat_save(chat, error), error);
    if (!replace && lstat(path, &info) == 0) {
        printf("%s: exists already: /save! replaces it, or give another name\n", path);
        free(path);
        return SMOL_OK;
    }
    return say(chat, "saved to", path, save_as(chat, path, replace, error), error);
}

static smol_status save(struct chat *chat, const char *argument, smol_error *error)
{
    return save_over(chat, argument, false, error);
}

static smol_status replace(struct chat *chat, const char *argument, smol_error *error)
{
    return save_over(chat, argument, true, error);
}

static smol_status load(struct chat *chat, const char *argument, smol_error *error)
{
    char *path = session_path(chat, argument);
    return path ? say(chat, "loaded", path, load_from(chat, path, error), error) : SMOL_OK;
}

/* --- the others --------------------------------------------------------------------------- */

static smol_status help(struct chat *chat, const char *argument, smol_error *error);

static smol_status set_system(struct chat *chat, const char *argument, smol_error *error)
{
    const struct message *had = smol_conversation_system(&chat->conversation);
    if (!argument[0]) {
        if (had) /* a session may have brought it */
            smol_terminal_print(had->text, had->size);
        puts(had ? "" : "no system message");
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
    if (status) /* there is room for it: nothing was added */
        conversation->messages[conversation->n++] = old;
    else
        free(old.text);
    return status;
}

static smol_status show_stats(struct chat *chat, const char *argument, smol_error *error)
{
    (void)argument;
    (void)error;
    printf("%-9s %zu tokens were known, %zu were evaluated\n", "prompt", chat->n_known,
           chat->n_read);
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
    const char *name, *argument, *help;
    smol_status (*run)(struct chat *chat, const char *argument, smol_error *error);
} commands[] = {
    {"help", "", "this", help},
    {"system", "TEXT", "begin anew with this system message; without TEXT, show it", set_system},
    {"reset", "", "begin anew, with the same system message", reset},
    {"regen", "", "answer again (with --temp: otherwise)", regenerate},
    {"save", "[FILE]", "save the conversation: to the file of --session, or beside it", save},
    {"save!", "[FILE]", "the same, in place of a conversation that was saved there", replace},
    {"load", "[FILE]", "go on with a conversation that was saved", load},
    {"stats", "", "tokens, speed, memory", show_stats},
    {"quit", "", "end (Ctrl-D)", quit},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static smol_status help(struct chat *chat, const char *argument, smol_error *error)
{
    (void)chat;
    (void)argument;
    (void)error;
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("/%-7s %-7s %s\n", commands[i].name, commands[i].argument, commands[i].help);
    printf("A line that ends with \\ goes on in the next one; \"\"\" begins and ends a text of\n"
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
        printf("/%.*s: there is no such command: see /help\n", (int)(length < 40 ? length : 40),
               line);
    else if (argument[0] && !commands[i].argument[0])
        printf("/%s: takes no argument: leave out what is behind it\n", commands[i].name);
    else
        return commands[i].run(chat, argument, error);
    return SMOL_OK;
}
