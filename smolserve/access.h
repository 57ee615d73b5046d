/* Access checks of requests: the Host header, and the API key. */
#ifndef SMOL_SMOLSERVE_ACCESS_H
#define SMOL_SMOLSERVE_ACCESS_H

#include "smolserve/server.h"

/* Returns whether a Host header names this server: an address, localhost, or a name that the
 * operator gave. A page in a browser whose own name leads to this address (DNS rebinding) sends
 * another one. */
bool smol_access_host(const struct serve_settings *settings, const char *host);

#endif
