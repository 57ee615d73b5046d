/* Signals of a chat: Ctrl-C, another terminal size, stop and continue, and the end of the
 * terminal. */
#ifndef SMOL_SMOLRUN_CHAT_SIGNALS_H
#define SMOL_SMOLRUN_CHAT_SIGNALS_H

#include <stdbool.h>

#include "smol.h"

/* From the first call on, Ctrl-C (SIGINT), SIGHUP (the terminal is gone) and SIGTERM are recorded
 * and do not end the program, unless they were ignored before. With `reading`, these signals
 * interrupt a read. Otherwise reads and writes continue, as an editor that writes while it reads
 * requires. */
void smol_chat_catch_signals(bool reading);

/* Sets the action that restores the terminal before a signal stops or kills the program (Ctrl-Z,
 * Ctrl-\). The signal's handler calls `act`; smol_chat_at_stop calls it if a signal is already
 * recorded. With NULL the signal is only recorded (WAKE_STOP). smol_chat_stop carries out the
 * recorded signal, and returns when the program continues. */
void smol_chat_at_stop(void (*act)(void));
void smol_chat_stop(void);

/* From now on Ctrl-C also cancels evaluation on the context, until smol_chat_forget_interrupt. NULL
 * ends this. */
void smol_chat_cancel(smol_context *context);

/* smol_chat_interrupted returns whether Ctrl-C came since the last call of
 * smol_chat_forget_interrupt. smol_chat_ended returns whether SIGHUP or SIGTERM ever came: the chat
 * must end then, and also counts as interrupted. */
bool smol_chat_interrupted(void);
bool smol_chat_ended(void);

/* Acts as Ctrl-C, for callers that read it as a character. */
void smol_chat_interrupt(void);
void smol_chat_forget_interrupt(void);

enum wake {
    WAKE_INPUT, /* input can be read, or has ended */
    WAKE_INTERRUPT,
    WAKE_RESIZE,   /* the size of the terminal changed */
    WAKE_STOP,     /* smol_chat_stop must be called */
    WAKE_CONTINUE, /* the program was stopped (Ctrl-Z), and others used the terminal */
};

/* Waits for one of these events; one that came before the call counts. Call it before each read,
 * because a read alone misses a signal that comes just before it. */
enum wake smol_chat_wait(void);

#endif
