/* User input of a chat: messages, from a terminal or from a pipe. */
#ifndef SMOL_SMOLRUN_CHAT_INPUT_H
#define SMOL_SMOLRUN_CHAT_INPUT_H

#include <stdbool.h>

#include "cli/text.h"
#include "smol.h"

/* Checks for a terminal and prepares line editing. Call it before the sandbox is entered
 * (editor.h). */
void smol_chat_input_open(void);
void smol_chat_input_close(void);

/* Returns whether standard input and standard output are a terminal. */
bool smol_chat_is_interactive(void);

/* Describes how lines are edited, for /help. */
const char *smol_chat_editing(void);

enum { MAX_MESSAGE = 1 << 20 }; /* bytes of all lines */

/* Results of smol_chat_read. */
enum entry { ENTRY_TEXT, ENTRY_END, ENTRY_INTERRUPTED, ENTRY_FAILED };

/* Reads a message into *text, which is emptied first: one line; several lines, each but the last
 * ending with a backslash; or all text between two sets of three double quotes. From the first call
 * on, Ctrl-C at a terminal ends the message, not the program (signals.h). On failure sets *error:
 * MEMORY, FILE, USAGE (longer than MAX_MESSAGE). */
enum entry smol_chat_read(struct buffer *text, smol_error *error);

/* Reads ahead for the next line if much input is waiting (keys.h). Called between two tokens of an
 * answer. */
void smol_chat_read_ahead(void);

#endif
