/* Somebody who wants to know how far a long step has come, and may end it. */
#ifndef SMOL_COMMON_LISTENER_H
#define SMOL_COMMON_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

/* smol_on_progress of smol.h, and what it is called with. */
struct listener {
    int (*tell)(void *user, uint64_t done, uint64_t total);
    void *user;
};

/* Call it while there is more to do. Without a listener or a function it does nothing. Returns
 * whether the step is to end. */
static inline bool listener_cancels(const struct listener *listener, uint64_t done, uint64_t total)
{
    return listener && listener->tell && listener->tell(listener->user, done, total) != 0;
}

#endif
