/* Checkpoints that keep several matrices in one tensor, row under row. */
#ifndef SMOL_CONVERT_FUSED_H
#define SMOL_CONVERT_FUSED_H

#include "common/error.h"
#include "convert/checkpoint/family.h"
#include "convert/checkpoint/safetensors.h"
#include "format/format.h"

/* Replaces each tensor that the family fuses by its parts, under the names that the family has for
 * their roles; a family that fuses none changes nothing. `all` is a table that
 * smol_safetensors_join made. Errors: SMOL_ERROR_DAMAGED (missing, or not in the shape that the
 * model calls for), SMOL_ERROR_MEMORY. */
smol_status smol_fused_split(const struct family *family, const struct blob_model *model,
                             struct safetensors *all, smol_error *error);

#endif
