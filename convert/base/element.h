/* The element types of checkpoints, and their conversion to f32. */
#ifndef SMOL_CONVERT_BASE_ELEMENT_H
#define SMOL_CONVERT_BASE_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/number.h"
#include "format/layout.h"

/* The element types of safetensors files, some smaller than a byte, and those of GGUF files that
 * store blocks of elements. */
enum safetensors_dtype {
    ST_BOOL,
    ST_F4,
    ST_F6_E2M3,
    ST_F6_E3M2,
    ST_U8,
    ST_I8,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_F8_E8M0,
    ST_F8_E4M3FNUZ,
    ST_F8_E5M2FNUZ,
    ST_I16,
    ST_U16,
    ST_F16,
    ST_BF16,
    ST_I32,
    ST_U32,
    ST_F32,
    ST_C64,
    ST_F64,
    ST_I64,
    ST_U64,
    N_SAFETENSORS_DTYPES,
    ST_Q4_0 = N_SAFETENSORS_DTYPES,
    ST_Q4_1,
    ST_Q5_0,
    ST_Q5_1,
    ST_Q8_0,
    ST_Q2_K,
    ST_Q3_K,
    ST_Q4_K,
    ST_Q5_K,
    ST_Q6_K,
    ST_IQ4_NL,
    ST_IQ4_XS,
    N_ELEMENT_DTYPES,
};

/* Finds the type that safetensors files call name[0..length). Returns false for an unknown name. */
bool smol_element_find(const char *name, size_t length, enum safetensors_dtype *dtype);

/* Return the name of a type ("BF16"), and the size of an element in bits, which types with blocks
 * do not have. */
const char *smol_element_name(enum safetensors_dtype dtype);
unsigned smol_element_bits(enum safetensors_dtype dtype);

/* The block of a type: `elements` share `bytes`. Other types have blocks of one element. */
struct element_block {
    unsigned elements, bytes;
};
struct element_block smol_element_block(enum safetensors_dtype dtype);

/* Returns whether weights may have this type: a float type whose values f32 holds exactly, or a
 * type with blocks. */
bool smol_element_is_weight(enum safetensors_dtype dtype);

/* The functions below are inline, so that each caller compiles them for its own instruction set.
 * Loops run over GROUP_INPUTS elements while that many are left, because compilers vectorize loops
 * of a constant count. */

static inline void widen_bf16(const uint8_t *restrict data, uint64_t n, float *restrict out)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, data + 2 * i, sizeof half); /* `data` may be unaligned */
        out[i] = f32_from_bf16(half);
    }
}

static inline void widen_f16(const uint8_t *restrict data, uint64_t n, float *restrict out)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, data + 2 * i, sizeof half);
        out[i] = f32_from_f16(half);
    }
}

static inline void widen_f8(const uint8_t *restrict data, uint64_t n, float (*widened)(uint8_t),
                            float *restrict out)
{
    for (uint64_t i = 0; i < n; i++)
        out[i] = widened(data[i]);
}

/* Converts elements [start, start + n) of `data` to f32, exactly. `dtype` must be a type of
 * weights without blocks, or I8. */
static inline void element_widen(enum safetensors_dtype dtype, const uint8_t *data, uint64_t start,
                                 uint64_t n, float *out)
{
    uint64_t i = 0;
    const uint8_t *halves = data + start * 2;
    switch (dtype) {
    case ST_BF16:
        for (; n - i >= GROUP_INPUTS; i += GROUP_INPUTS)
            widen_bf16(halves + 2 * i, GROUP_INPUTS, out + i);
        widen_bf16(halves + 2 * i, n - i, out + i);
        break;
    case ST_F16:
        widen_f16(halves, n, out);
        break;
    case ST_F8_E4M3:
        widen_f8(data + start, n, f32_from_f8_e4m3, out);
        break;
    case ST_F8_E5M2:
        widen_f8(data + start, n, f32_from_f8_e5m2, out);
        break;
    case ST_I8:
        for (; i < n; i++)
            out[i] = (float)(int8_t)data[start + i];
        break;
    default:
        memcpy(out, data + start * sizeof(float), n * sizeof(float));
    }
}

enum { BLOCK_MAX_ELEMENTS = 256 };

/* blocks.c: converts one block of a type that has blocks (see smol_element_block) to f32. The
 * values are those of the reference's dequantization (the Python package gguf), bit for bit: each
 * multiplication and addition is rounded by itself. The block may be unaligned. */
void smol_block_widen(enum safetensors_dtype dtype, const uint8_t *block, float *out);

#endif
