/* The cache's numbers one position behind the other, as sessions hold them, see kv.h: keys in rows
 * (n, head_dim), values in rows (n, head_dim), and for int8 the scales of the keys (n) and of the
 * values (n). So a session does not depend on the layout of blocks. */
#include <string.h>

#include "common/checked.h"
#include "common/number.h"
#include "runtime/engine/kv.h"

static size_t element_bytes(const struct kv_cache *cache)
{
    return cache->k_bytes / (KV_BLOCK * cache->head_dim);
}

size_t smol_kv_rows_bytes(const struct kv_cache *cache, size_t n)
{
    size_t scales = cache->type == KV_INT8 ? 2 * sizeof(float) : 0;
    return n * (2 * cache->head_dim * element_bytes(cache) + scales);
}

/* Transposes `in` (rows, columns), whose rows lie in_stride elements apart, into `out` (columns,
 * rows), whose rows lie out_stride apart. */
static inline __attribute__((always_inline)) void
transpose_elements(uint8_t *out, size_t out_stride, const uint8_t *in, size_t in_stride,
                   size_t rows, size_t columns, size_t size)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(out + (c * out_stride + r) * size, in + (r * in_stride + c) * size, size);
}

/* Of elements of `size` bytes: a loop for each size, where that is a constant. */
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
    /* keys lie (head_dim, KV_BLOCK) in a block */
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
    /* the view is read-only for everyone but smol_kv_store and this */
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

/* --- what may be in them ------------------------------------------------------------------ */

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

/* Finite, and the sign is that of 0. */
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
