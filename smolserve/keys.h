/* API keys: who may send requests, and how many at a time. */
#ifndef SMOL_SMOLSERVE_KEYS_H
#define SMOL_SMOLSERVE_KEYS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/input.h"

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

/* Returns the number of the key in an Authorization header (NULL: none), from 1, or 0 if it is not
 * among the keys. The time does not depend on how much of a key is right. */
size_t smol_keys_find(const struct keys *keys, const char *authorization);

#endif
