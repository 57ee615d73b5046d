/* A callback that receives the progress of a long step and can end it. */
#ifndef SMOL_COMMON_LISTENER_H
#define SMOL_COMMON_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

/* smol_on_progress of smol.h, and its argument. */
struct listener {
    int (*tell)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* Reports progress. Call it while work remains. Does nothing without a listener or a function.
 * Returns whether the step must end. */
static inline bool listener_cancels(const struct listener *listener, uint64_t done, uint64_t total)
{
    return listener && listener->tell && listener->tell(listener->user, done, total) != 0;
}

#endif
