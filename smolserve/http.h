/* HTTP: the socket, connections, requests and answers, by libmicrohttpd. */
#ifndef SMOL_SMOLSERVE_HTTP_H
#define SMOL_SMOLSERVE_HTTP_H

#include <stdio.h>

#include "smolserve/refusal.h"
#include "smolserve/server.h"

/* Starts the HTTP thread on a listening socket. Errors: MEMORY. */
smol_status smol_http_start(struct server *server, int listener, smol_error *error);

/* listen.c: the socket that the server listens on. */
struct server_socket {
    int fd;
    bool is_passed;    /* by systemd */
    char address[300]; /* http://HOST:PORT or unix:PATH, to be printed */
};

/* Accepts no further connections; those that are open are served. New ones are refused at once,
 * so that their clients can go elsewhere, and another process may listen. On a socket that systemd
 * passed they wait for the next process. */
void smol_http_drain(struct server *server, const struct server_socket *listener);

/* Ends the thread. No job may be left. */
void smol_http_stop(struct server *server);

/* pages.c: an answer to GET that needs no model: the chat page, the description of the interface,
 * health, metrics and the list of models. */
struct page {
    const char *path, *type;
    bool is_public; /* no API key is needed */
    /* A file that is a part of the program; NULL: what `write` writes. */
    const char *file;
    const uint32_t *file_size;
    /* Writes the page and returns its HTTP status, or sets the refusal and returns 0. */
    unsigned (*write)(struct server *server, const char *url, FILE *out, struct refusal *refusal);
};

/* Returns the page of a path, or NULL. */
const struct page *smol_page_find(const char *url);

/* Opens it: the one that systemd passes (sd_listen_fds(3)), a Unix socket, or TCP. A Unix socket
 * without a listener is replaced. Errors: USAGE (no such address), FILE (in use, or not
 * permitted). */
smol_status smol_listen(const struct serve_settings *settings, struct server_socket *listener,
                        smol_error *error);

#endif
