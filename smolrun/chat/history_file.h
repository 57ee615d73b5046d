/* The history file of chats: smol/chat_history in XDG_STATE_HOME (~/.local/state), which only its
 * owner can read. Each line is an entry; a line break within an entry is stored as a carriage
 * return. */
#ifndef SMOL_SMOLRUN_CHAT_HISTORY_H
#define SMOL_SMOLRUN_CHAT_HISTORY_H

#include <stddef.h>

/* Opens the file and calls `remember` with each entry, oldest first. Keeps no history if no folder
 * is set or the file cannot be opened. */
void smol_chat_history_open(void (*remember)(const char *entry));
void smol_chat_history_close(void);

/* Adds an entry to the file, unless it is so long that few other entries would have room. */
void smol_chat_history_add(const char *entry, size_t size);

#endif
