/* Tiling for any machine, and the choice of the instruction set, see tile.h. */
#define TILE_BLOCK smol_tile_block_baseline
#include "convert/tile_template.h"

#include "common/cpu.h"

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

struct tile_fault smol_tile_vector(const struct safetensors_tensor *source,
                                   const struct blob_tensor *layout, uint8_t *out)
{
    memset(out, 0, layout->size);
    widen(source, 0, layout->cols, (float *)out);
    return find_not_finite((float *)out, layout->cols, 0);
}
