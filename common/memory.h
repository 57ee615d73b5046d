/* The source of all memory of the library: the C library, or the functions that the program passes
 * to smol_set_allocator (smol.h). No other code in libsmol calls malloc and related functions;
 * scripts/check-symbols verifies this.
 *
 * The functions have the meaning of those of the C library: they return NULL if memory runs out,
 * and memory of size 0 may be NULL too. A program that passes no functions, such as smolrun and
 * smolconv, may mix the two. */
#ifndef SMOL_COMMON_MEMORY_H
#define SMOL_COMMON_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* The members of smol_allocator, documented there. */
struct memory_source {
    void *(*allocate)(void *user, size_t alignment, size_t size);
    void *(*resize)(void *user, void *memory, size_t size);
    void (*release)(void *user, void *memory);
    void *user;
};

/* Selects the source of memory; NULL selects the C library. The caller must hold no memory of the
 * library, and no other thread may be using it. */
void smol_memory_use(const struct memory_source *source);

/* Also part of smol.h, so not hidden. */
__attribute__((visibility("default"))) void smol_free(void *memory);

/* Informs gcc's analyzer which function frees the memory, so that it finds leaks; clang has no such
 * attribute. */
#if defined(__GNUC__) && !defined(__clang__)
#define FREED_WITH_SMOL_FREE __attribute__((malloc(smol_free, 1)))
#else
#define FREED_WITH_SMOL_FREE
#endif

/* Bytes of a huge page on most systems. Weights in huge pages are read faster: each of them needs
 * one translation of addresses instead of 512. */
enum { HUGE_PAGE = 2 << 20 };

FREED_WITH_SMOL_FREE void *smol_malloc(size_t size);
FREED_WITH_SMOL_FREE void *smol_calloc(size_t n, size_t size);
FREED_WITH_SMOL_FREE void *smol_aligned_alloc(size_t alignment, size_t size); /* any size */
/* Allocates memory for the contents of a file, aligned to 64 bytes; with the C library, in huge
 * pages where the system has them. */
FREED_WITH_SMOL_FREE void *smol_file_alloc(size_t size);
FREED_WITH_SMOL_FREE char *smol_strdup(const char *text);
FREED_WITH_SMOL_FREE char *smol_strndup(const char *text, size_t n);
void *smol_realloc(void *memory, size_t size); /* not for memory of smol_aligned_alloc */
void *smol_reallocarray(void *memory, size_t n, size_t size);

/* Gives an array room for n elements of `size` bytes. `items` points at the pointer to the array,
 * which may be NULL; RESIZE takes the pointer itself. Returns false if memory runs out: then the
 * array is as it was. */
bool smol_resize(void *items, size_t n, size_t size);
#define RESIZE(items, n) smol_resize(&(items), n, sizeof *(items))

/* Gives an array of n elements room for one more, and doubles *capacity if it is full. Otherwise
 * like smol_resize. */
bool smol_grow(void *items, size_t n, size_t *capacity, size_t size);
#define GROW(items, n, capacity) smol_grow(&(items), n, capacity, sizeof *(items))

/* Allocate and free zeros, aligned to 64 bytes, of which most may never be written: with the C
 * library, the system provides pages at their first use. Freeing requires the size. */
void *smol_zeros_new(size_t size);
void smol_zeros_free(void *memory, size_t size);

/* Puts zeros that will all be written, or that all have been, into huge pages if possible. */
void smol_zeros_fill_huge(void *memory, size_t size);

#endif
