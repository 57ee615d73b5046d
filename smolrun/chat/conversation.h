/* What was said in a chat: messages in order, a system message first where there is one. */
#ifndef SMOL_SMOLRUN_CHAT_CONVERSATION_H
#define SMOL_SMOLRUN_CHAT_CONVERSATION_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/text.h"
#include "smolrun/settings.h"

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT };

struct message {
    enum role role;
    char *text; /* (size), owned */
    size_t size;
};

/* Zeroed: empty. */
struct conversation {
    struct message *messages; /* (n) */
    size_t n, room;
};

/* Adds a message. Errors: MEMORY. */
smol_status smol_conversation_add(struct conversation *conversation, enum role role,
                                  const char *text, size_t size, smol_error *error);

/* Adds text to the last message, which must be there. Errors: MEMORY. */
smol_status smol_conversation_extend(struct conversation *conversation, const char *text,
                                     size_t size, smol_error *error);

/* Removes the last message, which must be there. */
void smol_conversation_pop(struct conversation *conversation);

/* Removes all but the system message; with it, where `all`. */
void smol_conversation_clear(struct conversation *conversation, bool all);

/* The system message, the conversation's, or NULL. */
const struct message *smol_conversation_system(const struct conversation *conversation);

/* Whether the last message is of that role. */
bool smol_conversation_ends_with(const struct conversation *conversation, enum role role);

/* How many of the oldest messages could be left out, the system message not counted: an even
 * number, of questions and answers, but not the last question. */
size_t smol_conversation_droppable(const struct conversation *conversation);

/* Removes so many of them. */
void smol_conversation_drop(struct conversation *conversation, size_t n_dropped);

/* The ids of all of it but n_dropped such messages, up to where the next answer starts. The caller
 * frees *ids with smol_free. Errors: as smol_chat_tokenize. */
smol_status smol_conversation_ids(const struct conversation *conversation, size_t n_dropped,
                                  const struct settings *settings, const smol_model *model,
                                  uint32_t **ids, size_t *n, smol_error *error);

/* All of it as bytes, behind what is in *bytes (format/SESSION.md, 5), and back into an empty one:
 * false where they are none, or memory was short. */
void smol_conversation_pack(const struct conversation *conversation, struct buffer *bytes);
bool smol_conversation_unpack(struct conversation *conversation, const void *bytes, size_t size);

#endif
