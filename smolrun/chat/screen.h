/* Text output of a chat. At a terminal, lines are broken between words. */
#ifndef SMOL_SMOLRUN_CHAT_SCREEN_H
#define SMOL_SMOLRUN_CHAT_SCREEN_H

#include <stddef.h>

#include "smolrun/chat/conversation.h"

/* Prints the next piece of a text, in whole characters. At a terminal, a word appears once it is
 * known to fit in its line or has moved to the next line. Elsewhere the text is printed
 * unchanged. */
void smol_screen_print(const char *text, size_t size);

/* Prints the rest of the text, which is complete, and ends the line. */
void smol_screen_end(void);

/* Prints the last n_messages messages. With `shortened`, prints only the end of long messages. */
void smol_screen_show(const struct conversation *conversation, size_t n_messages, bool shortened);

#endif
