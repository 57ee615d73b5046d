/* Lines that are edited with libedit, and their history.
 *
 * libedit is found at run time, so that smolrun neither needs it nor pays for it; without it (or in
 * the static build, which can load nothing) the terminal's own line editing has to do. */
#ifndef SMOL_SMOLRUN_CHAT_EDITOR_H
#define SMOL_SMOLRUN_CHAT_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/text.h"

/* Which ends of a line were pasted, or came from the history with the rows of an older paste: there
 * a slash, quotes and a backslash are text. */
struct line_origin {
    bool pasted_start, pasted_end;
    bool recalled; /* has several rows, none of them pasted now */
};

/* Loads libedit and the history (history_file.h): before the sandbox is entered. `colored`: prompts
 * are bold. False: there is no libedit. */
bool smol_chat_editor_open(bool colored);
void smol_chat_editor_close(void);

/* Adds the line that is typed behind `prompt` to *text, without its end. What is pasted into it, in
 * a terminal's bracketed paste mode, may have several lines (keys.h). False: there is none,
 * because of Ctrl-C (smol_chat_interrupted) or at the end of the input. Signals are
 * caught, and do not end a write (signals.h). */
bool smol_chat_editor_read(const char *prompt, struct buffer *text, struct line_origin *origin);

/* Adds an entry to the history, unless it is empty. */
void smol_chat_editor_remember(const char *text, size_t size);

#endif
