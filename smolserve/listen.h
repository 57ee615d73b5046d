/* The socket that the server listens on. */
#ifndef SMOL_SMOLSERVE_LISTEN_H
#define SMOL_SMOLSERVE_LISTEN_H

#include "smolserve/serve_settings.h"

struct listener {
    int fd;
    char address[300]; /* http://HOST:PORT or unix:PATH, to be printed */
};

/* Opens the socket: one that systemd passes (sd_listen_fds(3)), a Unix socket, or TCP. A Unix
 * socket without a listener is replaced. Errors: USAGE (no such address), FILE (in use, or not
 * permitted). */
smol_status smol_listen(const struct serve_settings *settings, struct listener *listener,
                        smol_error *error);

#endif
