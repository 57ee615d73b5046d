/* The caller's own allocator, see smol.h. */
#include "common/memory.h"
#include "smol.h"

void smol_set_allocator(const smol_allocator *allocator)
{
    if (!allocator) {
        smol_memory_use(NULL);
        return;
    }
    const struct memory_source source = {
        .allocate = allocator->allocate,
        .resize = allocator->resize,
        .release = allocator->release,
        .user = allocator->user,
    };
    smol_memory_use(&source);
}
