/* Answers to GET that need no model: the chat page, the description of the interface, health,
 * metrics and the list of models. */
#ifndef SMOL_SMOLSERVE_PAGES_H
#define SMOL_SMOLSERVE_PAGES_H

#include "smolserve/server.h"

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

#endif
