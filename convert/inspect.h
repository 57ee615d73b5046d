/* What is in a file, for people. */
#ifndef SMOL_CONVERT_INSPECT_H
#define SMOL_CONVERT_INSPECT_H

#include <stdio.h>

#include "common/error.h"

/* Describes `path`, a .smol blob or a safetensors file, on `out`: settings, tensors, sizes. */
enum status smol_inspect(const char *path, FILE *out, struct error *error);

#endif
