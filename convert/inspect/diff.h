/* Compares two models, for people and scripts. */
#ifndef SMOL_CONVERT_DIFF_H
#define SMOL_CONVERT_DIFF_H

#include <stdio.h>

#include "common/error.h"

/* Prints the differences between the models `a` and `b` on `out`; each is a .smol blob, a
 * safetensors file or a checkpoint's folder. For different kinds, compares the parts that both
 * have: a safetensors file has only tensors, and a blob's elements are compared as the numbers that
 * they represent. Provenances are shown but do not count as differences. Tensors are read in pieces
 * from their mappings, so memory does not grow with their size. Errors: SMOL_ERROR_MISMATCH,
 * without a message, if the models differ; the errors of opening either. */
smol_status smol_diff(const char *a, const char *b, FILE *out, smol_error *error);

#endif
