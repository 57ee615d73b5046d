/* From a blob's bytes back to rows: the inverse of tile.h. */
#ifndef SMOL_CONVERT_UNTILE_H
#define SMOL_CONVERT_UNTILE_H

#include <stdint.h>

#include "format/format.h"

/* Elements [col, col + n) of row `row` of the tensor whose bytes are `data`, into out[0..n): as
 * they are stored, and for int8 the product of step and scale, which f32 holds exactly. */
void smol_untile(const struct blob_tensor *layout, const uint8_t *data, uint64_t row, uint64_t col,
                 uint64_t n, float *out);

/* The step of a row's group of GROUP_INPUTS elements in an int8 matrix. */
float smol_untile_scale(const struct blob_tensor *layout, const uint8_t *data, uint64_t row,
                        uint64_t group);

#endif
