/* Sampling defaults, see config_parts.h. The limits are those of the reference's samplers; a
 * temperature of 0 passes, because people write it for "greedy". */
#include <float.h>
#include <stddef.h>
#include <string.h>

#include "convert/checkpoint/config_parts.h"

static const struct {
    const char *key;
    enum generation_field bit;
    size_t offset; /* of the float in struct blob_generation */
    double min, max;
} reals[] = {
    {"temperature", GENERATION_TEMPERATURE, offsetof(struct blob_generation, temperature), 0, 1e6},
    {"top_p", GENERATION_TOP_P, offsetof(struct blob_generation, top_p), 0, 1},
    {"min_p", GENERATION_MIN_P, offsetof(struct blob_generation, min_p), 0, 1},
    {"repetition_penalty", GENERATION_REPETITION_PENALTY,
     offsetof(struct blob_generation, repetition_penalty), FLT_MIN, 1e6},
};

static smol_status read_reals(const struct json_settings *generation,
                              struct blob_generation *defaults)
{
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = 0;
        smol_status status =
            smol_setting_real(generation, reals[i].key, reals[i].min, reals[i].max, &value);
        if (status)
            return status;
        float stored = (float)value;
        memcpy((char *)defaults + reals[i].offset, &stored, sizeof stored);
        if (smol_setting(generation, reals[i].key))
            defaults->present |= reals[i].bit;
    }
    return SMOL_OK;
}

smol_status smol_config_read_generation(const struct json_settings *generation,
                                        struct blob_generation *defaults)
{
    smol_status status = smol_setting_flag(generation, "do_sample", &defaults->do_sample);
    if (!status)
        status = smol_setting_integer(generation, "top_k", 0, INT32_MAX, &defaults->top_k);
    if (status)
        return status;
    if (smol_setting(generation, "do_sample"))
        defaults->present |= GENERATION_DO_SAMPLE;
    if (smol_setting(generation, "top_k"))
        defaults->present |= GENERATION_TOP_K;
    return read_reals(generation, defaults);
}
