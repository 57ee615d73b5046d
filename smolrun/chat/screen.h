/* Text on the terminal of a chat: lines are broken between words. */
#ifndef SMOL_SMOLRUN_CHAT_SCREEN_H
#define SMOL_SMOLRUN_CHAT_SCREEN_H

#include <stddef.h>

#include "smolrun/chat/conversation.h"

/* Prints the next piece of a text, whole characters. At a terminal a word appears once it is known
 * to fit in its line, or moves to the next line; elsewhere the text is printed as it is. */
void smol_screen_print(const char *text, size_t size);

/* Prints what is held back of the text, which is over, and ends the line. */
void smol_screen_end(void);

/* Prints the last n_messages messages. `shortened`: of long ones only the end. */
void smol_screen_show(const struct conversation *conversation, size_t n_messages, bool shortened);

#endif
