/* Numbers into and out of the KV cache, see kv.h: quantized and stored as the forward pass makes
 * them, and in the rows of sessions. struct kv_block describes the layout within a block. */
#include <math.h>
#include <string.h>

#include "common/checked.h"
#include "common/number.h"
#include "runtime/engine/kv.h"

static bool has_scales(const struct kv_cache *cache)
{
    return cache->scale_bytes > 0;
}

/* Returns the bytes of the elements of one position's key, and of its value, in a session. */
static size_t row_bytes(const struct kv_layer *layer)
{
    return layer->k_bytes / KV_BLOCK;
}

/* Quantizes x (n) to q and returns the scale. A NaN or infinity makes the scale NaN, and so the
 * logits. */
static float quantize_vector(const float *x, size_t n, int8_t *q)
{
    float amax = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
        finite &= f32_is_finite(x[i]);
    }
    memset(q, 0, n);
    if (!finite)
        return NAN;
    if (amax < 0x1p-100f)
        return 0;
    float inverse = 127.0f / amax;
    for (size_t i = 0; i < n; i++)
        q[i] = (int8_t)f32_round_even(x[i] * inverse);
    return amax / 127.0f;
}

/* --- int4 --------------------------------------------------------------------------------- */

/* The codes of one position's key or value, with zeros after the last. */
struct codes {
    uint8_t code[MAX_HEAD_DIM];
};

static void clear_padding(struct codes *codes, size_t n)
{
    memset(codes->code + n, 0, round_up(n, 32) - n);
}

/* Quantizes x (n) to codes, each that of the level nearest to the step of quantize_vector, or the
 * lower one of two. Returns the scale. */
static float quantize_codes(const float *x, size_t n, struct codes *codes)
{
    int8_t steps[MAX_HEAD_DIM];
    float scale = quantize_vector(x, n, steps);
    for (size_t i = 0; i < n; i++) {
        int code = 0;
        for (size_t l = 1; l < KV_LEVELS; l++)
            code += 2 * steps[i] > smol_kv_levels[l - 1] + smol_kv_levels[l];
        codes->code[i] = (uint8_t)code;
    }
    clear_padding(codes, n);
    return scale;
}

/* The next four functions convert codes to and from position `slot` of a block. */

static void put_k_codes(const struct kv_block *block, size_t dim, size_t slot,
                        const struct codes *codes)
{
    uint8_t *k = (uint8_t *)(uintptr_t)block->k; /* see smol_kv_store */
    for (size_t c = 0; c < dim; c += 2)
        k[kv_k_byte(c, slot)] = (uint8_t)(codes->code[c] | codes->code[c + 1] << 4);
}

static void put_v_codes(const struct kv_block *block, size_t dim, size_t slot,
                        const struct codes *codes)
{
    uint8_t *v = (uint8_t *)(uintptr_t)block->v + slot * kv_v_stride(dim); /* see smol_kv_store */
    for (size_t c = 0; c < dim; c += 32)
        for (size_t i = c; i < c + 16; i++)
            v[kv_v_byte(i)] = (uint8_t)(codes->code[i] | codes->code[i + 16] << 4);
}

static void get_k_codes(const struct kv_block *block, size_t dim, size_t slot, struct codes *codes)
{
    const uint8_t *k = block->k;
    for (size_t c = 0; c < dim; c++) {
        uint8_t byte = k[kv_k_byte(c, slot)];
        codes->code[c] = kv_k_high(c) ? byte >> 4 : byte & 15;
    }
    clear_padding(codes, dim);
}

static void get_v_codes(const struct kv_block *block, size_t dim, size_t slot, struct codes *codes)
{
    const uint8_t *v = (const uint8_t *)block->v + slot * kv_v_stride(dim);
    for (size_t c = 0; c < dim; c++) {
        uint8_t byte = v[kv_v_byte(c)];
        codes->code[c] = kv_v_high(c) ? byte >> 4 : byte & 15;
    }
    clear_padding(codes, dim);
}

void smol_kv_store(const struct kv_cache *cache, const struct kernels *kernels, size_t layer,
                   size_t head, size_t position, const float *k, const float *v)
{
    struct kv_block block = smol_kv_block(cache, layer, head, position / KV_BLOCK);
    size_t slot = position % KV_BLOCK, dim = cache->layers[layer].head_dim;
    size_t v_index = slot * round_up(dim, 16);
    /* the view is read-only for all other code */
    void *k_out = (void *)(uintptr_t)block.k, *v_out = (void *)(uintptr_t)block.v;
    if (cache->type == KV_F32) {
        for (size_t c = 0; c < dim; c++)
            ((float *)k_out)[c * KV_BLOCK + slot] = k[c];
        if (v_out)
            memcpy((float *)v_out + v_index, v, dim * sizeof *v);
    } else if (cache->type == KV_F16) {
        uint16_t halves[MAX_HEAD_DIM];
        kernels->to_f16(k, dim, halves);
        for (size_t c = 0; c < dim; c++)
            ((uint16_t *)k_out)[c * KV_BLOCK + slot] = halves[c];
        if (v_out)
            kernels->to_f16(v, dim, (uint16_t *)v_out + v_index);
    } else if (cache->type == KV_INT8) {
        int8_t steps[MAX_HEAD_DIM];
        ((float *)(uintptr_t)block.k_scale)[slot] = quantize_vector(k, dim, steps);
        for (size_t c = 0; c < dim; c++)
            ((int8_t *)k_out)[c * KV_BLOCK + slot] = steps[c];
        if (v_out)
            ((float *)(uintptr_t)block.v_scale)[slot] =
                quantize_vector(v, dim, (int8_t *)v_out + v_index);
    } else {
        struct codes codes;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): int4 has scales */
        ((float *)(uintptr_t)block.k_scale)[slot] = quantize_codes(k, dim, &codes);
        put_k_codes(&block, dim, slot, &codes);
        if (!v_out)
            return;
        ((float *)(uintptr_t)block.v_scale)[slot] = quantize_codes(v, dim, &codes);
        put_v_codes(&block, dim, slot, &codes);
    }
}

/* --- rows --------------------------------------------------------------------------------- */

/* Sessions store the cache's numbers by position: keys in rows (n, head_dim), values in rows (n,
 * head_dim), and for int8 and int4 the scales of the keys (n) and of the values (n). A session
 * therefore does not depend on the layout of blocks. A byte of int4 has two neighbours of a row.
 * Where keys are the values too, these and their scales are left out. */

/* Returns how many vectors a position has: a key and a value, or one that is both. */
static size_t count_vectors(const struct kv_cache *cache)
{
    return cache->shares ? 1 : 2;
}

size_t smol_kv_rows_bytes(const struct kv_cache *cache, size_t layer, size_t n)
{
    size_t scale = has_scales(cache) ? sizeof(float) : 0;
    return n * count_vectors(cache) * (row_bytes(&cache->layers[layer]) + scale);
}

/* Transposes `in` (rows, columns), whose rows are in_stride elements apart, into `out` (columns,
 * rows), whose rows are out_stride apart. */
static inline __attribute__((always_inline)) void
transpose_elements(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride,
                   size_t rows, size_t columns, size_t size)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(out + (c * out_stride + r) * size, in + (r * in_stride + c) * size, size);
}

/* Transposes elements of `size` bytes. Each size has its own loop, in which it is a constant. */
static void transpose(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride,
                      size_t rows, size_t columns, size_t size)
{
    if (size == 4)
        transpose_elements(out, out_stride, in, in_stride, rows, columns, 4);
    else if (size == 2)
        transpose_elements(out, out_stride, in, in_stride, rows, columns, 2);
    else
        transpose_elements(out, out_stride, in, in_stride, rows, columns, 1);
}

void smol_kv_spread(const struct kv_cache *cache, size_t layer, struct kv_block *block,
                    void *values)
{
    const struct kv_layer *place = &cache->layers[layer];
    size_t dim = place->head_dim, size = row_bytes(place) / dim; /* 0 for int4 */
    struct codes codes;
    block->v = values;
    if (cache->type != KV_INT4)
        transpose(values, place->v_bytes / KV_BLOCK / size, block->k, KV_BLOCK, dim, KV_BLOCK,
                  size);
    for (size_t i = 0; cache->type == KV_INT4 && i < KV_BLOCK; i++) {
        get_k_codes(block, dim, i, &codes);
        put_v_codes(block, dim, i, &codes);
    }
}

/* Writes dim codes to a row of dim / 2 bytes, or reads them. */
static void pack_codes(const struct codes *codes, size_t dim, uint8_t *row)
{
    for (size_t c = 0; c < dim; c += 2)
        row[c / 2] = (uint8_t)(codes->code[c] | codes->code[c + 1] << 4);
}

static void unpack_codes(const uint8_t *row, size_t dim, struct codes *codes)
{
    for (size_t c = 0; c < dim; c++)
        codes->code[c] = c % 2 ? row[c / 2] >> 4 : row[c / 2] & 15;
    clear_padding(codes, dim);
}

static void get_int4_rows(const struct kv_block *block, size_t dim, size_t n, uint8_t *rows)
{
    size_t row = dim / 2;
    struct codes codes;
    for (size_t i = 0; i < n; i++) {
        get_k_codes(block, dim, i, &codes);
        pack_codes(&codes, dim, rows + i * row);
        if (!block->v)
            continue;
        get_v_codes(block, dim, i, &codes);
        pack_codes(&codes, dim, rows + (n + i) * row);
    }
}

static void put_int4_rows(const struct kv_block *block, size_t dim, size_t n, const uint8_t *rows)
{
    size_t row = dim / 2;
    struct codes codes;
    for (size_t i = 0; i < n; i++) {
        unpack_codes(rows + i * row, dim, &codes);
        put_k_codes(block, dim, i, &codes);
        if (!block->v)
            continue;
        unpack_codes(rows + (n + i) * row, dim, &codes);
        put_v_codes(block, dim, i, &codes);
    }
}

void smol_kv_get_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, uint8_t *rows)
{
    struct kv_block block = smol_kv_block(cache, layer, head, index);
    const struct kv_layer *place = &cache->layers[layer];
    size_t dim = place->head_dim, row = row_bytes(place), size = row / dim; /* 0 for int4 */
    size_t stride = place->v_bytes / KV_BLOCK;
    if (cache->type == KV_INT4) {
        get_int4_rows(&block, dim, n, rows);
    } else { /* in a block, keys have the shape (head_dim, KV_BLOCK) */
        transpose(rows, dim, block.k, KV_BLOCK, dim, n, size);
        for (size_t i = 0; block.v && i < n; i++)
            memcpy(rows + (n + i) * row, (const uint8_t *)block.v + i * stride, row);
    }
    rows += count_vectors(cache) * n * row;
    if (has_scales(cache))
        memcpy(rows, block.k_scale, n * sizeof(float));
    if (has_scales(cache) && block.v)
        memcpy(rows + n * sizeof(float), block.v_scale, n * sizeof(float));
}

void smol_kv_put_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, const uint8_t *rows)
{
    struct kv_block block = smol_kv_block(cache, layer, head, index);
    const struct kv_layer *place = &cache->layers[layer];
    size_t dim = place->head_dim, row = row_bytes(place), size = row / dim; /* 0 for int4 */
    size_t stride = place->v_bytes / KV_BLOCK;
    /* the view is read-only for all code except smol_kv_store and this function */
    if (cache->type == KV_INT4) {
        put_int4_rows(&block, dim, n, rows);
    } else {
        transpose((uint8_t *)(uintptr_t)block.k, KV_BLOCK, rows, dim, n, dim, size);
        for (size_t i = 0; block.v && i < n; i++)
            memcpy((uint8_t *)(uintptr_t)block.v + i * stride, rows + (n + i) * row, row);
    }
    rows += count_vectors(cache) * n * row;
    if (has_scales(cache))
        memcpy((float *)(uintptr_t)block.k_scale, rows, n * sizeof(float));
    if (has_scales(cache) && block.v)
        memcpy((float *)(uintptr_t)block.v_scale, rows + n * sizeof(float), n * sizeof(float));
}

/* --- validation -------------------------------------------------------------------------- */

static bool finite_f32(const uint8_t *data, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        good &= f32_is_finite(value);
    }
    return good;
}

static bool finite_f16(const uint8_t *data, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, data + i * sizeof half, sizeof half);
        good &= (half & 0x7c00u) != 0x7c00u;
    }
    return good;
}

static bool good_steps(const uint8_t *data, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good &= data[i] != 0x80; /* -128 */
    return good;
}

/* Returns whether all scales are finite and none has a sign bit. */
static bool good_scales(const uint8_t *data, size_t n)
{
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good &= !(data[i * sizeof(float) + 3] & 0x80u);
    return good && finite_f32(data, n);
}

bool smol_kv_rows_valid(const struct kv_cache *cache, size_t layer, size_t n, const uint8_t *rows)
{
    size_t n_vectors = count_vectors(cache) * n,
           elements = n_vectors * cache->layers[layer].head_dim;
    if (cache->type == KV_F32)
        return finite_f32(rows, elements);
    if (cache->type == KV_F16)
        return finite_f16(rows, elements);
    if (cache->type == KV_INT8)
        return good_steps(rows, elements) && good_scales(rows + elements, n_vectors);
    return good_scales(rows + elements / 2, n_vectors); /* every int4 code is in use */
}
