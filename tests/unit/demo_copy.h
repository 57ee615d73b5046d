/* The bundled model's blob, and a copy of it for tests to change; one of each file that includes
 * this. Digests can be made right again, so that nothing but the change gives it away. */
#ifndef SMOL_TESTS_UNIT_DEMO_COPY_H
#define SMOL_TESTS_UNIT_DEMO_COPY_H

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/file.h"
#include "common/hash.h"
#include "tests/unit/demo_blob.h"

static struct error error;
static struct file_view original; /* the file's bytes */
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
    uint64_t *digests = (void *)(copy + sections()[6].offset);
    for (uint64_t at = header()->data_offset; at < original.size; at += BLOB_CHUNK_SIZE) {
        uint64_t rest = original.size - at;
        *digests++ = smol_digest(copy + at, rest < BLOB_CHUNK_SIZE ? rest : BLOB_CHUNK_SIZE);
    }
    header()->front_digest = smol_digest(copy + 16, header()->data_offset - 16);
}

#endif
