/* A chat: the conversation, the context that knows a part of it, and what the user may ask for. */
#ifndef SMOL_SMOLRUN_CHAT_H
#define SMOL_SMOLRUN_CHAT_H

#include "smolrun/chat/conversation.h"
#include "smolrun/load.h"
#include "smolrun/session_file.h"

enum { SETTABLE = 8 };

struct chat {
    const struct settings *settings;
    struct loaded loaded;
    smol_sampler *sampler;
    struct conversation conversation;
    struct buffer answer; /* that is being written */
    struct stats stats;
    size_t max_tokens;        /* of an answer: -n, or /set n */
    size_t n_keep;            /* tokens of the last prompt that stay when its answer slides */
    bool is_cut;              /* the last answer ended early, and the context ends with it */
    char *set[SETTABLE];      /* options of /set, by their place in its table; owned, or NULL */
    size_t n_known, n_read;   /* of the last prompt: tokens that were in the context, and others */
    struct session_file file; /* of --session */
    bool quit;
    smol_status output_status; /* an error of standard output, which cancelled the answer */
    smol_error output_error;
};

/* Has the model answer the conversation, whose last message is the user's, and adds the answer.
 * What of the conversation is in the context is not evaluated again. After an error the
 * conversation is as before. Errors: as smol_conversation_ids and smol_generate. */
smol_status smol_chat_answer(struct chat *chat, smol_error *error);

/* Whether the last answer was cut off (by -n, the end of the context or Ctrl-C) and can be resumed;
 * resumes it, as if it had not ended. Errors: as smol_generate. */
bool smol_chat_can_continue(const struct chat *chat);
smol_status smol_chat_continue(struct chat *chat, smol_error *error);

/* Does what a line that begins with a slash asks for. Errors end the chat; what is only wrong in
 * the line is said. */
smol_status smol_chat_command(struct chat *chat, const char *line, smol_error *error);

/* Gives the sampler what the command line and /set say, which wins over what a session says. */
smol_status smol_chat_reread(struct chat *chat, smol_error *error);

/* /set NAME VALUE, with an option's name. Errors: USAGE, MEMORY; nothing was changed. */
smol_status smol_chat_set(struct chat *chat, const char *name, const char *value,
                          smol_error *error);

/* Restores the conversation from the file of --session, if it exists; saves it there. Errors: as
 * smol_session_open and smol_session_save. */
smol_status smol_chat_open(struct chat *chat, smol_error *error);
smol_status smol_chat_save(struct chat *chat, smol_error *error);

/* /save, /save! and /load of a file: that of --session if `name` is empty. What is wrong is
 * printed.
 */
void smol_chat_save_as(struct chat *chat, const char *name, bool replace);
void smol_chat_load(struct chat *chat, const char *name);

#endif
