/* The conversation of a chat: messages in order, with an optional system message at the start. */
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

/* Zeros are an empty conversation. */
struct conversation {
    struct message *messages; /* (n) */
    size_t n, room;
};

/* Adds a message. Errors: MEMORY. */
smol_status smol_conversation_add(struct conversation *conversation, enum role role,
                                  const char *text, size_t size, smol_error *error);

/* Appends text to the last message, which must exist. Errors: MEMORY. */
smol_status smol_conversation_extend(struct conversation *conversation, const char *text,
                                     size_t size, smol_error *error);

/* Removes the last message, which must exist. */
void smol_conversation_pop(struct conversation *conversation);

/* Removes all messages; without `all`, keeps the system message. */
void smol_conversation_clear(struct conversation *conversation, bool all);

/* Returns the system message, which the conversation owns, or NULL. */
const struct message *smol_conversation_system(const struct conversation *conversation);

/* Returns whether the last message has that role. */
bool smol_conversation_ends_with(const struct conversation *conversation, enum role role);

/* Returns how many of the oldest messages can be dropped, not counting the system message: an even
 * number of questions and answers, never the last question. */
size_t smol_conversation_droppable(const struct conversation *conversation);

/* Removes that many of the oldest messages after the system message. */
void smol_conversation_drop(struct conversation *conversation, size_t n_dropped);

/* Tokenizes the conversation without its n_dropped oldest messages, up to the start of the next
 * answer. The caller frees *ids with smol_free. Errors: as smol_chat_tokenize. */
smol_status smol_conversation_ids(const struct conversation *conversation, size_t n_dropped,
                                  const struct settings *settings, const smol_model *model,
                                  uint32_t **ids, size_t *n, smol_error *error);

/* smol_conversation_pack appends the conversation to *bytes (format/SESSION.md, 5).
 * smol_conversation_unpack reads it back into an empty conversation, and returns false if the bytes
 * are not a conversation or memory runs out. */
void smol_conversation_pack(const struct conversation *conversation, struct buffer *bytes);
bool smol_conversation_unpack(struct conversation *conversation, const void *bytes, size_t size);

#endif
