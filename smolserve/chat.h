/* Conversations in request bodies. */
#ifndef SMOL_SMOLSERVE_CHAT_H
#define SMOL_SMOLSERVE_CHAT_H

#include "smolserve/body.h"

/* Reads the member `messages`. */
smol_status smol_chat_set_messages(struct request_reader *r);

/* Reads the member `input` of a response, a list of messages, calls and their results, as messages.
 * Less important members are dropped. */
smol_status smol_chat_set_items(struct request_reader *r);

/* Reads the member `tools` of a response, in which a function's members are those of the tool. */
smol_status smol_chat_set_flat_tools(struct request_reader *r);

/* Renders and tokenizes the messages. */
smol_status smol_chat_prepare(struct job *job, smol_error *error);

#endif
