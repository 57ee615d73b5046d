/* The bundled model's blob in a temporary folder. Each file that includes this has its own. */
#ifndef SMOL_TESTS_UNIT_DEMO_BLOB_H
#define SMOL_TESTS_UNIT_DEMO_BLOB_H

#include "convert/convert.h"
#include "tests/unit/temporary.h"

static struct temporary folder;
static char demo_blob[128]; /* path of the blob */

/* Converts the bundled model to `dtype` and writes the blob's path to `path` (128). */
static inline int convert_demo(enum blob_dtype dtype, char *path)
{
    const struct convert_options options = {.dtype = dtype, .n_threads = 2, .quiet = true};
    smol_error error;
    snprintf(path, 128, "%s/demo-%d.smol", folder.folder, (int)dtype);
    return smol_convert("demo/model", path, &options, &error);
}

static inline int make_demo_blob(void **state)
{
    (void)state;
    temporary_make(&folder);
    return convert_demo(DTYPE_INT8, demo_blob);
}

static inline int remove_demo_blob(void **state)
{
    (void)state;
    temporary_remove(&folder);
    return 0;
}

#endif
