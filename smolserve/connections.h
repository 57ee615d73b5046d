/* The open connections, so that slow and idle ones can be closed. */
#ifndef SMOL_SMOLSERVE_CONNECTIONS_H
#define SMOL_SMOLSERVE_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Seconds in which a connection must have sent a whole request, counted from its beginning or from
 * the end of the answer before; and after which a client that reads nothing is cut off. */
enum { CONNECTION_SECONDS = 30 };

struct watched {
    int fd;
    bool busy;    /* a request is being answered */
    double until; /* clock_seconds: then it is closed */
    double left;  /* when it was first seen that the client has closed it, or 0 */
    struct watched *next, **place;
};

struct connections {
    pthread_mutex_t lock;
    struct watched *first; /* newest first */
    size_t n, most;
};

/* Allows at most `most` connections. One more closes the oldest that is not busy. */
void smol_connections_init(struct connections *connections, size_t most);
void smol_connections_destroy(struct connections *connections);

/* Adds a connection. NULL: out of memory. */
struct watched *smol_connections_add(struct connections *connections, int fd);
void smol_connections_remove(struct connections *connections, struct watched *watched);

size_t smol_connections_count(struct connections *connections);

/* Notes that a request is being answered, which takes at most `seconds`, or that it has been. */
void smol_connections_busy(struct connections *connections, struct watched *watched,
                           double seconds);
void smol_connections_idle(struct connections *connections, struct watched *watched);

/* Closes the connections whose time is over, and those that are not busy and whose clients closed
 * them a second ago: the HTTP library, which reads until less arrives than it asks for, may not
 * notice when a request and the end arrive together. Call it once or twice a second. */
void smol_connections_sweep(struct connections *connections);

#endif
