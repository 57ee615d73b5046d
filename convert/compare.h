/* Whether a blob is what a conversion makes: the conversion's bytes against those of an open blob,
 * whose digests have been checked. Each of these returns SMOL_ERROR_MISMATCH with the first
 * difference. */
#ifndef SMOL_CONVERT_COMPARE_H
#define SMOL_CONVERT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "convert/blob/writer.h"
#include "format/reader.h"

/* All that is known before the first weight, but for the provenance. Afterwards blob and conversion
 * have the same size, and everything has the same place in both, if the provenance is as long. */
smol_status smol_compare_contents(const struct blob *blob, const struct blob_contents *made,
                                  smol_error *error);

/* A blob_put whose target is a const struct blob. */
blob_put smol_compare_bytes;

/* The blob's provenance with made[0..size), which may name another release: *same_release. */
smol_status smol_compare_provenance(const struct blob *blob, const char *made, size_t size,
                                    bool *same_release, smol_error *error);

#endif
