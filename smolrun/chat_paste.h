/* What is pasted at a terminal: in its bracketed paste mode it says where that begins and ends. */
#ifndef SMOL_SMOLRUN_CHAT_PASTE_H
#define SMOL_SMOLRUN_CHAT_PASTE_H

#include <stdbool.h>
#include <wchar.h>

#include "cli/text.h"

/* What switches the mode on and off, and what a terminal sends before and behind what is pasted
 * (XTerm Control Sequences, "Bracketed Paste Mode"). */
#define PASTE_MODE_ON "\033[?2004h"
#define PASTE_MODE_OFF "\033[?2004l"
#define PASTE_BEGIN "\033[200~"
#define PASTE_END "\033[201~"

/* Zeroed: at the start. smol_free(bytes.text) when done. */
struct paste {
    struct buffer bytes;  /* as they came; its size is that of the paste, unless it is too long */
    size_t size, matched; /* matched: bytes at its end that begin PASTE_END */
    bool too_long;        /* longer than MAX_MESSAGE (chat_input.h) */
};

/* Takes the next byte behind PASTE_BEGIN; true: with it PASTE_END is there. */
bool smol_paste_add(struct paste *paste, char byte);

/* What was pasted, as characters: line breaks of all kinds (terminals send carriage returns) are
 * line feeds, other control characters but tabs are left out, what is no UTF-8 is U+FFFD. The
 * caller frees it with smol_free. NULL: out of memory. */
wchar_t *smol_paste_text(const struct paste *paste);

#endif
