/* Reads the elements of a tensor of weights as f32, whatever its file stores. */
#ifndef SMOL_CONVERT_TENSOR_H
#define SMOL_CONVERT_TENSOR_H

#include "convert/base/element.h"
#include "convert/checkpoint/safetensors.h"

/* Returns the output of the whole tensor that row `row` is, counted from first_row. */
static inline uint64_t tensor_output(const struct safetensors_tensor *tensor, uint64_t row)
{
    if (tensor->run == 0)
        return row;
    if (tensor->piece == 0)
        return row / tensor->run * tensor->run_step + row % tensor->run;
    uint64_t n_runs = tensor->shape[0] / tensor->run, length = tensor->piece, before = 0;
    for (size_t i = 0; i < 2 && row >= tensor->piece * n_runs; i++) {
        row -= tensor->piece * n_runs;
        before += tensor->piece;
    }
    if (before == 2 * (uint64_t)tensor->piece)
        length = tensor->run - before;
    return row / length * tensor->run_step + before + row % length;
}

/* Returns whether the elements can be weights: their type can, or with scales is one of integers.
 */
static inline bool tensor_is_weight(const struct safetensors_tensor *tensor)
{
    return smol_element_is_weight(tensor->dtype) || tensor->scales;
}

/* Returns whether the elements are the weights, stored row by row. */
static inline bool tensor_is_plain(const struct safetensors_tensor *tensor)
{
    return tensor->run == 0 && tensor->heads.size == 0 && !tensor->function && !tensor->scales;
}

/* Returns whether a row's weights have the other sign than its elements. */
static inline bool tensor_negates(const struct safetensors_tensor *tensor, uint64_t row)
{
    return tensor->function == FUNCTION_TURNED && row % tensor->head_dim >= tensor->head_dim / 2;
}

/* Does what tensor_widen does, for tensors that have blocks or scales, whose rows are not stored
 * one after the other, or whose elements are a function of the weights. */
void smol_tensor_decode(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n,
                        float *out);

/* Converts elements [start, start + n) of the tensor, in row-major order, to f32. It must be
 * one of weights. Inline, so that each caller compiles the common types for its own instruction
 * set. */
static inline void tensor_widen(const struct safetensors_tensor *tensor, uint64_t start, uint64_t n,
                                float *out)
{
    if (!tensor_is_plain(tensor) || smol_element_block(tensor->dtype).elements > 1)
        smol_tensor_decode(tensor, start, n, out);
    else
        element_widen(tensor->dtype, tensor->data, start, n, out);
}

#endif
