/* What the user types: lines from a terminal, edited with libedit where it is there, or from a
 * pipe.
 *
 * libedit is found at run time, so that smolrun neither needs it nor pays for it; without it (or in
 * the static build, which can load nothing) the terminal's own line editing has to do. */
#ifndef SMOL_RUNTIME_COMMAND_CHAT_INPUT_H
#define SMOL_RUNTIME_COMMAND_CHAT_INPUT_H

#include <stdbool.h>

#include "common/buffer.h"
#include "runtime/smol.h"

/* Looks whether there is a terminal, loads libedit and the history: before the sandbox is entered.
 * The history is in smol/chat_history below XDG_STATE_HOME (~/.local/state), for its owner only. */
void smol_chat_input_open(void);
void smol_chat_input_close(void);

/* Whether somebody sits at a terminal, reading and typing. */
bool smol_chat_is_interactive(void);

/* How lines are edited, for /help. */
const char *smol_chat_editing(void);

/* From the first line on, Ctrl-C at a terminal does not end the program, but is noted: whether it
 * came since the last call of smol_chat_forget_interrupt. */
bool smol_chat_interrupted(void);
void smol_chat_forget_interrupt(void);

/* What comes of one look at the input. */
enum entry { ENTRY_TEXT, ENTRY_END, ENTRY_INTERRUPTED };

/* Reads what the user has to say into *text, which is emptied first: a line; several where each but
 * the last ends with a backslash; or all between two lines with three double quotes. On failure
 * (MEMORY, FILE) *error is set and the result ENTRY_END. */
enum entry smol_chat_read(struct buffer *text, smol_error *error);

#endif
