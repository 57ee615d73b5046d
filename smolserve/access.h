/* Checks of requests by their headers, and API keys. */
#ifndef SMOL_SMOLSERVE_ACCESS_H
#define SMOL_SMOLSERVE_ACCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/input.h"
#include "smolserve/serve_settings.h"

struct MHD_Connection;

/* Returns whether a Host header names this server: an address, localhost, or a name that the
 * operator gave. A page in a browser whose own name leads to this address (DNS rebinding) sends
 * another one. */
bool smol_access_host(const struct serve_settings *settings, const char *host);

/* Returns what makes it unclear where the request ends or whom it is for, or NULL. A proxy that
 * reads such headers in another way would take the rest of a body for the next request, or the
 * other way round (request smuggling). `version` is that of the request line. */
const char *smol_access_ambiguity(struct MHD_Connection *connection, const char *version);

/* keys.c: API keys, which say who may send requests, and how many at a time. */
enum {
    KEYS_MAX = 1024,
    KEY_MAX_BYTES = 128, /* of a key */
    KEY_MIN_BYTES = 8,
    KEY_NAME_MAX = 32,
};

struct key {
    char name[KEY_NAME_MAX + 1];
    unsigned char secret[KEY_MAX_BYTES]; /* padded with zeros */
    unsigned limit;                      /* requests at a time, 0: any number */
    atomic_uint n_jobs;                  /* in progress */
};

struct keys {
    struct key *items; /* (n) */
    size_t n;
};

/* Reads a file with a line `NAME KEY [LIMIT]` for each key; empty lines and those that begin with #
 * are ignored. Closes the file. Errors: FILE, USAGE (a line that is none of these), MEMORY. */
smol_status smol_keys_read(struct input *file, struct keys *keys, smol_error *error);
void smol_keys_free(struct keys *keys);

/* Returns the number of the key that a client has sent (NULL: none), from 1, or 0 if it is not
 * among the keys. The time does not depend on how much of a key is right. */
size_t smol_keys_find(const struct keys *keys, const char *secret);

#endif
