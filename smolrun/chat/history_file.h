/* The file that keeps what was typed in chats: smol/chat_history below XDG_STATE_HOME
 * (~/.local/state), for its owner only. An entry is a line of it; a line break within an entry is a
 * carriage return there. */
#ifndef SMOL_SMOLRUN_CHAT_HISTORY_H
#define SMOL_SMOLRUN_CHAT_HISTORY_H

#include <stddef.h>

/* Opens the file and calls `remember` with each of its entries, oldest first. Without a file,
 * because there is no place for one or no right to it, nothing is kept. */
void smol_chat_history_open(void (*remember)(const char *entry));
void smol_chat_history_close(void);

/* Adds an entry to the file, unless it is so large that few others would have room. */
void smol_chat_history_add(const char *entry, size_t size);

#endif
