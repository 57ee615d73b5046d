/* Splits tensors that hold several matrices, and turns transposed ones. */
#ifndef SMOL_CONVERT_FUSED_H
#define SMOL_CONVERT_FUSED_H

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"
#include "convert/families/family.h"
#include "format/format.h"

/* Replaces each fused tensor by its parts, under the family's names for their roles, and marks
 * tensors whose weights are a function of their elements. Changes nothing if the family has
 * neither. Names that lack the family's prefix get it, and the numbers of encoders' LayerNorms
 * today's names. `all` must come from smol_safetensors_join. Errors: SMOL_ERROR_DAMAGED (a fused
 * tensor that is missing, or whose shape the model does not allow), SMOL_ERROR_MEMORY. */
smol_status smol_fused_split(const struct family *family, const struct blob_model *model,
                             struct safetensors *all, smol_error *error);

#endif
