/* HTTP: connections, requests and answers, by libmicrohttpd. */
#ifndef SMOL_SMOLSERVE_HTTP_H
#define SMOL_SMOLSERVE_HTTP_H

#include "smolserve/server.h"

/* Starts the HTTP thread on a listening socket. Errors: MEMORY. */
smol_status smol_http_start(struct server *server, int listener, smol_error *error);

/* Accepts no further connections. Those that are open are served. */
void smol_http_drain(struct server *server);

/* Ends the thread. No job may be left. */
void smol_http_stop(struct server *server);

#endif
