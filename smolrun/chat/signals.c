/* Signals, see signals.h. */
#include "smolrun/chat/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* the signals from STOPS on keep their default effect until smol_chat_at_stop */
static const int signals[] = {SIGINT, SIGHUP, SIGTERM, SIGWINCH, SIGCONT, SIGTSTP, SIGQUIT};
enum { N_SIGNALS = sizeof signals / sizeof signals[0], STOPS = N_SIGNALS - 2 };

static volatile sig_atomic_t interrupted, ended, resized, continued;
static volatile sig_atomic_t stop; /* the signal's number, or 0 */
static void (*volatile at_stop)(void);
static smol_context *cancelled; /* the context that Ctrl-C cancels, or NULL */

static void take_stop(int number)
{
    int error = errno; /* of the interrupted code */
    stop = number;
    if (at_stop)
        at_stop();
    errno = error;
}

static void note(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGCONT)
        continued = 1;
    else if (number == SIGTSTP || number == SIGQUIT)
        take_stop(number);
    else
        interrupted = 1;
    if (number == SIGHUP || number == SIGTERM)
        ended = 1;
    if (interrupted && cancelled)
        smol_context_cancel(cancelled, 1);
}

/* Sets the handler of signals[from, to), except for signals that are ignored. */
static void set_action(int from, int to, void (*handler)(int), int flags)
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct sigaction old;
    for (int i = from; i < to; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

void smol_chat_catch_signals(bool reading)
{
    set_action(0, STOPS, note, reading ? 0 : (int)SA_RESTART);
}

void smol_chat_at_stop(void (*act)(void))
{
    at_stop = act;
    set_action(STOPS, N_SIGNALS, note, (int)(SA_RESTART | SA_NODEFER));
    if (act && stop)
        act();
}

void smol_chat_stop(void)
{
    const struct sigaction own = {.sa_handler = SIG_DFL};
    struct sigaction action;
    int number = stop;
    stop = 0;
    if (number == 0) /* a handler has already done it */
        return;
    sigaction(number, &own, &action);
    raise(number);
    sigaction(number, &action, NULL);
    continued = 1; /* also if it did not stop, because no parent could make it continue */
}

void smol_chat_cancel(smol_context *context)
{
    cancelled = context;
}

bool smol_chat_interrupted(void)
{
    return interrupted;
}

bool smol_chat_ended(void)
{
    return ended;
}

void smol_chat_interrupt(void)
{
    note(SIGINT);
}

void smol_chat_forget_interrupt(void)
{
    if (ended)
        return;
    interrupted = 0; /* cleared first, so that a Ctrl-C in between is not lost */
    if (cancelled)
        smol_context_cancel(cancelled, 0);
}

/* Blocks the signals except during the wait, so that none comes between the check of the flags and
 * the wait. */
static void wait_for_any(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t ours, others;
    sigemptyset(&ours);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(&ours, signals[i]);
    sigprocmask(SIG_BLOCK, &ours, &others);
    if (!interrupted && !resized && !continued && !stop)
        ppoll(&in, 1, NULL, &others);
    sigprocmask(SIG_SETMASK, &others, NULL);
}

enum wake smol_chat_wait(void)
{
    wait_for_any();
    if (interrupted)
        return WAKE_INTERRUPT;
    if (stop)
        return WAKE_STOP;
    enum wake wake = continued ? WAKE_CONTINUE : resized ? WAKE_RESIZE : WAKE_INPUT;
    resized = continued = 0;
    return wake;
}
