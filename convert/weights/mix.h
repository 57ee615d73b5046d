/* The storage of the matrices of a blob: a dtype for each. */
#ifndef SMOL_CONVERT_MIX_H
#define SMOL_CONVERT_MIX_H

#include "common/error.h"
#include "format/layout.h"
#include "format/reader.h"

/* Fills *mix for a conversion to `dtype`. For int4, the embedding and the output are int6, for int5
 * and int6 they are int8, because they lose more by coarse steps than the layers do. The mix is
 * zeroed for other dtypes, whose matrices are alike. Free it with smol_mix_free. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_mix_make(const struct blob_model *model, enum blob_dtype dtype, struct mix *mix,
                          smol_error *error);

/* Fills *mix as in an open blob; zeroed for one without FEATURE_MIXED. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_mix_copy(const struct blob *blob, struct mix *mix, smol_error *error);

/* Frees a mix made by these functions and zeroes it. A zeroed one is allowed. */
void smol_mix_free(struct mix *mix);

#endif
