/* What the user types: messages, from a terminal or from a pipe. */
#ifndef SMOL_SMOLRUN_CHAT_INPUT_H
#define SMOL_SMOLRUN_CHAT_INPUT_H

#include <stdbool.h>

#include "cli/text.h"
#include "smol.h"

/* Looks whether there is a terminal, and prepares its editing of lines: before the sandbox is
 * entered (editor.h). */
void smol_chat_input_open(void);
void smol_chat_input_close(void);

/* Whether somebody sits at a terminal, reading and typing. */
bool smol_chat_is_interactive(void);

/* How lines are edited, for /help. */
const char *smol_chat_editing(void);

enum { MAX_MESSAGE = 1 << 20 }; /* bytes, all of its lines */

/* What comes of one look at the input. */
enum entry { ENTRY_TEXT, ENTRY_END, ENTRY_INTERRUPTED, ENTRY_FAILED };

/* Reads what the user has to say into *text, which is emptied first: a line; several where each but
 * the last ends with a backslash; or all between two lines with three double quotes. From the first
 * call on, Ctrl-C at a terminal does not end the program (signals.h), but the message. On
 * failure *error is set: MEMORY, FILE, USAGE (longer than MAX_MESSAGE). */
enum entry smol_chat_read(struct buffer *text, smol_error *error);

/* Between two tokens of an answer: takes what is typed meanwhile for the next line, if it is much
 * (keys.h). */
void smol_chat_read_ahead(void);

#endif
