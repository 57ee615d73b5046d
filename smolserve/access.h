/* Checks of requests by their headers. */
#ifndef SMOL_SMOLSERVE_ACCESS_H
#define SMOL_SMOLSERVE_ACCESS_H

#include "smolserve/server.h"

struct MHD_Connection;

/* Returns whether a Host header names this server: an address, localhost, or a name that the
 * operator gave. A page in a browser whose own name leads to this address (DNS rebinding) sends
 * another one. */
bool smol_access_host(const struct serve_settings *settings, const char *host);

/* Returns what makes it unclear where the request ends or whom it is for, or NULL. A proxy that
 * reads such headers in another way would take the rest of a body for the next request, or the
 * other way round (request smuggling). `version` is that of the request line. */
const char *smol_access_ambiguity(struct MHD_Connection *connection, const char *version);

#endif
