/* The products with grouped dtypes, in terms of vectors of bytes. Each set's file includes it once.
 * Before the include it defines V with LANES, TILE_VECTORS, v_zero, v_set1, v_load, v_store, v_add
 * and v_mul, see vector_template.h, and:
 *
 *   GROUPED_SET        the set's name: the products are smol_NAME_int8, _int6, _int5 and _int4
 *   OTHER_INT8_SET     if defined, the set whose int8 products this one shares
 *   GROUPED_TOKENS     most tokens that share a pass over a tile: 2, 4 or 16
 *   B, I               vectors of LANES * 4 bytes, of LANES 32-bit integers
 *   b_load(p) b_store(p, b)  p is aligned to the vector
 *   b_left(b, n) b_right(b, n)  bytes shifted by n bits; the bits that come in are arbitrary
 *   b_code(low, upper, mask)  the codes with the lower four bits of `low` and those bits of `upper`
 *                      that are in the mask: none (0), bit 4 or bits 4 and 5
 *   struct table       the levels of a matrix, with a member `first`
 *   b_table(levels, n) the table of n levels: 16, 32 or 64
 *   b_lookup(table, codes, n)  the levels of codes that b_code made
 *   b_operand(b)       weights as dot_quad takes them; applied to `first`, it applies to all levels
 *   v_from_f16(p) v_from_int(i)  LANES floats
 *
 * Unless it defines NO_DOT_QUADS:
 *
 *   dot_start(offset)  dot products before the first quad
 *   dot_quad(dot, b, steps, quad)  dot + weights of four inputs times those of a token
 *
 * If it defines OWN_DOT_GROUP, it defines dot_group after the include. For wide steps, either:
 *
 *   PAIR_STEPS         the set pairs them, see struct quantized
 *   b_even(b) b_odd(b) the inputs 0 and 2, 1 and 3 of each four weights, as 16-bit numbers
 *   dot_pair(dot, weights, steps)  dot + two 16-bit weights times those inputs of a token
 *
 * or:
 *
 *   dot_wide_bytes(high, low)  256 * high + low */

#include "common/checked.h"

#define GROUPED_PRODUCT_OF(set, name) smol_##set##_##name
#define GROUPED_PRODUCT(set, name) GROUPED_PRODUCT_OF(set, name)
#ifdef OTHER_INT8_SET
#define INT8_SET OTHER_INT8_SET
#else
#define INT8_SET GROUPED_SET
#endif

/* --- weights ------------------------------------------------------------------------------ */

/* Returns the codes of vector v of a quad of a group, see group_code. */
static ALWAYS_INLINE B load_codes(enum blob_dtype dtype, const uint8_t *group, const size_t quad,
                                  const size_t v)
{
    const uint8_t *lines = group + v * sizeof(B);
    B low = b_load(lines + quad / 2 * QUAD_BYTES);
    if (quad % 2)
        low = b_right(low, 4);
    if (dtype == DTYPE_INT4)
        return b_code(low, low, 0);
    const bool six = dtype == DTYPE_INT6;
    const size_t line = GROUP_QUADS / 2 + (six ? quad / 4 : 0), bit = six ? quad % 4 * 2 : quad;
    B upper = b_load(lines + line * QUAD_BYTES);
    upper = bit < 4 ? b_left(upper, 4 - (int)bit) : b_right(upper, (int)bit - 4);
    return b_code(low, upper, six ? 0x30 : 0x10);
}

/* Returns the weights of vector v of a quad; for int8 as they are, otherwise as in the table. */
static ALWAYS_INLINE B load_weights(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *group, const size_t quad, const size_t v)
{
    if (dtype == DTYPE_INT8)
        return b_load(group + quad * QUAD_BYTES + v * sizeof(B));
    return b_lookup(table, load_codes(dtype, group, quad, v), level_count(dtype));
}

/* --- dot products of a group -------------------------------------------------------------- */

static ALWAYS_INLINE B load_operand(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *group, const size_t quad, const size_t v)
{
    B weights = load_weights(dtype, table, group, quad, v);
    return dtype == DTYPE_INT8 ? b_operand(weights) : weights;
}

#ifndef NO_DOT_QUADS
/* Implements dot_group quad by quad. */
static ALWAYS_INLINE void dot_quads(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    const int32_t *offsets, I dot[][TILE_VECTORS],
                                    const size_t n_tokens)
{
    UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            dot[t][v] = dot_start(offsets[t]);
    UNROLLED (quad, GROUP_QUADS) {
        B w[TILE_VECTORS];
        UNROLLED (v, TILE_VECTORS)
            w[v] = load_operand(dtype, table, weights, quad, v);
        UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
            UNROLLED (v, TILE_VECTORS)
                dot[t][v] = dot_quad(dot[t][v], w[v], steps + t * stride, quad);
    }
}
#endif

/* dot[t] = the integer dot products of one group's weights and token t's steps, for n_tokens
 * contiguous tokens; `stride` is the distance in bytes from a token to the next. The table is one
 * of operands. */
static ALWAYS_INLINE void dot_group(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    const int32_t *offsets, I dot[][TILE_VECTORS],
                                    const size_t n_tokens);

#ifndef OWN_DOT_GROUP
static ALWAYS_INLINE void dot_group(enum blob_dtype dtype, const struct table *table,
                                    const uint8_t *weights, const int8_t *steps, size_t stride,
                                    const int32_t *offsets, I dot[][TILE_VECTORS],
                                    const size_t n_tokens)
{
    dot_quads(dtype, table, weights, steps, stride, offsets, dot, n_tokens);
}
#endif

/* Does what dot_group does, for int8 weights and wide steps. */
static ALWAYS_INLINE void dot_wide_group(const uint8_t *weights, const int8_t *steps, size_t stride,
                                         const int32_t *offsets, I dot[][TILE_VECTORS],
                                         const size_t n_tokens)
{
#ifdef PAIR_STEPS
    (void)offsets;
    UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            dot[t][v] = dot_start(0);
    for (size_t quad = 0; quad < GROUP_QUADS; quad++, weights += QUAD_BYTES, steps += 4) {
        B even[TILE_VECTORS], odd[TILE_VECTORS];
        UNROLLED (v, TILE_VECTORS) {
            B w = b_load(weights + v * sizeof(B));
            even[v] = b_even(w);
            odd[v] = b_odd(w);
        }
        UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
            UNROLLED (v, TILE_VECTORS)
                dot[t][v] = dot_pair(dot_pair(dot[t][v], even[v], steps + t * stride), odd[v],
                                     steps + t * stride + GROUP_INPUTS);
    }
#else
    static const int32_t no_offsets[GROUPED_TOKENS];
    const struct table none = {0};
    I low[GROUPED_TOKENS][TILE_VECTORS];
    dot_group(DTYPE_INT8, &none, weights, steps, stride, no_offsets, dot, n_tokens);
    dot_group(DTYPE_INT8, &none, weights, steps + GROUP_INPUTS, stride, offsets, low, n_tokens);
    UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            dot[t][v] = dot_wide_bytes(dot[t][v], low[t][v]);
#endif
}

/* --- products of row blocks --------------------------------------------------------------- */

/* Multiplies one row block by tokens [first, first + n_tokens) of x, whose steps are wide or not.
 * If `adds`, adds the products to those in `out`, one by one. */
static ALWAYS_INLINE void grouped_tokens(enum blob_dtype dtype, const struct table *table,
                                         const uint8_t *block, size_t n_groups,
                                         const struct quantized *x, const bool wide, size_t first,
                                         float *out, size_t out_stride, bool adds,
                                         const size_t n_tokens)
{
    const size_t stride = quantized_bytes(wide);
    const size_t ahead = first == 0 ? read_ahead() : 0;
    const int8_t *steps = x->steps + first * stride;
    out += first * out_stride;
    V sum[GROUPED_TOKENS][TILE_VECTORS];
    UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            sum[t][v] = adds ? v_load(out + t * out_stride + v * LANES) : v_zero();
    for (size_t group = 0; group < n_groups; group++) {
        const size_t at = group * x->stride + first;
        I dot[GROUPED_TOKENS][TILE_VECTORS];
        const uint8_t *weights = block + group_weights_offset(dtype, group);
        prefetch(weights, group_bytes(dtype) + SCALES_BYTES, ahead);
        if (wide)
            dot_wide_group(weights, steps, stride, x->offsets + at, dot, n_tokens);
        else
            dot_group(dtype, table, weights, steps, stride, x->offsets + at, dot, n_tokens);
        steps += x->stride * stride;
        const uint16_t *scales = (const void *)(block + group_scales_offset(dtype, group));
        UNROLLED (v, TILE_VECTORS) {
            V scale = v_from_f16(scales + v * LANES);
            UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS) {
                V factor = v_mul(scale, v_set1(x->scales[at + t]));
                sum[t][v] = v_add(sum[t][v], v_mul(v_from_int(dot[t][v]), factor));
            }
        }
    }
    UNROLLED_UPTO (t, n_tokens, GROUPED_TOKENS)
        UNROLLED (v, TILE_VECTORS)
            v_store(out + t * out_stride + v * LANES, sum[t][v]);
}

/* Multiplies one int8 row block by all tokens. */
static ALWAYS_INLINE void int8_block(const uint8_t *block, size_t n_groups,
                                     const struct quantized *x, const bool wide, float *out,
                                     size_t out_stride, bool adds)
{
    const struct table none = {0};
    enum { MOST = GROUPED_TOKENS };
    size_t t = 0;
    for (; t + MOST <= x->n; t += MOST)
        grouped_tokens(DTYPE_INT8, &none, block, n_groups, x, wide, t, out, out_stride, adds, MOST);
    for (; GROUPED_TOKENS > 4 && t + 4 <= x->n; t += 4)
        grouped_tokens(DTYPE_INT8, &none, block, n_groups, x, wide, t, out, out_stride, adds, 4);
    for (; !wide && t + 2 <= x->n; t += 2) /* a row and its remainder */
        grouped_tokens(DTYPE_INT8, &none, block, n_groups, x, wide, t, out, out_stride, adds, 2);
    for (; t < x->n; t++)
        grouped_tokens(DTYPE_INT8, &none, block, n_groups, x, wide, t, out, out_stride, adds, 1);
}

/* Multiplies int8 row blocks by all tokens. */
void GROUPED_PRODUCT(INT8_SET, int8_blocks)(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                                            const struct quantized *x, float *out,
                                            size_t out_stride, bool adds);

#ifndef OTHER_INT8_SET
ONE_COPY void GROUPED_PRODUCT(INT8_SET, int8_blocks)(const uint8_t *blocks, size_t n_blocks,
                                                     size_t n_groups, const struct quantized *x,
                                                     float *out, size_t out_stride, bool adds)
{
    const size_t block_bytes = grouped_block_bytes(DTYPE_INT8, n_groups);
    for (size_t i = 0; i < n_blocks; i++, blocks += block_bytes, out += TILE_ROWS)
        if (x->wide)
            int8_block(blocks, n_groups, x, true, out, out_stride, adds);
        else
            int8_block(blocks, n_groups, x, false, out, out_stride, adds);
}
#endif

/* --- blocks with tables of levels --------------------------------------------------------- */

enum {
    UNPACKED_GROUPS = 16, /* an even number */
    UNPACKED_BYTES =
        UNPACKED_GROUPS * GROUP_QUADS * QUAD_BYTES + UNPACKED_GROUPS / 2 * SCALES_BYTES,
};

/* Rewrites n_groups groups as int8. */
static ALWAYS_INLINE void unpack(enum blob_dtype dtype, const struct table *table,
                                 const uint8_t *block, size_t n_groups, uint8_t *out)
{
    const size_t ahead = read_ahead();
    for (size_t group = 0; group < n_groups; group++) {
        memcpy(out + group_scales_offset(DTYPE_INT8, group),
               block + group_scales_offset(dtype, group), SCALES_BYTES / 2);
        const uint8_t *weights = block + group_weights_offset(dtype, group);
        prefetch(weights, group_bytes(dtype) + SCALES_BYTES, ahead);
        uint8_t *unpacked = out + group_weights_offset(DTYPE_INT8, group);
        UNROLLED (quad, GROUP_QUADS)
            UNROLLED (v, TILE_VECTORS)
                b_store(unpacked + quad * QUAD_BYTES + v * sizeof(B),
                        load_weights(dtype, table, weights, quad, v));
    }
}

/* Multiplies one row block by many tokens: some groups at a time are rewritten for all of them. */
static ALWAYS_INLINE void unpacked_block(enum blob_dtype dtype, const struct table *table,
                                         const uint8_t *block, size_t n_groups,
                                         const struct quantized *x, float *out, size_t out_stride)
{
    _Alignas(64) uint8_t unpacked[UNPACKED_BYTES];
    for (size_t group = 0; group < n_groups; group += UNPACKED_GROUPS) {
        size_t rest = n_groups - group, n = rest < UNPACKED_GROUPS ? rest : UNPACKED_GROUPS;
        const struct quantized part = quantized_from(*x, group * x->stride);
        unpack(dtype, table, block + grouped_block_bytes(dtype, group), n, unpacked);
        GROUPED_PRODUCT(INT8_SET, int8_blocks)(unpacked, 1, n, &part, out, out_stride, group > 0);
    }
}

/* Multiplies blocks of int6, int5 or int4. */
static ALWAYS_INLINE void levels_blocks(enum blob_dtype dtype, const uint8_t *blocks,
                                        size_t n_blocks, size_t n_groups, const int8_t *levels,
                                        const struct quantized *x, float *out, size_t out_stride)
{
    const struct table table = b_table(levels, level_count(dtype));
    struct table operands = table;
    operands.first = b_operand(operands.first);
    const size_t block_bytes = grouped_block_bytes(dtype, n_groups);
    for (size_t i = 0; i < n_blocks; i++) {
        if (x->n == 1 && !x->wide)
            grouped_tokens(dtype, &operands, blocks, n_groups, x, false, 0, out, out_stride, false,
                           1);
        else if (x->n == 2 && !x->wide)
            grouped_tokens(dtype, &operands, blocks, n_groups, x, false, 0, out, out_stride, false,
                           2);
        else
            unpacked_block(dtype, &table, blocks, n_groups, x, out, out_stride);
        blocks += block_bytes;
        out += TILE_ROWS;
    }
}

/* --- the products ------------------------------------------------------------------------- */

void GROUPED_PRODUCT(GROUPED_SET, int8)(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                                        const int8_t *levels, const struct quantized *x, float *out,
                                        size_t out_stride)
{
    (void)levels;
    GROUPED_PRODUCT(INT8_SET, int8_blocks)(blocks, n_blocks, n_groups, x, out, out_stride, false);
}

#define LEVELS_PRODUCT(name, dtype)                                                                \
    void GROUPED_PRODUCT(GROUPED_SET, name)(                                                       \
        const uint8_t *blocks, size_t n_blocks, size_t n_groups, const int8_t *levels,             \
        const struct quantized *x, float *out, size_t out_stride)                                  \
    {                                                                                              \
        levels_blocks(dtype, blocks, n_blocks, n_groups, levels, x, out, out_stride);              \
    }

LEVELS_PRODUCT(int6, DTYPE_INT6)
LEVELS_PRODUCT(int5, DTYPE_INT5)
LEVELS_PRODUCT(int4, DTYPE_INT4)
