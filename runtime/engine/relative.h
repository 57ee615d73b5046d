/* Attention of an encoder in which the distance between query and key adds a number to the score.
 * FORMAT.md, 5.1, defines it. */
#ifndef SMOL_RUNTIME_RELATIVE_H
#define SMOL_RUNTIME_RELATIVE_H

#include <stddef.h>

#include "common/error.h"

struct engine;
struct worker;

/* Returns the bucket, 0 to RELATIVE_BUCKETS - 1, of a query at one position and a key at another:
 * the row of the table of ROLE_RELATIVE. */
size_t smol_relative_bucket(size_t query, size_t key);

/* Allocates an engine's working memory, if its model needs it. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_relative_init(struct engine *engine, smol_error *error);

/* Returns the number of bytes allocated. */
size_t smol_relative_bytes(const struct engine *engine);

/* Computes the attention of all rows, as one stage: engine->query, in place of the queries.
 * Queries, keys and values are in the engine; nothing is in the caches. */
void smol_relative_attend(const struct worker *w);

#endif
