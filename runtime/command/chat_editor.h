/* Lines that are edited with libedit, and their history.
 *
 * libedit is found at run time, so that smolrun neither needs it nor pays for it; without it (or in
 * the static build, which can load nothing) the terminal's own line editing has to do. */
#ifndef SMOL_RUNTIME_COMMAND_CHAT_EDITOR_H
#define SMOL_RUNTIME_COMMAND_CHAT_EDITOR_H

#include <stdbool.h>

#include "common/buffer.h"

/* Loads libedit and the history, which is in smol/chat_history below XDG_STATE_HOME
 * (~/.local/state), for its owner only: before the sandbox is entered. `colored`: prompts are bold.
 * False: there is no libedit. */
bool smol_chat_editor_open(bool colored);
void smol_chat_editor_close(void);

/* Adds the line that is typed behind `prompt` to *text, without its end. False: there is none,
 * because of Ctrl-C (smol_chat_interrupted) or at the end of the input. Signals are
 * caught, and do not end a write (chat_signals.h). */
bool smol_chat_editor_read(const char *prompt, struct buffer *text);

#endif
