/* The inputs of a matrix as statistics describe them: which record, and what follows from it for
 * rounding the matrix. */
#ifndef SMOL_CONVERT_INPUTS_H
#define SMOL_CONVERT_INPUTS_H

#include "common/error.h"
#include "common/pool.h"
#include "convert/calibration/factor.h"
#include "convert/calibration/stats_file.h"
#include "convert/weights/fold.h"

#define NO_RECORD SIZE_MAX

/* Matrices of one record, or the parts of a matrix, follow each other in the tensor table, so one
 * record is kept. */
struct inputs {
    const struct stats_file *stats; /* or NULL: nothing is known */
    struct fold fold;
    size_t record;       /* the current one, or NO_RECORD */
    const float *values; /* its elements */
    float *importance; /* (widest record): the mean square of each folded input, damped, relative to
                          the largest */
    struct factor factor; /* of the folded inputs, if the statistics are Gram matrices */
};

/* Prepares the statistics of a model, or nothing if they are NULL. Both must outlive the inputs.
 * Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_inputs_open(struct inputs *inputs, const struct stats_file *stats,
                             const struct blob_model *model, smol_error *error);

/* Returns the number of equal parts, of neighbouring rows, that a matrix consists of. Each has
 * inputs of its own: those of a head. */
uint32_t smol_inputs_parts(const struct blob_model *model, uint32_t role);

/* Returns the number of the record that describes the inputs of a row of a matrix, or NO_RECORD:
 * there are no statistics, or it is an embedding that is not the output layer too. An expert that
 * no token has reached takes the inputs of all tokens for its own, and nothing is known of its
 * activations. */
size_t smol_inputs_record(const struct inputs *inputs, const struct blob_tensor *layout,
                          const struct blob_model *model, uint64_t row);

/* Makes a record the current one, unless it is. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_inputs_load(struct inputs *inputs, size_t record, struct pool *pool,
                             smol_error *error);

/* Frees everything. Zeroed inputs are allowed. */
void smol_inputs_close(struct inputs *inputs);

#endif
