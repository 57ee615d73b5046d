/* Products with grouped dtypes for AMX, whose set is otherwise that of AVX-512. The Makefile
 * compiles this file with AVX-512, VNNI and VBMI; instructions for tiles are written in assembly.
 *
 * A tile instruction multiplies 16 tokens by the 16 rows of a group (Intel's Architecture
 * Instruction Set Extensions, chapter 3). Its sums are integers, so the bits are those of all other
 * sets. */
#if defined(__AVX512VBMI__)

#include "runtime/kernels/avx512vbmi_table.h"

/* --- tiles ---------------------------------------------------------------------------------- */

enum { TILE_TOKENS = 16 };

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Configures the tiles: 0 has steps, 1 weights, 2 dot products. Keeps the configuration before, for
 * code on this thread that relies on its own. (gcc 12's intrinsics do not tell the compiler that
 * they read memory.) */
static ALWAYS_INLINE void tiles_start(struct tile_config *before)
{
    static const struct tile_config config = {
        .palette = 1,
        .row_bytes = {GROUP_INPUTS, QUAD_BYTES, QUAD_BYTES},
        .rows = {TILE_TOKENS, GROUP_QUADS, TILE_TOKENS},
    };
    __asm__ volatile("sttilecfg %0" : "=m"(*before));
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

static ALWAYS_INLINE void tiles_end(const struct tile_config *before)
{
    __asm__ volatile("ldtilecfg %0" ::"m"(*before));
}

static ALWAYS_INLINE void load_weights_tile(const uint8_t *weights)
{
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm1" ::"r"(weights), "r"((size_t)QUAD_BYTES)
                     : "memory");
}

/* dots (TILE_TOKENS, TILE_ROWS) = the steps of 16 tokens, `stride` bytes apart, times the loaded
 * weights. */
static ALWAYS_INLINE void multiply_tiles(const int8_t *steps, size_t stride,
                                         int32_t dots[TILE_TOKENS][TILE_ROWS])
{
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm0\n\t"
                     "tilezero %%tmm2\n\t"
                     "tdpbssd %%tmm1, %%tmm0, %%tmm2\n\t"
                     "tilestored %%tmm2, (%2,%3,1)"
                     :
                     : "r"(steps), "r"(stride), "r"(dots), "r"((size_t)QUAD_BYTES)
                     : "memory");
}

/* --- row blocks ----------------------------------------------------------------------------- */

/* Multiplies one int8 row block by tokens [first, first + TILE_TOKENS). */
static ALWAYS_INLINE void tile_tokens(const uint8_t *block, size_t n_groups,
                                      const struct quantized *x, const bool wide, size_t first,
                                      float *out, size_t out_stride, bool adds)
{
    const size_t stride = quantized_bytes(wide), ahead = first == 0 ? read_ahead() : 0;
    V sum[TILE_TOKENS];
    UNROLLED (t, TILE_TOKENS)
        sum[t] = adds ? v_load(out + (first + t) * out_stride) : v_zero();
    for (size_t group = 0; group < n_groups; group++) {
        _Alignas(64) int32_t dots[TILE_TOKENS][TILE_ROWS], low[TILE_TOKENS][TILE_ROWS];
        const size_t at = group * x->stride + first;
        const int8_t *steps = x->steps + at * stride;
        const uint8_t *weights = block + group_weights_offset(DTYPE_INT8, group);
        prefetch(weights, group_bytes(DTYPE_INT8) + SCALES_BYTES, ahead);
        load_weights_tile(weights);
        multiply_tiles(steps, stride, dots);
        if (wide)
            multiply_tiles(steps + GROUP_INPUTS, stride, low);
        const V scale = v_from_f16((const void *)(block + group_scales_offset(DTYPE_INT8, group)));
        UNROLLED (t, TILE_TOKENS) {
            I dot = _mm512_load_si512(dots[t]);
            if (wide)
                dot = dot_wide_bytes(dot, _mm512_load_si512(low[t]));
            V factor = v_mul(scale, v_set1(x->scales[at + t]));
            sum[t] = v_add(sum[t], v_mul(v_from_int(dot), factor));
        }
    }
    UNROLLED (t, TILE_TOKENS)
        v_store(out + (first + t) * out_stride, sum[t]);
}

static ALWAYS_INLINE void tile_blocks(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                                      const struct quantized *x, const bool wide, float *out,
                                      size_t out_stride, bool adds)
{
    const size_t block_bytes = grouped_block_bytes(DTYPE_INT8, n_groups);
    struct tile_config before;
    tiles_start(&before);
    for (size_t i = 0; i < n_blocks; i++)
        for (size_t t = 0; t + TILE_TOKENS <= x->n; t += TILE_TOKENS)
            tile_tokens(blocks + i * block_bytes, n_groups, x, wide, t, out + i * TILE_ROWS,
                        out_stride, adds);
    tiles_end(&before);
}

#define GROUPED_SET avx512amx
#define OTHER_INT8_SET avx512amx
#include "runtime/kernels/grouped_template.h"

void smol_avx512_int8_blocks(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                             const struct quantized *x, float *out, size_t out_stride, bool adds);

/* Tokens that do not fill a tile are multiplied by AVX-512. */
ONE_COPY void smol_avx512amx_int8_blocks(const uint8_t *blocks, size_t n_blocks, size_t n_groups,
                                         const struct quantized *x, float *out, size_t out_stride,
                                         bool adds)
{
    const size_t n = x->n / TILE_TOKENS * TILE_TOKENS;
    struct quantized rest = quantized_from(*x, n);
    rest.n -= n;
    if (n > 0 && x->wide)
        tile_blocks(blocks, n_blocks, n_groups, x, true, out, out_stride, adds);
    else if (n > 0)
        tile_blocks(blocks, n_blocks, n_groups, x, false, out, out_stride, adds);
    if (rest.n > 0)
        smol_avx512_int8_blocks(blocks, n_blocks, n_groups, &rest, out + n * out_stride, out_stride,
                                adds);
}

#else
typedef int smol_no_avx512amx_here; /* ISO C requires a declaration in every file */
#endif
