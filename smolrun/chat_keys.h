/* What a terminal sends for a line that is edited, byte by byte; a paste is one of them. */
#ifndef SMOL_SMOLRUN_CHAT_KEYS_H
#define SMOL_SMOLRUN_CHAT_KEYS_H

#include <stdbool.h>

#include "smolrun/chat_paste.h"

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
