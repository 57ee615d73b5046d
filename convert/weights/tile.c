/* Tiling for any machine, and the choice of the instruction set, see tile.h. */
#define TILE_BLOCK smol_tile_block_baseline
#define ROUND_TRIP smol_tile_round_trip_baseline
#include "convert/weights/tile_template.h"

#include "common/cpu.h"

bool smol_tile_takes(enum safetensors_dtype dtype)
{
    return dtype == ST_F32 || dtype == ST_F16 || dtype == ST_BF16 || dtype == ST_F8_E4M3 ||
           dtype == ST_F8_E5M2;
}

void smol_tile_widen(const struct safetensors_tensor *source, uint64_t start, uint64_t n,
                     float *out)
{
    widen(source, start, n, out);
}

struct tile_fault smol_tile_block(const struct safetensors_tensor *source,
                                  const struct blob_tensor *layout, uint64_t row, float *scratch,
                                  uint8_t *out)
{
#if defined(__x86_64__)
    if (smol_cpu_has_avx2())
        return smol_tile_block_avx2(source, layout, row, scratch, out);
#endif
    return smol_tile_block_baseline(source, layout, row, scratch, out);
}

bool smol_tile_round_trip(const float *values, uint64_t n, float *out)
{
#if defined(__x86_64__)
    if (smol_cpu_has_avx2())
        return smol_tile_round_trip_avx2(values, n, out);
#endif
    return smol_tile_round_trip_baseline(values, n, out);
}

struct tile_fault smol_tile_vector(const struct safetensors_tensor *source,
                                   const struct blob_tensor *layout, uint8_t *out)
{
    memset(out, 0, layout->size);
    widen(source, 0, layout->cols, (float *)out);
    return find_not_finite((float *)out, layout->cols, 0);
}
