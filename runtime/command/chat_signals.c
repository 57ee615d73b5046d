/* Signals, see chat_signals.h. */
#include "runtime/command/chat_signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "common/threads.h"

static const int signals[] = {SIGINT, SIGHUP, SIGTERM, SIGWINCH, SIGCONT};
enum { N_SIGNALS = sizeof signals / sizeof signals[0] };

static volatile sig_atomic_t interrupted, ended, resized, continued;
static smol_context *cancelled; /* by Ctrl-C, or NULL */

static void note(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGCONT)
        continued = 1;
    else
        interrupted = 1;
    if (number == SIGHUP || number == SIGTERM)
        ended = 1;
    if (interrupted && cancelled)
        smol_context_cancel(cancelled, 1);
}

void smol_chat_catch_signals(bool reading)
{
    const struct sigaction action = {.sa_handler = note, .sa_flags = reading ? 0 : (int)SA_RESTART};
    struct sigaction old;
    for (int i = 0; i < N_SIGNALS; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
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

void smol_chat_forget_interrupt(void)
{
    if (ended)
        return;
    interrupted = 0; /* before the other: what comes between is seen */
    if (cancelled)
        smol_context_cancel(cancelled, 0);
}

/* The signals come during the wait only, so that none comes between the look at what was noted and
 * the wait. */
static void wait_for_any(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    sigset_t ours, others;
    sigemptyset(&ours);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(&ours, signals[i]);
    threads_sigmask(SIG_BLOCK, &ours, &others);
    if (!interrupted && !resized && !continued)
        ppoll(&in, 1, NULL, &others);
    threads_sigmask(SIG_SETMASK, &others, NULL);
}

enum wake smol_chat_wait(void)
{
    wait_for_any();
    if (interrupted)
        return WAKE_INTERRUPT;
    enum wake wake = resized ? WAKE_RESIZE : continued ? WAKE_CONTINUE : WAKE_INPUT;
    resized = continued = 0;
    return wake;
}
