/* Converts the bytes of a blob back to rows: the inverse of tile.h. */
#ifndef SMOL_CONVERT_UNTILE_H
#define SMOL_CONVERT_UNTILE_H

#include <stdint.h>

#include "format/format.h"

/* Writes elements [col, col + n) of row `row` of the tensor whose bytes are `data` into out[0..n).
 * An int8 element is the product of step and scale, which f32 holds exactly. */
void smol_untile(const struct blob_tensor *layout, const uint8_t *data, uint64_t row, uint64_t col,
                 uint64_t n, float *out);

/* Returns the scale of a group of GROUP_INPUTS elements in a row of an int8 matrix. */
float smol_untile_scale(const struct blob_tensor *layout, const uint8_t *data, uint64_t row,
                        uint64_t group);

#endif
