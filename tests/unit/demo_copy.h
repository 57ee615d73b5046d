/* The bundled model's blob, and a copy that tests can modify. Each file that includes this has its
 * own. Repairing the digests leaves the modification as the only fault. */
#ifndef SMOL_TESTS_UNIT_DEMO_COPY_H
#define SMOL_TESTS_UNIT_DEMO_COPY_H

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/file.h"
#include "tests/repair.h"
#include "tests/unit/demo_blob.h"

static smol_error error;
static struct file_view original; /* bytes of the file */
static uint8_t *copy;             /* (original.size), aligned to 64 */

static int make_demo_copy(void **state)
{
    if (make_demo_blob(state) || smol_file_read(demo_blob, SIZE_MAX, &original, &error))
        return -1;
    copy = aligned_alloc(64, round_up(original.size, 64));
    return copy ? 0 : -1;
}

static int remove_demo_copy(void **state)
{
    free(copy);
    smol_file_close(&original);
    return remove_demo_blob(state);
}

static int restore(void **state)
{
    (void)state;
    memcpy(copy, original.data, original.size);
    return 0;
}

static inline struct blob_header *header(void)
{
    return (void *)copy;
}

/* The section table: model, inv_freq, stop, generation, provenance, tensors, digests, template,
 * tokenizer, weights. */
static inline struct blob_section *sections(void)
{
    return (void *)(copy + sizeof(struct blob_header));
}

static inline void repair_digests(void)
{
    repair_blob(copy, original.size, header()->data_offset, sections()[6].offset);
}

#endif
