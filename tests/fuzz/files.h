/* Files for code that takes paths: in a folder of their own, in memory where that exists. */
#ifndef SMOL_TESTS_FUZZ_FILES_H
#define SMOL_TESTS_FUZZ_FILES_H

#include <stdbool.h>

#include "tests/fuzz/build.h"

/* The folder, made by the first call and removed with all in it when the process ends. */
const char *fuzz_folder(void);

/* The path of `name` in the folder; valid until the fourth next call. */
const char *fuzz_path(const char *name);

/* Writes data[0..size) to `name` in the folder and returns its path, as above. */
const char *fuzz_write(const char *name, const void *data, size_t size);

/* Returns the bytes of file `name`; `data` is NULL when it does not exist. The caller frees it. */
struct built fuzz_read(const char *name);

/* Removes `name` if it exists; says whether it did. */
bool fuzz_remove(const char *name);

#endif
