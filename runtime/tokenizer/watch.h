/* Reports the progress of a long encode to a listener, which can cancel it. */
#ifndef SMOL_RUNTIME_TOKENIZER_WATCH_H
#define SMOL_RUNTIME_TOKENIZER_WATCH_H

#include <stddef.h>

#include "common/listener.h"

enum { WATCH_PACE = 1 << 18 }; /* work between two calls of the listener */

struct encode_watch {
    const struct listener *listener;
    uint64_t done, total; /* bytes of text; normalization may change their number */
    uint64_t work;        /* since the last call of the listener; reading a byte counts 1 */
    bool cancelled;
};

/* Adds `work` and calls the listener if WATCH_PACE is reached. Returns whether the encode must
 * stop. */
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
