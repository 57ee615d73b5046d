/* Converts the rows of a checkpoint to the bytes that the kernels read: widens, quantizes and tiles
 * one block of TILE_ROWS rows at a time (format/FORMAT.md, "Tensors"). */
#ifndef SMOL_CONVERT_TILE_H
#define SMOL_CONVERT_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/calibration/factor.h"
#include "convert/checkpoint/tensor.h"
#include "convert/weights/mix.h"
#include "format/layout.h"

/* The first element of a tensor that cannot be converted: its flat index, and the reason. */
struct tile_fault {
    smol_status status; /* SMOL_OK: no fault */
    uint64_t index;
    float value;
    const char *reason;
};

/* How the groups of an int6, int5 or int4 matrix are quantized. */
struct tile_rule {
    const struct level_search *levels;
    /* (cols): the weight of each input's squared error, from 0 to 1; NULL: all are alike */
    const float *importance;
    const struct factor
        *factor; /* of the inputs, for error feedback; NULL: each is rounded alone */
};

/* Converts rows [row, min(row + TILE_ROWS, layout->rows)) of a matrix into out, which has room for
 * smol_block_bytes(layout->dtype, layout->cols). `rule` may be NULL for other dtypes than int6,
 * int5 and int4. `scratch` holds `cols` floats, or with rule->factor as many as
 * smol_feedback_scratch returns. Uses AVX2 if the processor has it; the bytes are the same. */
typedef struct tile_fault tile_block(const struct safetensors_tensor *source,
                                     const struct blob_tensor *layout, const struct tile_rule *rule,
                                     uint64_t row, float *scratch, uint8_t *out);
tile_block smol_tile_block;

/* smol_tile_block for one instruction set, also called by tests. */
tile_block smol_tile_block_baseline;
#if defined(__x86_64__)
tile_block smol_tile_block_avx2; /* requires a processor with AVX2 */
#endif

/* Writes into out[0..n) the values that an int8 blob would hold for values[0..n). The values must
 * be finite and start at a group of a row. Returns false if a group is too large for int8's scales.
 * The results are the same for every instruction set. */
typedef bool tile_round_trip(const float *values, uint64_t n, float *out);
tile_round_trip smol_tile_round_trip;

/* smol_tile_round_trip for one instruction set. */
tile_round_trip smol_tile_round_trip_baseline;
#if defined(__x86_64__)
tile_round_trip smol_tile_round_trip_avx2;
#endif

/* Returns the f16 scale with which the levels represent a group of GROUP_INPUTS finite values best:
 * with the least sum of importance * (value - level * scale)^2 among the scales that are tried.
 * `importance` (GROUP_INPUTS), from 0 to 1, may be NULL. Returns 0 if no scale is better than zeros
 * are. The result is the same for every instruction set. */
typedef uint16_t group_scale(const struct level_search *search, const float *values,
                             const float *importance);
group_scale smol_group_scale;

/* Sets `codes` to those of the levels nearest to the GROUP_INPUTS values / scale, see
 * nearest_code. */
typedef void group_codes(const struct level_search *search, const float *values, float scale,
                         uint8_t *codes);

/* smol_group_scale, and the same of codes, for one instruction set. */
group_scale smol_group_scale_baseline;
group_codes smol_group_codes_baseline;
#if defined(__x86_64__)
group_scale smol_group_scale_avx2;
group_codes smol_group_codes_avx2;
#endif

/* Returns the first of values[0..n) that int6, int5 and int4 cannot hold as a fault; `start` is the
 * index of the first value. */
struct tile_fault smol_tile_check(const float *values, uint64_t n, uint64_t start);

/* Converts a vector into out[0..layout->size). */
struct tile_fault smol_tile_vector(const struct safetensors_tensor *source,
                                   const struct blob_tensor *layout, uint8_t *out);

#endif
