/* Products with grouped dtypes for AMX, whose set is otherwise that of AVX-512. The Makefile
 * compiles this file with AVX-512, VNNI and VBMI; instructions for tiles are written in assembly.
 *
 * A tile instruction multiplies 16 tokens by the 16 rows of a group (Intel's Architecture
 * Instruction Set Extensions, chapter 3). Its sums are integers, so the bits are those of all other
 * sets. */
#if defined(__AVX512VBMI__)

#include "runtime/kernels/avx512vbmi_table.h"

/* --- tiles ---------------------------------------------------------------------------------- */

enum { TILE_TOKENS = 16, LEAST_TOKENS = 7 }; /* fewer are faster with AVX-512 */

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Configures the tiles for n tokens: 0 has steps, 1 weights, 2 and 3 dot products. (gcc 12's
 * intrinsics do not tell the compiler that they read memory.) */
static ALWAYS_INLINE void tiles_start(size_t n)
{
    const struct tile_config config = {
        .palette = 1,
        .row_bytes = {GROUP_INPUTS, QUAD_BYTES, QUAD_BYTES, QUAD_BYTES},
        .rows = {(uint8_t)n, GROUP_QUADS, (uint8_t)n, (uint8_t)n},
    };
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

/* Dot products of the tokens with the rows of a block, and those of the low bytes of wide steps. */
struct dots {
    _Alignas(64) int32_t high[TILE_TOKENS][TILE_ROWS];
    int32_t low[TILE_TOKENS][TILE_ROWS];
};

/* Starts the products of a group: of weights with the steps of tokens, `stride` bytes apart. */
static ALWAYS_INLINE void start_products(const uint8_t *weights, const int8_t *steps, size_t stride,
                                         const bool wide)
{
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm1\n\t"
                     "tileloadd (%2,%3,1), %%tmm0\n\t"
                     "tilezero %%tmm2\n\t"
                     "tdpbssd %%tmm1, %%tmm0, %%tmm2"
                     :
                     : "r"(weights), "r"((size_t)QUAD_BYTES), "r"(steps), "r"(stride)
                     : "memory");
    if (wide)
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm0\n\t"
                         "tilezero %%tmm3\n\t"
                         "tdpbssd %%tmm1, %%tmm0, %%tmm3"
                         :
                         : "r"(steps + GROUP_INPUTS), "r"(stride)
                         : "memory");
}

static ALWAYS_INLINE void store_products(struct dots *dots, const bool wide)
{
    __asm__ volatile("tilestored %%tmm2, (%0,%1,1)"
                     :
                     : "r"(dots->high), "r"((size_t)QUAD_BYTES)
                     : "memory");
    if (wide)
        __asm__ volatile("tilestored %%tmm3, (%0,%1,1)"
                         :
                         : "r"(dots->low), "r"((size_t)QUAD_BYTES)
                         : "memory");
}

/* --- row blocks ----------------------------------------------------------------------------- */

/* A row block of int8 and some tokens, at most TILE_TOKENS. */
struct tile_product {
    const uint8_t *block;
    const struct quantized *x;
    size_t first, ahead; /* the first token; see read_ahead */
};

static ALWAYS_INLINE void start_group(const struct tile_product *p, size_t group, const bool wide)
{
    const uint8_t *weights = p->block + group_weights_offset(DTYPE_INT8, group);
    const size_t stride = quantized_bytes(wide), at = group * p->x->stride + p->first;
    prefetch(weights, group_bytes(DTYPE_INT8) + SCALES_BYTES, p->ahead);
    start_products(weights, p->x->steps + at * stride, stride, wide);
}

/* Returns whether a tile of n tokens, at least LEAST_TOKENS, has token t: without a branch for
 * those that every tile has. */
static ALWAYS_INLINE bool has_token(size_t n, const size_t t)
{
    return t < LEAST_TOKENS || t < n;
}

/* Adds the scaled dot products of a group to the sums of n tokens. */
static ALWAYS_INLINE void add_group(const struct tile_product *p, size_t group,
                                    const struct dots *dots, const bool wide, size_t n,
                                    V sum[TILE_TOKENS])
{
    const float *scales = p->x->scales + group * p->x->stride + p->first;
    const V scale = v_from_f16((const void *)(p->block + group_scales_offset(DTYPE_INT8, group)));
    UNROLLED (t, TILE_TOKENS)
        if (has_token(n, t)) {
            I dot = _mm512_load_si512(dots->high[t]);
            if (wide)
                dot = dot_wide_bytes(dot, _mm512_load_si512(dots->low[t]));
            sum[t] = v_add(sum[t], v_mul(v_from_int(dot), v_mul(scale, v_set1(scales[t]))));
        }
}

/* Multiplies a row block by n tokens. While a group is added, the next one is multiplied: the
 * processor neither forwards the stores of a tile to loads nor lets loads overtake them, so a group
 * is stored after the one before was added, and read after the next one was started. */
static ALWAYS_INLINE void tile_tokens(const struct tile_product *p, size_t n_groups,
                                      const bool wide, size_t n, float *out, size_t out_stride,
                                      bool adds)
{
    struct dots dots[2];
    V sum[TILE_TOKENS];
    UNROLLED (t, TILE_TOKENS)
        sum[t] = adds && has_token(n, t) ? v_load(out + (p->first + t) * out_stride) : v_zero();
    start_group(p, 0, wide);
    store_products(&dots[0], wide);
    if (n_groups > 1)
        start_group(p, 1, wide);
    for (size_t group = 0; group < n_groups; group++) {
        add_group(p, group, &dots[group % 2], wide, n, sum);
        if (group + 1 < n_groups)
            store_products(&dots[(group + 1) % 2], wide);
        if (group + 2 < n_groups)
            start_group(p, group + 2, wide);
    }
    UNROLLED (t, TILE_TOKENS)
        if (has_token(n, t))
            v_store(out + (p->first + t) * out_stride, sum[t]);
}

/* Multiplies row blocks by the first n tokens of x: full tiles, then the rest. */
static ALWAYS_INLINE void tile_blocks(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                                      const struct quantized *x, const bool wide, size_t n,
                                      float *out, size_t out_stride, bool adds)
{
    size_t each = TILE_TOKENS;
    for (size_t begin = 0, end; begin < n; begin = end) {
        each = n - begin < each ? n - begin : each;
        end = n - (n - begin) % each;
        tiles_start(each);
        for (size_t i = 0; i < n_blocks; i++)
            for (size_t t = begin; t < end; t += each) {
                const struct tile_product product = {
                    .block = blocks + i * grouped_block_bytes(DTYPE_INT8, n_groups),
                    .x = x,
                    .first = t,
                    .ahead = t == 0 ? read_ahead() : 0,
                };
                tile_tokens(&product, n_groups, wide, each, out + i * TILE_ROWS, out_stride, adds);
            }
    }
}

#define GROUPED_SET avx512amx
#define OTHER_INT8_SET avx512amx
#include "runtime/kernels/grouped_template.h"

void smol_avx512_int8_blocks(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                             const struct quantized *x, float *out, size_t out_stride, bool adds);

/* Few tokens are multiplied by AVX-512. Keeps the thread's configuration of tiles, on which other
 * code may rely. */
ONE_COPY void smol_avx512amx_int8_blocks(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                                         const struct quantized *x, float *out, size_t out_stride,
                                         bool adds)
{
    const size_t rest = x->n % TILE_TOKENS, n = rest < LEAST_TOKENS ? x->n - rest : x->n;
    struct quantized few = quantized_from(*x, n);
    struct tile_config before;
    few.n -= n;
    if (n > 0) {
        __asm__ volatile("sttilecfg %0" : "=m"(before));
        if (x->wide)
            tile_blocks(blocks, n_blocks, n_groups, x, true, n, out, out_stride, adds);
        else
            tile_blocks(blocks, n_blocks, n_groups, x, false, n, out, out_stride, adds);
        __asm__ volatile("ldtilecfg %0" ::"m"(before));
    }
    if (few.n > 0)
        smol_avx512_int8_blocks(blocks, n_blocks, n_groups, &few, out + n * out_stride, out_stride,
                                adds);
}

#else
typedef int smol_no_avx512amx_here; /* ISO C requires a declaration in every file */
#endif
