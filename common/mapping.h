/* Mapped memory that the system may fail to bring: a file that was truncated, or a disk that
 * fails, makes reading it raise SIGBUS, which ends the process. A program that wants an error
 * instead asks for the guard, once. All mappings are on a list that the guard's signal handler
 * reads; this list and the handler are all the global state there is. */
#ifndef SMOL_COMMON_MAPPING_H
#define SMOL_COMMON_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

struct mapping;

/* Puts the mapping [start, start + size), whole pages but for the last, on the list. NULL: out of
 * memory. Thread-safe, as all here. */
struct mapping *smol_mapping_add(const void *start, size_t size);

/* Takes it off the list, when it is no longer used and not yet unmapped. */
void smol_mapping_remove(struct mapping *mapping);

/* Installs a handler for SIGBUS, once for the process. Of a listed mapping that could not be read
 * it makes zeros, all of it, and notes where that was; whoever uses a mapping asks for that note
 * after each step. (All of it: a disk that takes a minute to fail must not do so page by page.) Any
 * other SIGBUS does what it did before. */
void smol_mapping_guard(void);

bool smol_mapping_is_guarded(void);

/* Whether the mapping is zeros now; *offset is what could not be read. */
bool smol_mapping_is_lost(const struct mapping *mapping, size_t *offset);

#endif
