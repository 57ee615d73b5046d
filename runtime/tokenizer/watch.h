/* Lets a listener hear of a long encode, and end it. */
#ifndef SMOL_RUNTIME_TOKENIZER_WATCH_H
#define SMOL_RUNTIME_TOKENIZER_WATCH_H

#include <stddef.h>

#include "common/listener.h"

enum { WATCH_PACE = 1 << 18 }; /* work between two calls of the listener */

struct encode_watch {
    const struct listener *listener;
    uint64_t done, total; /* bytes of the text; steps may make it longer than it was */
    uint64_t work;        /* since the listener was last called; a byte that is read is 1 */
    bool cancelled;
};

/* Counts work; whether the encode is to end. */
static inline bool watch_cancels(struct encode_watch *watch, size_t work)
{
    watch->work += work;
    if (watch->cancelled || watch->work < WATCH_PACE || watch->total < 2)
        return watch->cancelled;
    uint64_t done = watch->done > 0 ? watch->done : 1;
    watch->work = 0;
    watch->cancelled = listener_cancels(
        watch->listener, done < watch->total ? done : watch->total - 1, watch->total);
    return watch->cancelled;
}

#endif
