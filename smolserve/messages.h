/* How conversations of several forms become messages of a chat, the JSON text that a chat template
 * reads: parts that messages.c (chats), items.c (responses) and blocks.c (Anthropic's messages)
 * share. The reader is at an object or a list; `out` receives JSON text. */
#ifndef SMOL_SMOLSERVE_MESSAGES_H
#define SMOL_SMOLSERVE_MESSAGES_H

#include "smolserve/body.h"

/* Finds a member of the object at the reader, whose value must begin with one of `starts`: "\"" is
 * a string, "\"[" a string or a list, "{" an object. *at: the value. */
smol_status smol_messages_find(struct request_reader *r, const char *name, const char *starts,
                               struct json_reader *at);

/* Appends `key` and the JSON text of such a member; of a list of texts, one text. */
smol_status smol_messages_copy(struct request_reader *r, const char *key, const char *name,
                               const char *starts, struct buffer *out);

/* Appends the JSON text of a member that is a string, between its quotes. */
smol_status smol_messages_inside(struct request_reader *r, const char *name, struct buffer *out);

/* Refuses an element of the member because of its type, r->scratch[0..length). `whose` names the
 * element, and `advice` says which types are supported. Returns SMOL_ERROR_USAGE. */
smol_status smol_messages_fail_type(struct request_reader *r, const char *whose, size_t length,
                                    const char *advice);

/* Takes a list of texts, the parts of a content, and appends them as one string, each on lines of
 * its own. */
smol_status smol_messages_join(struct request_reader *r, struct buffer *out);

/* How much of a message is copied: all; of an item of a response, its role and content; and after
 * reasoning, which has begun the message, the content. */
enum extent { ALL, ROLE_AND_CONTENT, CONTENT };

/* Takes a message of a chat and appends it. */
smol_status smol_messages_copy_message(struct request_reader *r, struct buffer *out,
                                       enum extent extent);

/* The end of the list of messages so far: what follows of the same turn is added to it. */
enum turn { TURN_OTHER, TURN_USER, TURN_ASSISTANT, TURN_CALLS, TURN_REASONING };

/* Takes an element of a list and appends what it becomes, with the commas before. */
typedef smol_status smol_copy_element(struct request_reader *r, struct buffer *out,
                                      enum turn *turn);

/* Takes a list, and sets *list to that of its copied elements, which the caller frees. *turn is
 * TURN_OTHER at first. */
smol_status smol_messages_list(struct request_reader *r, smol_copy_element *copy, enum turn *turn,
                               char **list);

/* Takes the list of the request's messages, at least one, in the same way. */
smol_status smol_messages_set(struct request_reader *r, smol_copy_element *copy, enum turn *turn);

/* Puts the job's instructions, if there are any, before its messages, as a system message. Errors:
 * MEMORY. */
smol_status smol_messages_instruct(struct job *job, smol_error *error);

#endif
