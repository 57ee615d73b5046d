/* Saving and restoring a chat: --session, --save-dir, /save and /load, see chat.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/print.h"
#include "common/file.h"
#include "smolrun/chat/chat.h"
#include "smolrun/constrain.h"

static smol_status pack_session(const struct chat *chat, struct buffer *bytes,
                                smol_session *session, smol_error *error)
{
    if (chat->is_cut)
        smol_buffer_add(bytes, chat->place.text, chat->place.size);
    smol_conversation_pack(&chat->conversation, bytes);
    *session = (smol_session){.sampler = chat->sampler, .data = bytes->text, .size = bytes->size};
    return bytes->failed ? smol_fail_memory(error, "the conversation") : SMOL_OK;
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

static smol_status write_to(const struct chat *chat, const char *path, bool replace,
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

/* Returns how many tokens to keep when a restored answer is resumed and slides. The length of its
 * prompt is not saved. */
static size_t default_keep(const struct chat *chat)
{
    size_t half = smol_context_capacity(chat->loaded.context) / 2;
    size_t length = smol_context_length(chat->loaded.context);
    return length < half ? length : half;
}

/* The context does not end with the last answer any more. */
static void forget_cut(struct chat *chat)
{
    chat->is_cut = false;
    chat->place.size = 0;
    smol_parts_free(&chat->parts);
}

/* Adopts a restored session, and frees its data. *is_chat: it has a conversation. Another is useful
 * too: its tokens need not be evaluated again. */
static smol_status adopt(struct chat *chat, smol_session *session, bool *is_chat, smol_error *error)
{
    struct conversation loaded = {0};
    char *data = session->data;
    size_t skipped = smol_place_size(data, session->size);
    smol_status status = smol_chat_reread(chat, error);
    forget_cut(chat);
    *is_chat = !status && smol_conversation_unpack(&loaded, data ? data + skipped : NULL,
                                                   session->size - skipped);
    if (*is_chat) {
        smol_conversation_clear(&chat->conversation, true);
        chat->conversation = loaded;
        smol_buffer_add(&chat->place, data, skipped);
        chat->is_cut = smol_context_pending(chat->loaded.context) != SMOL_NO_TOKEN;
        chat->n_keep = default_keep(chat);
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
    bool is_chat = false;
    if (status || chat->file.fd < 0)
        return status;
    status = adopt(chat, &session, &is_chat, error);
    if (!status && !is_chat && smol_context_length(chat->loaded.context) > 0)
        status = smol_fail(error, SMOL_ERROR_USAGE,
                           "%.300s: has a text and no conversation, and the text would be lost: "
                           "continue it with smolrun FILE, or name another session",
                           chat->settings->session);
    return status;
}

static smol_status load_from(struct chat *chat, const char *path, smol_error *error)
{
    smol_session session = {.sampler = chat->sampler};
    bool found, is_chat;
    smol_status status = smol_session_read(path, chat->loaded.context, &session, &found, error);
    if (!status && !found)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: no such file", path);
    if (!status) {
        status = adopt(chat, &session, &is_chat, error);
        return status || is_chat ? status
                                 : smol_fail(error, SMOL_ERROR_USAGE,
                                             "%.300s: a text without a conversation: this one goes "
                                             "on, with the settings of that text",
                                             path);
    }
    if (smol_context_pending(chat->loaded.context) == SMOL_NO_TOKEN) /* it may have been emptied */
        forget_cut(chat);
    return status;
}

/* Returns the folder in which /save and /load look for a name: the first *length bytes of the
 * result. NULL: no folder. */
static const char *saving_folder(const struct chat *chat, int *length)
{
    const struct settings *settings = chat->settings;
    const char *folder = settings->session ? settings->session : settings->save_dir;
    if (folder)
        *length = settings->session ? (int)(smol_base_name(folder) - folder) : (int)strlen(folder);
    return folder;
}

/* Returns the path for /save and /load, which the caller frees. A name without a folder is a file
 * in the folder of --session or --save-dir. Prints the error and returns NULL on failure. */
static char *session_path(const struct chat *chat, const char *name)
{
    int length = 0;
    const char *folder = saving_folder(chat, &length), *slash = "";
    char *path = NULL;
    if (!folder) {
        puts(
            "start the chat with --session FILE or --save-dir DIR: smolrun can write nowhere else");
        return NULL;
    }
    if (!name[0] && !chat->settings->session) {
        puts("name the conversation: /save NAME, /load NAME");
        return NULL;
    }
    if (strchr(name, '/'))
        length = 0;
    else if (length > 0 && folder[length - 1] != '/')
        slash = "/";
    int n = name[0] ? asprintf(&path, "%.*s%s%s", length, folder, slash, name)
                    : asprintf(&path, "%s", folder);
    if (n >= 0)
        return path;
    puts("out of memory for a file name");
    return NULL;
}

/* Returns whether the sandbox denies access to the folder of `path`. */
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

/* Prints the result of saving or loading, and frees `path`. */
static void report_saving(const struct chat *chat, const char *done, char *path, smol_status status,
                          const smol_error *error)
{
    int length = 0;
    const char *folder = saving_folder(chat, &length);
    if (status)
        smol_print_failure("smolrun", error);
    else
        printf("%s %s\n", done, path);
    if (status == SMOL_ERROR_FILE && is_out_of_reach(path))
        printf(
            "smolrun can use files in %.*s and below only: it gave up all other folders when it\n"
            "started (see SMOL_SANDBOX in smolrun --help)\n",
            length > 0 ? length : 1, length > 0 ? folder : ".");
    free(path);
}

/* Returns whether `path` is the file of --session, which need not exist yet. */
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

void smol_chat_save_as(struct chat *chat, const char *name, bool replace)
{
    smol_error error = {.status = SMOL_OK};
    char *path = session_path(chat, name);
    struct stat info;
    if (!path)
        return;
    smol_status status;
    if (is_own(chat, path)) {
        status = smol_chat_save(chat, &error);
    } else if (!replace && lstat(path, &info) == 0) {
        printf("%s: exists already: /save! replaces it, or choose another name\n", path);
        free(path);
        return;
    } else {
        status = write_to(chat, path, replace, &error);
    }
    report_saving(chat, "saved to", path, status, &error);
}

void smol_chat_load(struct chat *chat, const char *name)
{
    smol_error error = {.status = SMOL_OK};
    char *path = session_path(chat, name);
    if (path)
        report_saving(chat, "loaded", path, load_from(chat, path, &error), &error);
}
