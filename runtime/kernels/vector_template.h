/* Kernels that are the same on every instruction set with float vectors: quantizing, the f32 and
 * bf16 products, and attention, in terms of a few vector operations. A set's file includes it once.
 * Before the include it defines:
 *
 *   V                  the vector type, of LANES floats: 4, 8 or 16; TILE_VECTORS hold a tile's
 * rows TOKENS_MANY, _FEW  tokens that share a pass over an f32 or bf16 tile, limited by registers
 *   QUERIES_MANY, _FEW queries that share a pass over the KV cache: MANY over 16 of its columns,
 *                      FEW, and single ones, over FEW_VECTORS vectors of them, at least 16 / LANES
 *   v_zero() v_set1(x) v_load(p) v_store(p, v) v_add(a, b) v_sub(a, b) v_mul(a, b) v_fma(a, b, c)
 *   v_max(a, b) v_reduce_max(v)  of numbers; unspecified for NaNs
 *   v_max_magnitude(a, b) v_reduce_max_bits(v)  the larger of a and |b|, the largest lane's bits:
 *                      NaN and infinity, as bits, are larger than any number
 *   v_steps(v, steps)  rounds GROUP_INPUTS lanes to nearest even, stores them, returns their sum
 *   v_round(v, p)      rounds LANES floats to nearest even, and stores them as 32-bit integers
 *   PAIR_STEPS         if its products take wide steps as 16-bit numbers
 *   v_store_f16(p, v)  LANES f16, to nearest even
 *   v_even(p) v_odd(p) the even, odd columns' weights of LANES bf16 pairs
 *   v_cache(data, i, type)  LANES elements of the KV cache, starting at element i, as floats
 *   v_levels(bytes, high)  the levels of the low or high halves of LANES bytes, as floats
 *
 * The loops over vectors and tokens have constant counts after inlining, so the compiler keeps the
 * arrays of accumulators in registers. */

#include "runtime/kernels/elementwise_template.h"

#include "common/checked.h"
#include "runtime/kernels/loops.h"

/* --- quantizing --------------------------------------------------------------------------- */

enum { GROUP_VECTORS = GROUP_INPUTS / LANES };

/* Destinations of quantized groups: group i goes to place at + i * at_step of scales and offsets,
 * and its steps to steps + i * steps_step. */
struct groups {
    const struct quantized *out;
    size_t at, at_step, steps, steps_step;
};

/* Returns the bits of the largest magnitude in one group. */
static ALWAYS_INLINE uint32_t group_amax_bits(const float *x)
{
    V largest = v_zero();
    UNROLLED (v, GROUP_VECTORS)
        largest = v_max_magnitude(largest, v_load(x + v * LANES));
    return v_reduce_max_bits(largest);
}

/* Quantizes up to 16 whole groups: first all maxima, then all divisions, then all steps, so that no
 * group waits for another. */
static ALWAYS_INLINE bool quantize_groups(const float *x, size_t n, const struct groups *to)
{
    const struct quantized out = *to->out; /* a copy, which `steps` cannot alias */
    struct groups place = *to;
    float amax[16] = {0}, inverse[16], scales[16];
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = group_amax_bits(x + i * GROUP_INPUTS);
        largest = bits > largest ? bits : largest;
        amax[i] = f32_from_bits(bits);
    }
    const float most = most_steps(out.wide);
    for (size_t i = 0; i < 16; i++) {
        bool zero = amax[i] < 0x1p-100f; /* most / amax might overflow */
        inverse[i] = zero ? 0 : most / amax[i];
        scales[i] = zero ? 0 : amax[i] / most;
    }
    if (largest >= 0x7f800000u)
        return false;
    for (size_t i = 0; i < n; i++) {
        V scaled[GROUP_VECTORS];
        UNROLLED (v, GROUP_VECTORS)
            scaled[v] = v_mul(v_load(x + i * GROUP_INPUTS + v * LANES), v_set1(inverse[i]));
        out.scales[place.at] = scales[i];
        if (out.wide) {
            int32_t steps[GROUP_INPUTS], sum = 0;
            UNROLLED (v, GROUP_VECTORS)
                v_round(scaled[v], steps + v * LANES);
            for (size_t j = 0; j < GROUP_INPUTS; j++)
                sum += steps[j];
            out.offsets[place.at] = -128 * sum;
            store_wide(steps, out.steps + place.steps);
        } else {
            out.offsets[place.at] = -128 * v_steps(scaled, out.steps + place.steps);
        }
        place.at += place.at_step;
        place.steps += place.steps_step;
    }
    return true;
}

/* Returns the places of a token's groups, starting at `group`. */
static inline struct groups groups_of_token(const struct quantized *out, size_t group, size_t t)
{
    const size_t at = group * out->stride + t, bytes = quantized_bytes(out->wide);
    return (struct groups){out, at, out->stride, at * bytes, out->stride * bytes};
}

static bool quantize(const float *x, size_t size, const struct quantized *out, size_t t)
{
    size_t n_whole = size / GROUP_INPUTS, rest = size % GROUP_INPUTS;
    bool finite = true;
    for (size_t group = 0; group < n_whole; group += 16) {
        const struct groups to = groups_of_token(out, group, t);
        finite &= quantize_groups(x + group * GROUP_INPUTS,
                                  n_whole - group < 16 ? n_whole - group : 16, &to);
    }
    if (rest > 0) {
        const struct groups to = groups_of_token(out, n_whole, t);
        float padded[GROUP_INPUTS] = {0};
        memcpy(padded, x + n_whole * GROUP_INPUTS, rest * sizeof *x);
        finite &= quantize_groups(padded, 1, &to);
    }
    return finite;
}

static bool quantize_slice(const float *x, size_t n, const struct quantized *out, size_t group)
{
    bool finite = true;
    for (size_t t = 0; t < n; t += 16) {
        const size_t at = group * out->stride + t, bytes = quantized_bytes(out->wide);
        const struct groups to = {out, at, 1, at * bytes, bytes};
        finite &= quantize_groups(x + t * GROUP_INPUTS, n - t < 16 ? n - t : 16, &to);
    }
    return finite;
}

/* --- f32 and bf16 matrix products --------------------------------------------------------- */

/* The weights of one column, as vectors. */
struct column {
    V weights[TILE_VECTORS];
};

static ALWAYS_INLINE struct column f32_column(const void *block, size_t col)
{
    struct column column;
    UNROLLED (v, TILE_VECTORS)
        column.weights[v] = v_load((const float *)block + col * TILE_ROWS + v * LANES);
    return column;
}

static ALWAYS_INLINE struct column bf16_column(const void *block, size_t col)
{
    struct column column;
    const uint32_t *pairs = (const uint32_t *)block + col / 2 * TILE_ROWS;
    UNROLLED (v, TILE_VECTORS)
        column.weights[v] = col % 2 ? v_odd(pairs + v * LANES) : v_even(pairs + v * LANES);
    return column;
}

static ALWAYS_INLINE struct column load_column(const void *block, size_t col, enum blob_dtype dtype)
{
    return dtype == DTYPE_F32 ? f32_column(block, col) : bf16_column(block, col);
}

/* sum += column * x, for every token */
static ALWAYS_INLINE void add_column(V sum[][TILE_VECTORS], struct column column, const float *x,
                                     size_t x_stride, const size_t n_tokens)
{
    UNROLLED_UPTO (t, n_tokens, TOKENS_MANY) {
        V value = v_set1(x[t * x_stride]);
        UNROLLED (v, TILE_VECTORS)
            sum[t][v] = v_fma(column.weights[v], value, sum[t][v]);
    }
}

static ALWAYS_INLINE void float_tokens(const void *block, size_t cols, const float *x,
                                       size_t x_stride, float *out, size_t out_stride, bool first,
                                       enum blob_dtype dtype, const size_t n_tokens)
{
    V sum[TOKENS_MANY][TILE_VECTORS];
    UNROLLED_UPTO (t, n_tokens, TOKENS_MANY)
        UNROLLED (v, TILE_VECTORS)
            sum[t][v] = v_zero();
    /* f32 is read at full speed without */
    const size_t ahead = first && dtype == DTYPE_BF16 ? read_ahead() : 0;
    size_t col = 0;
    for (; col + 2 <= cols; col += 2) { /* in pairs, the layout of bf16 */
        prefetch((const uint32_t *)block + col / 2 * TILE_ROWS, TILE_ROWS * 4, ahead);
        add_column(sum, load_column(block, col, dtype), x + col, x_stride, n_tokens);
        add_column(sum, load_column(block, col + 1, dtype), x + col + 1, x_stride, n_tokens);
    }
    if (col < cols)
        add_column(sum, load_column(block, col, dtype), x + col, x_stride, n_tokens);
    UNROLLED_UPTO (t, n_tokens, TOKENS_MANY)
        UNROLLED (v, TILE_VECTORS)
            v_store(out + t * out_stride + v * LANES, sum[t][v]);
}

static ALWAYS_INLINE void float_block(const void *block, size_t cols, const float *x,
                                      size_t x_stride, size_t n_tokens, float *out,
                                      size_t out_stride, enum blob_dtype dtype)
{
    size_t t = 0;
    for (; t + TOKENS_MANY <= n_tokens; t += TOKENS_MANY)
        float_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                     t == 0, dtype, TOKENS_MANY);
    for (; t + TOKENS_FEW <= n_tokens; t += TOKENS_FEW)
        float_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                     t == 0, dtype, TOKENS_FEW);
    for (; t < n_tokens; t++)
        float_tokens(block, cols, x + t * x_stride, x_stride, out + t * out_stride, out_stride,
                     t == 0, dtype, 1);
}

static void matmul_f32(const float *blocks, size_t n_blocks, size_t cols, const float *x,
                       size_t x_stride, size_t n_tokens, float *out, size_t out_stride)
{
    for (size_t i = 0; i < n_blocks; i++)
        float_block(blocks + i * cols * TILE_ROWS, cols, x, x_stride, n_tokens, out + i * TILE_ROWS,
                    out_stride, DTYPE_F32);
}

static void matmul_bf16(const uint32_t *blocks, size_t n_blocks, size_t cols, const float *x,
                        size_t x_stride, size_t n_tokens, float *out, size_t out_stride)
{
    for (size_t i = 0; i < n_blocks; i++)
        float_block(blocks + i * ((cols + 1) / 2) * TILE_ROWS, cols, x, x_stride, n_tokens,
                    out + i * TILE_ROWS, out_stride, DTYPE_BF16);
}

/* --- attention ---------------------------------------------------------------------------- */

/* A product with the cache: queries times K (scores) or weights times V (values). out (n_rows,
 * width) = a (n_rows, n_steps) times b (n_steps, width), where b is the K or V half of a cache
 * block. */
struct cache_product {
    enum kv_type type;
    const float *a;
    size_t a_row, a_step; /* distances between a's elements in both directions: constants */
    size_t n_rows, n_steps;
    const void *b;
    bool is_k;
    size_t b_stride, width; /* width: a multiple of 16; int4: the stride is in bytes */
    const float *rescale;   /* (n_rows) or NULL; otherwise multiply out by these first, then add */
    float *out;
    size_t out_stride;
    size_t ahead; /* see read_ahead */
};

/* Returns LANES elements of row `step` of b, from column `col` on. */
static ALWAYS_INLINE V cache_vector(const struct cache_product *p, size_t step, size_t col)
{
    if (p->type != KV_INT4)
        return v_cache(p->b, step * p->b_stride + col, p->type);
    if (p->is_k)
        return v_levels((const uint8_t *)p->b + kv_k_byte(step, col), kv_k_high(step));
    return v_levels((const uint8_t *)p->b + step * p->b_stride + kv_v_byte(col), kv_v_high(col));
}

/* Asks for a row of b, as `prefetch` does for the place of row `step`. */
static ALWAYS_INLINE void prefetch_row(const struct cache_product *p, size_t step)
{
    size_t bytes = p->b_stride * (p->type == KV_F32 ? 4 : p->type == KV_F16 ? 2 : 1);
    if (p->type == KV_INT4 && p->is_k)
        bytes /= 2; /* two channels share their bytes */
    prefetch((const char *)p->b + step * bytes, bytes, p->ahead);
}

/* Adds the products of row `step` of b to the sums of rows [row, row + n_rows) and columns
 * [col, col + n_vectors * LANES). With many rows, a prefill's, arithmetic takes longer than memory.
 */
static ALWAYS_INLINE void cache_step(const struct cache_product *p, V sum[][FEW_VECTORS],
                                     size_t step, size_t row, size_t col, const size_t n_rows,
                                     const size_t n_vectors)
{
    const float *a = p->a + row * p->a_row + step * p->a_step;
    V b[FEW_VECTORS];
    if (n_rows <= QUERIES_FEW && row == 0 && col == 0)
        prefetch_row(p, step);
    UNROLLED_UPTO (v, n_vectors, FEW_VECTORS)
        b[v] = cache_vector(p, step, col + v * LANES);
    UNROLLED_UPTO (j, n_rows, QUERIES_MANY) {
        V value = v_set1(a[j * p->a_row]);
        UNROLLED_UPTO (v, n_vectors, FEW_VECTORS)
            sum[j][v] = v_add(sum[j][v], v_mul(value, b[v]));
    }
}

/* Computes rows [row, row + n_rows) and columns [col, col + n_vectors * LANES). */
static ALWAYS_INLINE void cache_tile(const struct cache_product *p, size_t row, size_t col,
                                     const size_t n_rows, const size_t n_vectors)
{
    V sum[QUERIES_MANY][FEW_VECTORS];
    UNROLLED_UPTO (j, n_rows, QUERIES_MANY)
        UNROLLED_UPTO (v, n_vectors, FEW_VECTORS)
            sum[j][v] = v_zero();
    size_t step = 0;
    if (p->type == KV_INT4 && p->is_k) /* two channels share their bytes */
        for (; step + 2 <= p->n_steps; step += 2) {
            cache_step(p, sum, step, row, col, n_rows, n_vectors);
            cache_step(p, sum, step + 1, row, col, n_rows, n_vectors);
        }
    for (; step < p->n_steps; step++)
        cache_step(p, sum, step, row, col, n_rows, n_vectors);
    UNROLLED_UPTO (j, n_rows, QUERIES_MANY)
        UNROLLED_UPTO (v, n_vectors, FEW_VECTORS) {
            float *out = p->out + (row + j) * p->out_stride + col + v * LANES;
            if (p->rescale)
                sum[j][v] = v_add(v_mul(v_load(out), v_set1(p->rescale[row + j])), sum[j][v]);
            v_store(out, sum[j][v]);
        }
}

static ALWAYS_INLINE void cache_rows(const struct cache_product *p, size_t row, const size_t n_rows,
                                     const size_t n_vectors)
{
    size_t col = 0;
    for (; col + n_vectors * LANES <= p->width; col += n_vectors * LANES)
        cache_tile(p, row, col, n_rows, n_vectors);
    for (; col < p->width; col += 16)
        cache_tile(p, row, col, n_rows, 16 / LANES);
}

static ALWAYS_INLINE void cache_multiply(const struct cache_product *p)
{
    size_t row = 0;
    for (; row + QUERIES_MANY <= p->n_rows; row += QUERIES_MANY)
        cache_rows(p, row, QUERIES_MANY, 16 / LANES);
    for (; row + QUERIES_FEW <= p->n_rows; row += QUERIES_FEW)
        cache_rows(p, row, QUERIES_FEW, FEW_VECTORS);
    for (; row < p->n_rows; row++)
        cache_rows(p, row, 1, FEW_VECTORS);
}

/* row[i] *= factors[i], i < KV_BLOCK */
static inline void scale_row(float *row, const float *factors)
{
    for (size_t i = 0; i < KV_BLOCK; i++)
        row[i] *= factors[i];
}

static inline float largest_score(const float *row, float max)
{
    V largest = v_set1(max);
    UNROLLED (i, KV_BLOCK / LANES)
        largest = v_max(largest, v_load(row + i * LANES));
    return v_reduce_max(largest) + 0.0f; /* no -0 */
}

/* sums (16) = sums * rescale + the 16 partial sums of row */
static inline void add_weights(const float *row, float rescale, float *sums)
{
    UNROLLED (v, 16 / LANES) {
        V sum = v_load(row + v * LANES);
        UNROLLED (i, KV_BLOCK / 16 - 1)
            sum = v_add(sum, v_load(row + (i + 1) * 16 + v * LANES));
        v_store(sums + v * LANES, v_add(v_mul(v_load(sums + v * LANES), v_set1(rescale)), sum));
    }
}

/* Turns all queries' scores into weights, and sets rescale (QUERY_TILE) to the factors for the sums
 * so far. Each step is done for all queries before the next one, so that no query waits for its own
 * previous step. */
static void weigh(const struct attention *a, const struct kv_block *block,
                  const struct kv_range *seen, float rescale[QUERY_TILE])
{
    float largest[QUERY_TILE];
    for (size_t j = 0; j < a->n; j++) {
        float *row = a->scores + j * KV_BLOCK;
        if (block->k_scale)
            scale_row(row, block->k_scale);
        if (a->softcap > 0)
            softcap(row + seen[j].first, seen[j].end - seen[j].first, a->softcap);
        for (size_t i = 0; i < seen[j].first; i++)
            row[i] = -INFINITY; /* weight 0 */
        for (size_t i = seen[j].end; i < KV_BLOCK; i++)
            row[i] = -INFINITY;
        largest[j] = largest_score(row, a->max[j]);
        rescale[j] = a->max[j] - largest[j];
        a->max[j] = largest[j];
    }
    for (size_t j = a->n; j < QUERY_TILE; j++)
        rescale[j] = 0;
    for (size_t j = 0; j < QUERY_TILE; j++)
        rescale[j] = math_exp(rescale[j]);
    for (size_t j = 0; j < a->n; j++)
        for (size_t i = 0; i < KV_BLOCK; i++)
            a->scores[j * KV_BLOCK + i] = math_exp(a->scores[j * KV_BLOCK + i] - largest[j]);
    for (size_t j = 0; j < a->n; j++) {
        add_weights(a->scores + j * KV_BLOCK, rescale[j], a->sums + j * 16);
        if (block->v_scale)
            scale_row(a->scores + j * KV_BLOCK, block->v_scale);
    }
}

static ALWAYS_INLINE void attend(const struct attention *a, const struct kv_block *block,
                                 const struct kv_range *seen, enum kv_type type)
{
    size_t stride = round_up(a->head_dim, 16);
    uint32_t furthest = 0;
    for (size_t j = 0; j < a->n; j++)
        furthest = seen[j].end > furthest ? seen[j].end : furthest;
    cache_multiply(&(struct cache_product){
        .type = type,
        .a = a->queries,
        .a_row = 1,
        .a_step = QUERY_TILE,
        .n_rows = a->n,
        .n_steps = a->head_dim,
        .b = block->k,
        .is_k = true,
        .b_stride = KV_BLOCK,
        .width = round_up(furthest, 16),
        .out = a->scores,
        .out_stride = KV_BLOCK,
        .ahead = read_ahead(),
    });
    float rescale[QUERY_TILE];
    weigh(a, block, seen, rescale);
    cache_multiply(&(struct cache_product){
        .type = type,
        .a = a->scores,
        .a_row = KV_BLOCK,
        .a_step = 1,
        .n_rows = a->n,
        .n_steps = furthest,
        .b = block->v,
        .b_stride = type == KV_INT4 ? kv_v_stride(a->head_dim) : stride,
        .width = stride,
        .rescale = rescale,
        .out = a->values,
        .out_stride = stride,
        .ahead = read_ahead(),
    });
}

/* --- recurrences, one slice at a time ------------------------------------------------------- */

enum { SLICE_VECTORS = SLICE_CHANNELS / LANES };

/* Loads a row of `width` channels; the others are 0. */
static ALWAYS_INLINE void load_slice(const float *row, size_t width, V x[SLICE_VECTORS])
{
    float padded[SLICE_CHANNELS] = {0};
    if (width < SLICE_CHANNELS)
        memcpy(padded, row, width * sizeof *row);
    UNROLLED (v, SLICE_VECTORS)
        x[v] = v_load((width < SLICE_CHANNELS ? padded : row) + v * LANES);
}

static ALWAYS_INLINE void store_slice(float *row, size_t width, const V x[SLICE_VECTORS])
{
    float padded[SLICE_CHANNELS];
    UNROLLED (v, SLICE_VECTORS)
        v_store((width < SLICE_CHANNELS ? padded : row) + v * LANES, x[v]);
    if (width < SLICE_CHANNELS)
        memcpy(row, padded, width * sizeof *row);
}

/* Asks for row j of the states before a token and, ahead of its writing, of those after it. */
static ALWAYS_INLINE void prefetch_rows(const float *before, const float *state, size_t j,
                                        size_t ahead)
{
    prefetch(before + j * SLICE_CHANNELS, SLICE_CHANNELS * sizeof *before, ahead);
    prefetch(state + j * SLICE_CHANNELS, SLICE_CHANNELS * sizeof *state, ahead);
}

static void scan(const struct scan *scan)
{
    const struct scan s = *scan; /* a copy, which the state cannot alias */
    for (size_t t = 0; t < s.n; t++) {
        const float *b = s.b + t * s.stride, *c = s.c + t * s.stride;
        V step = v_set1(s.step[t * s.step_stride]), decay = v_set1(s.decay[t * s.step_stride]);
        V x[SLICE_VECTORS], driven[SLICE_VECTORS], sum[SLICE_VECTORS];
        const float *before = t > 0 ? s.state : s.before;
        size_t ahead = t > 0 ? 0 : read_ahead();
        load_slice(s.x + t * s.stride, s.width, x);
        UNROLLED (v, SLICE_VECTORS) {
            driven[v] = v_mul(x[v], step);
            sum[v] = v_zero();
        }
        for (size_t j = 0; j < s.size; j++) {
            prefetch_rows(before, s.state, j, ahead);
            UNROLLED (v, SLICE_VECTORS) {
                size_t at = j * SLICE_CHANNELS + v * LANES;
                V state = v_add(v_mul(v_load(before + at), decay), v_mul(driven[v], v_set1(b[j])));
                v_store(s.state + at, state);
                sum[v] = v_add(sum[v], v_mul(state, v_set1(c[j])));
            }
        }
        UNROLLED (v, SLICE_VECTORS)
            sum[v] = v_add(sum[v], v_mul(v_set1(s.skip), x[v]));
        store_slice(s.x + t * s.stride, s.width, sum);
    }
}

static void delta_rule(const struct delta_rule *rule)
{
    const struct delta_rule r = *rule;
    for (size_t t = 0; t < r.n; t++) {
        const float *query = r.query + t * r.stride, *key = r.key + t * r.stride;
        V rate = v_set1(r.rate[t * r.step_stride]), decay = v_set1(r.decay[t * r.step_stride]);
        V value[SLICE_VECTORS], recalled[SLICE_VECTORS], sum[SLICE_VECTORS];
        const float *before = t > 0 ? r.state : r.before;
        size_t ahead = t > 0 ? 0 : read_ahead();
        load_slice(r.value + t * r.stride, r.width, value);
        UNROLLED (v, SLICE_VECTORS)
            recalled[v] = sum[v] = v_zero();
        for (size_t j = 0; j < r.size; j++) {
            prefetch_rows(before, r.state, j, ahead);
            UNROLLED (v, SLICE_VECTORS) {
                V state = v_mul(v_load(before + j * SLICE_CHANNELS + v * LANES), decay);
                recalled[v] = v_add(recalled[v], v_mul(state, v_set1(key[j])));
            }
        }
        UNROLLED (v, SLICE_VECTORS)
            value[v] = v_mul(v_sub(value[v], recalled[v]), rate);
        for (size_t j = 0; j < r.size; j++)
            UNROLLED (v, SLICE_VECTORS) {
                size_t at = j * SLICE_CHANNELS + v * LANES;
                V state = v_add(v_mul(v_load(before + at), decay), v_mul(v_set1(key[j]), value[v]));
                v_store(r.state + at, state);
                sum[v] = v_add(sum[v], v_mul(state, v_set1(query[j])));
            }
        store_slice(r.value + t * r.stride, r.width, sum);
    }
}

static void to_f16(const float *x, size_t n, uint16_t *out)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store_f16(out + i, v_load(x + i));
    for (; i < n; i++)
        out[i] = f16_from_f32(x[i]);
}

#define ATTENTION_KERNEL(name, type)                                                               \
    static void attend_##name(const struct attention *attention, const struct kv_block *block,     \
                              const struct kv_range *seen)                                         \
    {                                                                                              \
        attend(attention, block, seen, type);                                                      \
    }

ATTENTION_KERNEL(f32, KV_F32)
ATTENTION_KERNEL(f16, KV_F16)
ATTENTION_KERNEL(int8, KV_INT8)
ATTENTION_KERNEL(int4, KV_INT4)

/* The members of a struct kernels that this file and elementwise_template.h provide. */
#define VECTOR_KERNELS                                                                             \
    .quantize = quantize, .quantize_slice = quantize_slice, .matmul_f32 = matmul_f32,              \
    .matmul_bf16 = matmul_bf16, .rms_norm = rms_norm, .layer_norm = layer_norm, .swiglu = swiglu,  \
    .geglu_tanh = geglu_tanh, .geglu = geglu, .reglu_squared = reglu_squared, .softcap = softcap,  \
    .to_f16 = to_f16, .unit_norm = unit_norm, .convolve = convolve, .scan = scan,                  \
    .delta_rule = delta_rule, .attend = {attend_f32, attend_f16, attend_int8, attend_int4}
