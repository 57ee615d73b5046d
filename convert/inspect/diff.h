/* How two models differ, for people and scripts. */
#ifndef SMOL_CONVERT_DIFF_H
#define SMOL_CONVERT_DIFF_H

#include <stdio.h>

#include "common/error.h"

/* Describes on `out` how the models `a` and `b` differ; each is a .smol blob, a safetensors file or
 * a checkpoint's folder. Of two kinds, what both have is compared: a safetensors file has tensors
 * only, a blob's elements are taken as the numbers that they stand for. Provenances are shown but
 * do not count. Tensors are read from their mappings piece by piece, so that memory does not grow
 * with them. Errors: SMOL_ERROR_MISMATCH, without a message, when they differ; those of opening
 * either. */
smol_status smol_diff(const char *a, const char *b, FILE *out, smol_error *error);

#endif
