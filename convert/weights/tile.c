/* Tiling for any processor, and the choice of the instruction set, see tile.h. */
#define TILE_BLOCK smol_tile_block_baseline
#define ROUND_TRIP smol_tile_round_trip_baseline
#define GROUP_SCALE smol_group_scale_baseline
#define GROUP_CODES smol_group_codes_baseline
#include "convert/weights/tile_template.h"

#include "common/cpu.h"
#include "convert/weights/feedback.h"

struct tile_fault smol_tile_block(const struct safetensors_tensor *source,
                                  const struct blob_tensor *layout, const struct tile_rule *rule,
                                  uint64_t row, float *scratch, uint8_t *out)
{
    if (layout->dtype > DTYPE_INT8 && rule->factor)
        return smol_feedback_block(source, layout, rule, row, scratch, out);
#if defined(__x86_64__)
    if (smol_cpu_has(CPU_AVX2))
        return smol_tile_block_avx2(source, layout, rule, row, scratch, out);
#endif
    return smol_tile_block_baseline(source, layout, rule, row, scratch, out);
}

bool smol_tile_round_trip(const float *values, uint64_t n, float *out)
{
#if defined(__x86_64__)
    if (smol_cpu_has(CPU_AVX2))
        return smol_tile_round_trip_avx2(values, n, out);
#endif
    return smol_tile_round_trip_baseline(values, n, out);
}

uint16_t smol_group_scale(const struct level_search *search, const float *values,
                          const float *importance)
{
#if defined(__x86_64__)
    if (smol_cpu_has(CPU_AVX2))
        return smol_group_scale_avx2(search, values, importance);
#endif
    return smol_group_scale_baseline(search, values, importance);
}

struct tile_fault smol_tile_check(const float *values, uint64_t n, uint64_t start)
{
    struct tile_fault fault = find_not_finite(values, n, start);
    for (uint64_t i = 0; !fault.status && i < n; i++)
        if (values[i] > MAX_SCALED || values[i] < -MAX_SCALED)
            fault = (struct tile_fault){SMOL_ERROR_UNSUPPORTED, start + i, values[i],
                                        "is too large for f16 scales"};
    return fault;
}

struct tile_fault smol_tile_vector(const struct safetensors_tensor *source,
                                   const struct blob_tensor *layout, uint8_t *out)
{
    uint64_t n = layout->rows * layout->cols;
    memset(out, 0, layout->size);
    tensor_widen(source, 0, n, (float *)out);
    return find_not_finite((float *)out, n, 0);
}
