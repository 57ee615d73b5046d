/* What a terminal sends for a line that is edited, byte by byte; a paste is one of them. */
#ifndef SMOL_SMOLRUN_CHAT_KEYS_H
#define SMOL_SMOLRUN_CHAT_KEYS_H

#include <stdbool.h>
#include <wchar.h>

#include "cli/text.h"

/* --- pastes ------------------------------------------------------------------------------- */

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
 * caller frees it. NULL: out of memory. */
wchar_t *smol_paste_text(const struct paste *paste);

/* --- keys --------------------------------------------------------------------------------- */

/* Stands for a paste: a key that libedit leaves free. */
enum { PASTE_KEY = '_' & 0x1f };

/* Has the terminal, once it is prepared for editing, give us Ctrl-C as a character, so that we see
 * whether it is a part of what is pasted, and Ctrl-S too. Who prepared it makes it what it was. */
void smol_keys_take(void);

/* Between two lines, every now and then: reads ahead if there is much, as a terminal whose queue is
 * full does not see Ctrl-C either. */
void smol_keys_make_room(void);

/* The next byte; 0: there is none, -1: Ctrl-C (smol_chat_interrupted). For all of a paste that is
 * PASTE_KEY. `wait` waits for input; false: Ctrl-C came as a signal. */
int smol_keys_read(char *byte, bool (*wait)(void));

/* What was pasted last, until it is dropped. */
const struct paste *smol_keys_pasted(void);
void smol_keys_drop_paste(void);

#endif
