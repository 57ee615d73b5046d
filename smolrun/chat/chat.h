/* A chat: the conversation, the context that knows a part of it, and what the user may ask for. */
#ifndef SMOL_SMOLRUN_CHAT_H
#define SMOL_SMOLRUN_CHAT_H

#include "smolrun/chat/conversation.h"
#include "smolrun/load.h"
#include "smolrun/session_file.h"

struct chat {
    const struct settings *settings;
    int argc;
    char **argv; /* what they were read from */
    struct loaded loaded;
    smol_sampler *sampler;
    struct conversation conversation;
    struct buffer answer; /* that is being written */
    struct stats stats;
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

/* Does what a line that begins with a slash asks for. Errors end the chat; what is only wrong in
 * the line is said. */
smol_status smol_chat_command(struct chat *chat, const char *line, smol_error *error);

/* What the command line says of sampling wins over what a session says: its words are read again.
 */
smol_status smol_chat_reread(struct chat *chat, smol_error *error);

/* Restores the conversation from the file of --session, if it exists; saves it there. Errors: as
 * smol_session_open and smol_session_save. */
smol_status smol_chat_open(struct chat *chat, smol_error *error);
smol_status smol_chat_save(struct chat *chat, smol_error *error);

#endif
