/* Converts the rows of a checkpoint to the bytes that the kernels read: widens, quantizes and tiles
 * one block of TILE_ROWS rows at a time (format/FORMAT.md, "Tensors"). */
#ifndef SMOL_CONVERT_TILE_H
#define SMOL_CONVERT_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"
#include "format/layout.h"

/* The first element of a tensor that cannot be converted: its flat index, and the reason. */
struct tile_fault {
    smol_status status; /* SMOL_OK: no fault */
    uint64_t index;
    float value;
    const char *reason;
};

/* Converts rows [row, min(row + TILE_ROWS, layout->rows)) of a matrix into out, which has room for
 * smol_block_bytes(layout->dtype, layout->cols). `scratch` holds `cols` floats. Uses AVX2 if the
 * processor has it; the bytes are the same. */
typedef struct tile_fault tile_block(const struct safetensors_tensor *source,
                                     const struct blob_tensor *layout, uint64_t row, float *scratch,
                                     uint8_t *out);
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

/* Converts a vector into out[0..layout->size). */
struct tile_fault smol_tile_vector(const struct safetensors_tensor *source,
                                   const struct blob_tensor *layout, uint8_t *out);

#endif
