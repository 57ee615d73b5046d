/* A tensor to convert, as f32 rows of the checkpoint with all changes made. */
#ifndef SMOL_CONVERT_WEIGHT_H
#define SMOL_CONVERT_WEIGHT_H

#include "convert/weights/fold.h"
#include "convert/weights/tile.h"
#include "convert/weights/weights.h"

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
    return weight->lora || weight->fold.rows || weight->fold.cols || weight->source->run > 0;
}

/* Writes rows [row, row + n) of a matrix to rows (n, cols): the checkpoint's with the adapter
 * added, and multiplied by the factors. smol_weight_merged leaves the factors out. */
void smol_weight_rows(const struct weight *weight, uint64_t row, uint64_t n, float *rows);
void smol_weight_merged(const struct weight *weight, uint64_t row, uint64_t n, float *rows);

/* Converts a vector into out[0..layout.size), with its offset, which never makes a finite number
 * infinite, and its factors. */
struct tile_fault smol_weight_vector(const struct weight *weight, uint8_t *out);

#endif
