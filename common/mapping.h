/* Mapped memory that the system may fail to read. Reading a file that was truncated, or that is on
 * a failing disk, raises SIGBUS, which ends the process. A program that prefers an error installs
 * the guard once. The guard's signal handler reads a list of all mappings. This list and the
 * handler are the only global state. */
#ifndef SMOL_COMMON_MAPPING_H
#define SMOL_COMMON_MAPPING_H

#include <stdbool.h>
#include <stddef.h>

struct mapping;

/* Adds the mapping [start, start + size), whole pages except the last, to the list. Returns NULL if
 * memory runs out. Thread-safe, as are all functions here. */
struct mapping *smol_mapping_add(const void *start, size_t size);

/* Removes a mapping from the list. Call it after the last use and before unmapping. */
void smol_mapping_remove(struct mapping *mapping);

/* Installs a handler for SIGBUS, once for the process. The handler replaces a listed mapping that
 * could not be read with zeros and records the offset; users of a mapping check that record after
 * each step. It replaces the whole mapping, because a disk that takes a minute to fail must not do
 * so for each page. Any other SIGBUS has the same effect as before. */
void smol_mapping_guard(void);

bool smol_mapping_is_guarded(void);

/* Returns whether the mapping was replaced with zeros. Sets *offset to the offset that could not be
 * read. */
bool smol_mapping_is_lost(const struct mapping *mapping, size_t *offset);

#endif
