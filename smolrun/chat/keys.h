/* Keys: the bytes that a terminal sends while a line is edited, including pastes. */
#ifndef SMOL_SMOLRUN_CHAT_KEYS_H
#define SMOL_SMOLRUN_CHAT_KEYS_H

#include <stdbool.h>
#include <wchar.h>

#include "cli/text.h"

/* --- pastes ------------------------------------------------------------------------------- */

/* Bracketed paste mode: the sequences that switch it on and off, and those that a terminal sends
 * before and after a paste (XTerm Control Sequences, "Bracketed Paste Mode"). */
#define PASTE_MODE_ON "\033[?2004h"
#define PASTE_MODE_OFF "\033[?2004l"
#define PASTE_BEGIN "\033[200~"
#define PASTE_END "\033[201~"

/* Zeros are the start of a paste. The caller frees bytes.text with smol_free. */
struct paste {
    struct buffer bytes;  /* as received; PASTE_END is removed, unless the paste is too long */
    size_t size, matched; /* matched: bytes at the end that match the start of PASTE_END */
    bool too_long;        /* longer than MAX_MESSAGE (entry.h) */
};

/* Adds the next byte after PASTE_BEGIN. Returns true once PASTE_END is complete. */
bool smol_paste_add(struct paste *paste, char byte);

/* Returns the paste as characters. Line breaks of all kinds (terminals send carriage returns)
 * become line feeds, other control characters except tabs are dropped, and invalid UTF-8 becomes
 * U+FFFD. The caller frees the result with free. NULL: out of memory. */
wchar_t *smol_paste_text(const struct paste *paste);

/* --- keys --------------------------------------------------------------------------------- */

/* Represents a paste: a key that libedit does not use. */
enum { PASTE_KEY = '_' & 0x1f };

/* Makes the terminal send Ctrl-C as a character, so that a Ctrl-C within a paste can be recognized,
 * and Ctrl-S too. Call it after the terminal is prepared for editing; libedit restores the
 * modes. */
void smol_keys_take(void);

/* Reads ahead if much input is waiting: a terminal whose queue is full does not notice Ctrl-C. Call
 * it now and then between two lines. */
void smol_keys_make_room(void);

/* Reads the next byte. Returns 1, or 0 at the end of the input, or -1 after Ctrl-C
 * (smol_chat_interrupted). A whole paste is read as one PASTE_KEY. `wait` waits for input, and
 * returns false if Ctrl-C came as a signal. */
int smol_keys_read(char *byte, bool (*wait)(void));

/* Returns the last paste. smol_keys_drop_paste frees it. */
const struct paste *smol_keys_pasted(void);
void smol_keys_drop_paste(void);

#endif
