/* Weights that a tool has quantized, as numbers of 8 bits and scales beside them: X.weight, and
 * X.weight_scale or X.weight_scale_inv. A weight is the product of its number and its scale. */
#ifndef SMOL_CONVERT_SCALES_H
#define SMOL_CONVERT_SCALES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"

/* The rules in quantization_config of config.json. */
struct scale_rules {
    bool scaled;       /* there is one */
    bool has_integers; /* weights may be I8 */
    uint32_t block[2]; /* rows and columns that share a scale; 0: as the shapes tell */
};

/* Gives each tensor of a joined table its scales, and removes these and those of activations and
 * of keys and values, which smol does not use, from the table. Does nothing without
 * quantization_config. Errors: SMOL_ERROR_DAMAGED (scales that are missing, or whose shape does not
 * fit), SMOL_ERROR_UNSUPPORTED (a type), SMOL_ERROR_MEMORY. */
smol_status smol_scales_attach(const struct scale_rules *rules, struct safetensors *all,
                               smol_error *error);

enum { QUANTIZED_TEXT = 512 }; /* room for all types, whatever their counts */

/* Writes "211 of 272 tensors: 166 Q5_0, 45 Q4_K": the tensors that were quantized already, in
 * blocks or with scales. Writes nothing if there are none. */
void smol_scales_describe(const struct safetensors *all, char text[QUANTIZED_TEXT]);

#endif
