/* Converts the weights of a checkpoint into the weights section of a blob. */
#ifndef SMOL_CONVERT_WEIGHTS_H
#define SMOL_CONVERT_WEIGHTS_H

#include <stdbool.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/blob/writer.h"
#include "convert/calibration/stats_file.h"
#include "convert/checkpoint/lora.h"
#include "convert/checkpoint/safetensors.h"
#include "convert/families/family.h"
#include "convert/weights/fold.h"
#include "convert/weights/tile.h"
#include "format/format.h"

struct weights {
    const struct family *family;
    const struct blob_model *model;
    const struct safetensors_tensor *const *sources; /* as smol_checkpoint_map pairs them */
    const struct lora_pair *lora; /* one for each source, or NULL without an adapter */
    const struct mix *mix;
    const struct stats_file *stats;         /* or NULL: each weight is rounded alone */
    const struct safetensors_tensor *types; /* its first row is added to each token; or NULL */
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

/* A tensor to convert, as f32 rows of the checkpoint with all changes made (weight.c). */
struct weight {
    const struct safetensors_tensor *source;
    struct blob_tensor layout;
    float offset;                           /* added to a vector's elements */
    const struct lora_pair *lora;           /* NULL: no adapter */
    struct fold_factors fold;               /* that its elements are multiplied by */
    const struct safetensors_tensor *added; /* its first row is added to each row; or NULL */
};

/* Returns tensor `index` of the table. `fold` may be zeroed. */
struct weight smol_weight_get(const struct weights *weights, size_t index, struct tensor_key key,
                              const struct fold *fold);

/* Returns whether the matrix is not just contiguous rows of the checkpoint. */
static inline bool weight_is_changed(const struct weight *weight)
{
    return weight->lora || weight->fold.rows || weight->fold.cols || weight->source->run > 0 ||
           weight->added;
}

/* Writes rows [row, row + n) of a matrix to rows (n, cols): the checkpoint's with the adapter
 * and `added` added, and multiplied by the factors. smol_weight_merged leaves the factors out. */
void smol_weight_rows(const struct weight *weight, uint64_t row, uint64_t n, float *rows);
void smol_weight_merged(const struct weight *weight, uint64_t row, uint64_t n, float *rows);

/* Converts a vector into out[0..layout.size), with its offset, which never makes a finite number
 * infinite, and its factors. */
struct tile_fault smol_weight_vector(const struct weight *weight, uint8_t *out);

#endif
