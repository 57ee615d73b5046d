/* Memory allocation, see memory.h. */
#include "common/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ZEROS_ALIGN = 64, FILE_ALIGN = 64 };

static struct memory_source source; /* all zeros: the C library */

void smol_memory_use(const struct memory_source *wanted)
{
    source = wanted ? *wanted : (struct memory_source){0};
}

static void *allocate(size_t alignment, size_t size)
{
    return source.allocate(source.user, alignment, size > 0 ? size : 1);
}

void *smol_malloc(size_t size)
{
    return source.allocate ? allocate(_Alignof(max_align_t), size) : malloc(size);
}

void *smol_calloc(size_t n, size_t size)
{
    size_t total;
    if (!source.allocate)
        return calloc(n, size);
    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    void *memory = smol_malloc(total);
    return memory ? memset(memory, 0, total) : NULL;
}

void *smol_realloc(void *memory, size_t size)
{
    if (!source.allocate)
        return realloc(memory, size);
    return memory ? source.resize(source.user, memory, size > 0 ? size : 1) : smol_malloc(size);
}

void *smol_reallocarray(void *memory, size_t n, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? NULL : smol_realloc(memory, total);
}

bool smol_resize(void *items, size_t n, size_t size)
{
    void *array;
    memcpy(&array, items, sizeof array); /* a pointer of any type */
    array = smol_reallocarray(array, n, size);
    if (array)
        memcpy(items, &array, sizeof array);
    return array;
}

bool smol_grow(void *items, size_t n, size_t *capacity, size_t size)
{
    size_t larger = *capacity ? 2 * *capacity : 64;
    if (n < *capacity)
        return true;
    if (!smol_resize(items, larger, size))
        return false;
    *capacity = larger;
    return true;
}

void *smol_aligned_alloc(size_t alignment, size_t size)
{
    if (source.allocate)
        return allocate(alignment, size);
    size_t rest = size % alignment; /* C11 requires multiples of the alignment */
    if (rest > 0 && __builtin_add_overflow(size, alignment - rest, &size))
        return NULL;
    return aligned_alloc(alignment, size);
}

void *smol_file_alloc(size_t size)
{
    if (source.allocate || size < 4 * HUGE_PAGE)
        return smol_aligned_alloc(FILE_ALIGN, size);
    void *memory = smol_aligned_alloc(HUGE_PAGE, size);
    if (memory)
        madvise(memory, size, MADV_HUGEPAGE); /* if it fails, the pages are small */
    return memory;
}

char *smol_strdup(const char *text)
{
    return smol_strndup(text, strlen(text));
}

char *smol_strndup(const char *text, size_t n)
{
    size_t size = strnlen(text, n);
    char *copy = smol_malloc(size + 1);
    if (!copy)
        return NULL;
    copy[size] = '\0';
    return memcpy(copy, text, size);
}

void smol_free(void *memory)
{
    if (!source.allocate)
        free(memory);
    else if (memory)
        source.release(source.user, memory);
}

void *smol_zeros_new(size_t size)
{
    if (source.allocate) {
        void *memory = allocate(ZEROS_ALIGN, size);
        return memory ? memset(memory, 0, size) : NULL;
    }
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void smol_zeros_fill_huge(void *memory, size_t size)
{
    enum { COLLAPSE = 25 }; /* MADV_COLLAPSE of Linux 6.1, which older headers do not define */
    if (source.allocate || size < HUGE_PAGE)
        return;
    madvise(memory, size, MADV_HUGEPAGE);
    madvise(memory, size, COLLAPSE);
}

void smol_zeros_free(void *memory, size_t size)
{
    if (source.allocate)
        source.release(source.user, memory);
    else
        munmap(memory, size);
}
