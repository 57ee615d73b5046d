/* A chat: the conversation, the context that holds a part of it, and the user's commands. */
#ifndef SMOL_SMOLRUN_CHAT_H
#define SMOL_SMOLRUN_CHAT_H

#include "smolrun/batch.h"
#include "smolrun/chat/conversation.h"
#include "smolrun/load.h"
#include "smolrun/session_file.h"

enum { SETTABLE = 8 };

struct chat {
    const struct settings *settings;
    struct loaded loaded;
    smol_sampler *sampler;
    struct wanted_constraint wanted;
    smol_constraint *constraint; /* of every answer, or NULL */
    smol_matcher *matcher;       /* of the last answer, or NULL */
    struct buffer place;         /* of the last answer in its constraint */
    struct answer_parts parts;   /* of the last answer; not shown yet */
    bool reasons;                /* reasoning was shown, and no text after it */
    struct conversation conversation;
    struct buffer answer; /* the text of the current answer, without reasoning */
    struct stats stats;
    size_t max_tokens;      /* limit for an answer: -n or /set n */
    size_t n_keep;          /* tokens of the last prompt to keep when its answer slides */
    bool is_cut;            /* the last answer ended early and is at the end of the context */
    char *set[SETTABLE];    /* option words from /set, in the order of its table; owned, or NULL */
    size_t n_known, n_read; /* tokens of the last prompt: already in the context, and evaluated */
    struct session_file file; /* of --session */
    bool quit;
    smol_status output_status; /* an error of standard output, which cancelled the answer */
    smol_error output_error;
};

/* Makes the model answer the conversation, whose last message is the user's, and adds the answer.
 * Tokens that are already in the context are not evaluated again. After an error the conversation
 * is unchanged. Errors: as smol_conversation_ids and smol_generate. */
smol_status smol_chat_answer(struct chat *chat, smol_error *error);

/* smol_chat_can_continue returns whether the last answer was cut off (by -n, the end of the context
 * or Ctrl-C) and can be resumed. smol_chat_continue resumes it as if it had not ended. Errors: as
 * smol_generate, and MEMORY. */
bool smol_chat_can_continue(const struct chat *chat);
smol_status smol_chat_continue(struct chat *chat, smol_error *error);

/* Runs the command in a line that begins with a slash. Prints mistakes in the line; returns other
 * errors. */
smol_status smol_chat_command(struct chat *chat, const char *line, smol_error *error);

/* Sets the sampler and max_tokens from the command line and from /set, which override the values of
 * a session. */
smol_status smol_chat_reread(struct chat *chat, smol_error *error);

/* Runs /set NAME VALUE, where NAME is an option's name. Errors: USAGE, MEMORY; nothing changes
 * then. */
smol_status smol_chat_set(struct chat *chat, const char *name, const char *value,
                          smol_error *error);

/* Restore the conversation from the file of --session, if it exists, and save it there. Errors: as
 * smol_session_open and smol_session_save. */
smol_status smol_chat_open(struct chat *chat, smol_error *error);
smol_status smol_chat_save(struct chat *chat, smol_error *error);

/* Run /save, /save! (`replace`) and /load, and print errors. An empty `name` means the file of
 * --session. */
void smol_chat_save_as(struct chat *chat, const char *name, bool replace);
void smol_chat_load(struct chat *chat, const char *name);

#endif
