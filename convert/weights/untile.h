/* Converts the bytes of a blob back to rows: the inverse of tile.h. */
#ifndef SMOL_CONVERT_UNTILE_H
#define SMOL_CONVERT_UNTILE_H

#include <stdint.h>

#include "format/format.h"

/* Writes elements [col, col + n) of row `row` of the tensor whose bytes are `data` into out[0..n).
 * An element of a grouped dtype is the product of step or level and scale, which f32 holds exactly.
 * `levels` is the table of an int6, int5 or int4 matrix; otherwise it is not used. */
void smol_untile(const struct blob_tensor *layout, const int8_t *levels, const uint8_t *data,
                 uint64_t row, uint64_t col, uint64_t n, float *out);

/* Returns the scale of a group of GROUP_INPUTS elements in a row of a grouped dtype. */
float smol_untile_scale(const struct blob_tensor *layout, const uint8_t *data, uint64_t row,
                        uint64_t group);

#endif
