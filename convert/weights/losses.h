/* The loss of each matrix in each dtype: the expected divergence of the model's predictions, in
 * nats, when that matrix alone is rounded. The divergence of several is about the sum of theirs. */
#ifndef SMOL_CONVERT_LOSSES_H
#define SMOL_CONVERT_LOSSES_H

#include "convert/weights/weights.h"

/* The dtypes to choose from, from the smallest on. */
enum { N_CHOICES = 4 };
extern const enum blob_dtype smol_choices[N_CHOICES];

struct dtype_losses {
    double nats[N_CHOICES]; /* 0 for vectors and a tied output, whose loss is the embedding's */
};

/* Fills losses[0..smol_tensor_count) from the sensitivities in weights->stats. A matrix's squared
 * error is measured on some of its row blocks, and compared with that of the rounding whose
 * divergence the statistics tell. The results are the same bits for any number of threads and any
 * instruction set. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_losses_measure(const struct weights *weights, struct pool *pool,
                                struct dtype_losses *losses, smol_error *error);

#endif
