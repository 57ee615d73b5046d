/* Line editing with libedit, and its history.
 *
 * libedit is loaded at run time, so that smolrun does not depend on it. Without libedit, and in the
 * static build, which cannot load libraries, the terminal itself edits lines. */
#ifndef SMOL_SMOLRUN_CHAT_EDITOR_H
#define SMOL_SMOLRUN_CHAT_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/text.h"

/* The ends of a line that were pasted, or recalled from the history with the rows of an older
 * paste. A slash, quotes or a backslash there are text. */
struct line_origin {
    bool pasted_start, pasted_end;
    bool recalled; /* has several rows, none of them pasted now */
};

/* Loads libedit and its history. Call it before the sandbox is entered. With
 * `colored`, prompts are bold. Returns false without libedit or a terminal. */
bool smol_chat_editor_open(bool colored);
void smol_chat_editor_close(void);

/* Appends the line typed after `prompt` to *text, without its line end, and sets *origin. A paste,
 * in the terminal's bracketed paste mode, may have several lines (keys.h). Returns false after
 * Ctrl-C (smol_chat_interrupted) and at the end of the input. Signals are caught and do not
 * interrupt a write (signals.h). */
bool smol_chat_editor_read(const char *prompt, struct buffer *text, struct line_origin *origin);

/* Adds an entry to the history, unless it is empty. */
void smol_chat_editor_remember(const char *text, size_t size);

/* history_file.c: the history file of chats, smol/chat_history in XDG_STATE_HOME (~/.local/state),
 * which only its owner can read. Each line is an entry; a line break within an entry is stored as a
 * carriage return.
 *
 * Opens the file and calls `remember` with each entry, oldest first. Keeps no history if no folder
 * is set or the file cannot be opened. */
void smol_chat_history_open(void (*remember)(const char *entry));
void smol_chat_history_close(void);

/* Adds an entry to the file, unless it is so long that few other entries would have room. */
void smol_chat_history_add(const char *entry, size_t size);

#endif
