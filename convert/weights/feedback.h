/* Quantizes row blocks with error feedback: inputs are rounded in order, and each makes up for the
 * errors of those before it (convert/calibration/factor.h). The scale of a group is chosen when all
 * earlier errors are known. */
#ifndef SMOL_CONVERT_FEEDBACK_H
#define SMOL_CONVERT_FEEDBACK_H

#include "convert/weights/tile.h"

/* Returns the floats that smol_feedback_block needs as scratch for `cols` inputs. */
uint64_t smol_feedback_scratch(uint64_t cols);

/* Does the same as smol_tile_block, with rule->factor, for an int6, int5 or int4 matrix. The bytes
 * are the same for every instruction set. */
tile_block smol_feedback_block;

/* Adds to the targets (n_columns, TILE_ROWS) of further inputs what n errors (n, TILE_ROWS) cause,
 * in the order of the errors: targets[k] += errors[j] * u[j * stride + k]. */
typedef void feedback_update(const float *u, size_t stride, const float *errors, size_t n,
                             float *targets, size_t n_columns);
feedback_update smol_feedback_update_baseline;
#if defined(__x86_64__)
feedback_update smol_feedback_update_avx2;
feedback_update smol_feedback_update_avx512;
#endif

#endif
