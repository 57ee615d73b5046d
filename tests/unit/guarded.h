/* Memory with an inaccessible page directly after it and one before it: an access one byte too far
 * crashes the test. */
#ifndef SMOL_TESTS_GUARDED_H
#define SMOL_TESTS_GUARDED_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/checked.h"

struct guarded {
    void *data; /* ends at the guard page, rounded down to `align` */
    void *mapping;
    size_t mapping_size;
};

static inline struct guarded guarded_new(size_t size, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = round_up(size ? size : 1, page);
    struct guarded g = {.mapping_size = inner + 2 * page};
    g.mapping =
        mmap(NULL, g.mapping_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.mapping == MAP_FAILED)
        abort();
    char *base = g.mapping;
    mprotect(base, page, PROT_NONE);
    mprotect(base + page + inner, page, PROT_NONE);
    g.data = base + page + (inner - size) / align * align;
    return g;
}

static inline void guarded_free(struct guarded *g)
{
    munmap(g->mapping, g->mapping_size);
}

#endif
