/* Converts the weights of a checkpoint into the weights section of a blob. */
#ifndef SMOL_CONVERT_WEIGHTS_H
#define SMOL_CONVERT_WEIGHTS_H

#include <stdbool.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/blob/writer.h"
#include "convert/calibration/stats_file.h"
#include "convert/checkpoint/family.h"
#include "convert/checkpoint/lora.h"
#include "convert/checkpoint/safetensors.h"
#include "format/format.h"

struct weights {
    const struct family *family;
    const struct blob_model *model;
    const struct safetensors_tensor *const *sources; /* as smol_checkpoint_map pairs them */
    const struct lora_pair *lora; /* one for each source, or NULL without an adapter */
    const struct mix *mix;
    const struct stats_file *stats;         /* or NULL: each weight is rounded alone */
    const struct safetensors_tensor *types; /* its first row is added to each position; or NULL */
};

/* Computes the key of the model, see format/stats.h. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_weights_key(const struct weights *weights, uint64_t *key, smol_error *error);

/* Fills *stats with diagonals that are estimated from the weights, for conversions without
 * calibration. Its header has no tokens. Free it with smol_stats_close. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_weights_estimate(const struct weights *weights, struct stats_file *stats,
                                  smol_error *error);

/* Appends the whole weights section to the blob. Shows a progress bar unless `quiet` is set. The
 * bytes, or the error, are the same for any number of threads. Uses memory for two batches (each 2
 * MiB, or one row block if that is larger) and for one row of floats per thread, 17 rows with an
 * adapter. With statistics of Gram matrices, also for one factor (convert/calibration/factor.h) and
 * 34 rows per thread. Errors: SMOL_ERROR_DAMAGED (a weight that is not finite, or not finite after
 * merging), SMOL_ERROR_UNSUPPORTED (a weight that the blob's type cannot hold), SMOL_ERROR_FILE,
 * SMOL_ERROR_MEMORY. */
smol_status smol_weights_write(const struct weights *weights, struct pool *pool,
                               struct blob_writer *writer, bool quiet, smol_error *error);

#endif
