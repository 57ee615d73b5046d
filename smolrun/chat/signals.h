/* What a terminal tells a chat besides text: Ctrl-C, another size, that the program goes on. */
#ifndef SMOL_SMOLRUN_CHAT_SIGNALS_H
#define SMOL_SMOLRUN_CHAT_SIGNALS_H

#include <stdbool.h>

#include "smol.h"

/* From the first call on, Ctrl-C does not end the program, but is noted, and so are SIGHUP (the
 * terminal is gone) and SIGTERM, unless they were ignored. `reading`: a read ends with them;
 * otherwise reads and writes go on, as what an editor writes while it reads has to. */
void smol_chat_catch_signals(bool reading);

/* What is done upon what stops the program or kills it (Ctrl-Z, Ctrl-\), where something must be
 * undone at the terminal before: `act`, in the signal's handler, or at once if nobody did it so
 * far. NULL: nothing, it is only noted (WAKE_STOP). smol_chat_stop does it, and returns once the
 * program goes on. */
void smol_chat_at_stop(void (*act)(void));
void smol_chat_stop(void);

/* From now on Ctrl-C cancels what is evaluated on the context, too, until
 * smol_chat_forget_interrupt.
 */
void smol_chat_cancel(smol_context *context);

/* Whether Ctrl-C came since the last call of smol_chat_forget_interrupt, or one of the others ever:
 * then the chat is to end. */
bool smol_chat_interrupted(void);
bool smol_chat_ended(void);

/* The same as Ctrl-C, from who reads it as a character. */
void smol_chat_interrupt(void);
void smol_chat_forget_interrupt(void);

enum wake {
    WAKE_INPUT, /* there is something to read, or it is over */
    WAKE_INTERRUPT,
    WAKE_RESIZE,   /* the terminal has another size */
    WAKE_STOP,     /* smol_chat_stop is to be called */
    WAKE_CONTINUE, /* the program was stopped (Ctrl-Z), and others used the terminal */
};

/* Waits for one of these; one that came before the call counts. To be called before each read, as a
 * read alone misses what comes just before it. */
enum wake smol_chat_wait(void);

#endif
