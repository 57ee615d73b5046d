/* Open connections, see connections.h. A connection is closed by shutting down its socket: the HTTP
 * library notices, and closes the descriptor after smol_connections_remove. */
#include "smolserve/connections.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/clock.h"

enum {
    BATCH = 256,      /* connections that the system is asked about at a time */
    LEFT_SECONDS = 1, /* from the client's end of a connection until ours */
};

void smol_connections_init(struct connections *c, size_t most)
{
    *c = (struct connections){.most = most};
    pthread_mutex_init(&c->lock, NULL);
}

void smol_connections_destroy(struct connections *c)
{
    pthread_mutex_destroy(&c->lock);
}

/* Closes the oldest connection that is not busy. */
static void make_room(struct connections *c)
{
    struct watched *oldest = NULL;
    for (struct watched *w = c->first; w; w = w->next)
        if (!w->busy && (!oldest || w->until <= oldest->until))
            oldest = w;
    if (!oldest)
        return;
    shutdown(oldest->fd, SHUT_RDWR);
    oldest->busy = true; /* so that it is not chosen again before it is gone */
}

struct watched *smol_connections_add(struct connections *c, int fd)
{
    struct watched *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    pthread_mutex_lock(&c->lock);
    if (c->n >= c->most)
        make_room(c);
    *w = (struct watched){.fd = fd,
                          .until = clock_seconds() + CONNECTION_SECONDS,
                          .next = c->first,
                          .place = &c->first};
    if (c->first)
        c->first->place = &w->next;
    c->first = w;
    c->n++;
    pthread_mutex_unlock(&c->lock);
    return w;
}

void smol_connections_remove(struct connections *c, struct watched *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&c->lock);
    *w->place = w->next;
    if (w->next)
        w->next->place = w->place;
    c->n--;
    pthread_mutex_unlock(&c->lock);
    free(w);
}

size_t smol_connections_count(struct connections *c)
{
    pthread_mutex_lock(&c->lock);
    size_t n = c->n;
    pthread_mutex_unlock(&c->lock);
    return n;
}

static void set(struct connections *c, struct watched *w, bool busy, double seconds)
{
    if (!w)
        return;
    pthread_mutex_lock(&c->lock);
    w->busy = busy;
    w->until = clock_seconds() + seconds;
    pthread_mutex_unlock(&c->lock);
}

void smol_connections_busy(struct connections *c, struct watched *w, double seconds)
{
    set(c, w, true, seconds);
}

void smol_connections_idle(struct connections *c, struct watched *w)
{
    set(c, w, false, CONNECTION_SECONDS);
}

/* Asks the system which of these have been closed by their clients. */
static void find_left(struct watched *const *items, nfds_t n, double now)
{
    struct pollfd fds[BATCH];
    for (nfds_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = items[i]->fd, .events = POLLRDHUP};
    if (poll(fds, n, 0) <= 0)
        return;
    for (nfds_t i = 0; i < n; i++)
        if (fds[i].revents && items[i]->left == 0)
            items[i]->left = now;
}

void smol_connections_sweep(struct connections *c)
{
    struct watched *batch[BATCH];
    nfds_t n = 0;
    pthread_mutex_lock(&c->lock);
    double now = clock_seconds();
    for (struct watched *w = c->first; w; w = w->next) {
        if (now > w->until || (w->left > 0 && now > w->left + LEFT_SECONDS && !w->busy))
            shutdown(w->fd, SHUT_RDWR);
        else if (!w->busy)
            batch[n++] = w;
        if (n == BATCH || (n > 0 && !w->next)) {
            find_left(batch, n, now);
            n = 0;
        }
    }
    pthread_mutex_unlock(&c->lock);
}
