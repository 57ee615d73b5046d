/* Where all memory of the library comes from: the C library, unless the program that the library is
 * part of brings functions of its own (smol_set_allocator in smol.h). Nothing else in libsmol calls
 * malloc and its kind; scripts/check-symbols looks.
 *
 * The functions are those of the C library in meaning: NULL when there is no memory, and memory of
 * size 0 may be NULL too. A program that brings none, as both of ours, may mix the two. */
#ifndef SMOL_COMMON_MEMORY_H
#define SMOL_COMMON_MEMORY_H

#include <stddef.h>

/* The fields of smol_allocator, which describes them. */
struct memory_source {
    void *(*allocate)(void *user, size_t alignment, size_t size);
    void *(*resize)(void *user, void *memory, size_t size);
    void (*release)(void *user, void *memory);
    void *user;
};

/* From now on memory comes from there; NULL: from the C library. Nobody may hold memory of the
 * library, and no other thread may be in it. */
void smol_memory_use(const struct memory_source *source);

/* Part of smol.h too, hence not hidden. */
__attribute__((visibility("default"))) void smol_free(void *memory);

/* Tells gcc's analyzer what frees the memory, so that it finds leaks; clang has no such attribute.
 */
#if defined(__GNUC__) && !defined(__clang__)
#define FREED_WITH_SMOL_FREE __attribute__((malloc(smol_free, 1)))
#else
#define FREED_WITH_SMOL_FREE
#endif

FREED_WITH_SMOL_FREE void *smol_malloc(size_t size);
FREED_WITH_SMOL_FREE void *smol_calloc(size_t n, size_t size);
FREED_WITH_SMOL_FREE void *smol_aligned_alloc(size_t alignment, size_t size); /* any size */
FREED_WITH_SMOL_FREE char *smol_strdup(const char *text);
FREED_WITH_SMOL_FREE char *smol_strndup(const char *text, size_t n);
void *smol_realloc(void *memory, size_t size); /* not of smol_aligned_alloc's */
void *smol_reallocarray(void *memory, size_t n, size_t size);

/* Zeros, aligned to 64 bytes, of which there may be many more than are ever written: the system
 * gives the C library's only as they are. The size is wanted when they are freed. */
void *smol_zeros_new(size_t size);
void smol_zeros_free(void *memory, size_t size);

#endif
