/* Blocks of quantized weights as GGUF files store them. */
#ifndef SMOL_CONVERT_BASE_BLOCKS_H
#define SMOL_CONVERT_BASE_BLOCKS_H

#include <stdint.h>

#include "convert/base/element.h"

enum { BLOCK_MAX_ELEMENTS = 256 };

/* Converts one block of a type that has blocks (see smol_element_block) to f32. The values are
 * those of the reference's dequantization (the Python package gguf), bit for bit: each
 * multiplication and addition is rounded by itself. The block may be unaligned. */
void smol_block_widen(enum safetensors_dtype dtype, const uint8_t *block, float *out);

#endif
