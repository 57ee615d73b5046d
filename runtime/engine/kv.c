/* The KV cache, see kv.h. struct kv_block describes the layout within a block. */
#include "runtime/engine/kv.h"

#include <math.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "common/number.h"

enum { SLAB_BLOCKS = 16 }; /* 1,024 positions */

static size_t element_size(enum kv_type type)
{
    return type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1;
}

static size_t head_bytes(const struct kv_cache *cache)
{
    return cache->k_bytes + cache->v_bytes + 2 * cache->scale_bytes;
}

smol_status smol_kv_init(struct kv_cache *cache, enum kv_type type, size_t n_layers,
                         size_t n_kv_heads, size_t head_dim, size_t n_positions, smol_error *error)
{
    size_t size = element_size(type);
    *cache = (struct kv_cache){
        .type = type,
        .n_layers = n_layers,
        .n_kv_heads = n_kv_heads,
        .head_dim = head_dim,
        .k_bytes = KV_BLOCK * head_dim * size,
        .v_bytes = KV_BLOCK * round_up(head_dim, 16) * size,
        .scale_bytes = type == KV_INT8 ? KV_BLOCK * sizeof(float) : 0,
    };
    size_t n_blocks = (n_positions + KV_BLOCK - 1) / KV_BLOCK;
    cache->slab_blocks = n_blocks < SLAB_BLOCKS ? n_blocks : SLAB_BLOCKS;
    if (fits_memory((uint64_t)cache->slab_blocks * n_layers * n_kv_heads * head_bytes(cache)))
        cache->slabs =
            smol_calloc((n_blocks + SLAB_BLOCKS - 1) / SLAB_BLOCKS, sizeof *cache->slabs);
    return cache->slabs ? SMOL_OK : smol_fail_memory(error, "the KV cache");
}

/* Returns the bytes of one block of all layers and heads. */
static size_t block_bytes(const struct kv_cache *cache)
{
    return cache->n_layers * cache->n_kv_heads * head_bytes(cache);
}

static size_t slab_bytes(const struct kv_cache *cache)
{
    return cache->slab_blocks * block_bytes(cache);
}

void smol_kv_free(struct kv_cache *cache)
{
    for (size_t i = 0; i < cache->n_slabs; i++)
        smol_zeros_free(cache->slabs[i], slab_bytes(cache));
    smol_free(cache->slabs);
    *cache = (struct kv_cache){0};
}

smol_status smol_kv_reserve(struct kv_cache *cache, size_t n, smol_error *error)
{
    size_t n_blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
    while (cache->n_slabs * cache->slab_blocks < n_blocks) {
        void *slab = smol_zeros_new(slab_bytes(cache)); /* V's padding channels must be zero */
        if (!slab)
            return smol_fail_memory(error, "the KV cache");
        cache->slabs[cache->n_slabs++] = slab;
    }
    cache->n_blocks = n_blocks > cache->n_blocks ? n_blocks : cache->n_blocks;
    return SMOL_OK;
}

size_t smol_kv_bytes(const struct kv_cache *cache)
{
    return cache->n_blocks * block_bytes(cache);
}

struct kv_block smol_kv_block(const struct kv_cache *cache, size_t layer, size_t head, size_t index)
{
    size_t slab = index / cache->slab_blocks, row = layer * cache->n_kv_heads + head;
    const uint8_t *data =
        cache->slabs[slab] +
        (row * cache->slab_blocks + index % cache->slab_blocks) * head_bytes(cache);
    const uint8_t *scales = data + cache->k_bytes + cache->v_bytes;
    bool scaled = cache->type == KV_INT8;
    return (struct kv_block){
        .k = data,
        .v = data + cache->k_bytes,
        .k_scale = scaled ? (const float *)scales : NULL,
        .v_scale = scaled ? (const float *)(scales + cache->scale_bytes) : NULL,
    };
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

void smol_kv_store(const struct kv_cache *cache, const struct kernels *kernels, size_t layer,
                   size_t head, size_t position, const float *k, const float *v)
{
    struct kv_block block = smol_kv_block(cache, layer, head, position / KV_BLOCK);
    size_t slot = position % KV_BLOCK, dim = cache->head_dim;
    size_t v_index = slot * round_up(dim, 16);
    /* the view is read-only for all other code */
    void *k_out = (void *)(uintptr_t)block.k, *v_out = (void *)(uintptr_t)block.v;
    if (cache->type == KV_F32) {
        for (size_t c = 0; c < dim; c++)
            ((float *)k_out)[c * KV_BLOCK + slot] = k[c];
        memcpy((float *)v_out + v_index, v, dim * sizeof *v);
    } else if (cache->type == KV_F16) {
        uint16_t halves[MAX_HEAD_DIM];
        kernels->to_f16(k, dim, halves);
        for (size_t c = 0; c < dim; c++)
            ((uint16_t *)k_out)[c * KV_BLOCK + slot] = halves[c];
        kernels->to_f16(v, dim, (uint16_t *)v_out + v_index);
    } else if (cache->type == KV_INT8) {
        int8_t steps[MAX_HEAD_DIM];
        ((float *)(uintptr_t)block.k_scale)[slot] = quantize_vector(k, dim, steps);
        for (size_t c = 0; c < dim; c++)
            ((int8_t *)k_out)[c * KV_BLOCK + slot] = steps[c];
        ((float *)(uintptr_t)block.v_scale)[slot] =
            quantize_vector(v, dim, (int8_t *)v_out + v_index);
    }
}

/* --- rows --------------------------------------------------------------------------------- */

/* Sessions store the cache's numbers by position: keys in rows (n, head_dim), values in rows (n,
 * head_dim), and for int8 the scales of the keys (n) and of the values (n). A session therefore
 * does not depend on the layout of blocks. */

static size_t element_bytes(const struct kv_cache *cache)
{
    return cache->k_bytes / (KV_BLOCK * cache->head_dim);
}

size_t smol_kv_rows_bytes(const struct kv_cache *cache, size_t n)
{
    size_t scales = cache->type == KV_INT8 ? 2 * sizeof(float) : 0;
    return n * (2 * cache->head_dim * element_bytes(cache) + scales);
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

void smol_kv_get_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, uint8_t *rows)
{
    struct kv_block block = smol_kv_block(cache, layer, head, index);
    size_t size = element_bytes(cache), row = cache->head_dim * size;
    size_t stride = round_up(cache->head_dim, 16) * size;
    /* in a block, keys have the shape (head_dim, KV_BLOCK) */
    transpose(rows, cache->head_dim, block.k, KV_BLOCK, cache->head_dim, n, size);
    rows += n * row;
    for (size_t i = 0; i < n; i++, rows += row)
        memcpy(rows, (const uint8_t *)block.v + i * stride, row);
    if (cache->type == KV_INT8) {
        memcpy(rows, block.k_scale, n * sizeof(float));
        memcpy(rows + n * sizeof(float), block.v_scale, n * sizeof(float));
    }
}

void smol_kv_put_rows(const struct kv_cache *cache, size_t layer, size_t head, size_t index,
                      size_t n, const uint8_t *rows)
{
    struct kv_block block = smol_kv_block(cache, layer, head, index);
    size_t size = element_bytes(cache), row = cache->head_dim * size;
    size_t stride = round_up(cache->head_dim, 16) * size;
    /* the view is read-only for all code except smol_kv_store and this function */
    transpose((uint8_t *)(uintptr_t)block.k, KV_BLOCK, rows, cache->head_dim, n, cache->head_dim,
              size);
    rows += n * row;
    for (size_t i = 0; i < n; i++, rows += row)
        memcpy((uint8_t *)(uintptr_t)block.v + i * stride, rows, row);
    if (cache->type == KV_INT8) {
        memcpy((float *)(uintptr_t)block.k_scale, rows, n * sizeof(float));
        memcpy((float *)(uintptr_t)block.v_scale, rows + n * sizeof(float), n * sizeof(float));
    }
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

bool smol_kv_rows_valid(const struct kv_cache *cache, size_t n, const uint8_t *rows)
{
    size_t elements = 2 * n * cache->head_dim;
    if (cache->type == KV_F32)
        return finite_f32(rows, elements);
    if (cache->type == KV_F16)
        return finite_f16(rows, elements);
    return good_steps(rows, elements) && good_scales(rows + elements, 2 * n);
}
