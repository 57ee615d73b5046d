/* Compares the bytes of a conversion with those of an open blob, whose digests have been checked.
 * The functions return SMOL_ERROR_MISMATCH with the first difference. */
#ifndef SMOL_CONVERT_COMPARE_H
#define SMOL_CONVERT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "convert/blob/writer.h"
#include "format/reader.h"

/* Compares everything that precedes the weights, except the provenance. After success, blob and
 * conversion have the same size and layout if their provenances have the same length. */
smol_status smol_compare_contents(const struct blob *blob, const struct blob_contents *made,
                                  smol_error *error);

/* Compares bytes: a blob_put whose target is a const struct blob. */
blob_put smol_compare_bytes;

/* Compares the blob's provenance with made[0..size). The releases may differ; *same_release is set
 * to whether they are the same. */
smol_status smol_compare_provenance(const struct blob *blob, const char *made, size_t size,
                                    bool *same_release, smol_error *error);

#endif
