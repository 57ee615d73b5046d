/* Attention and states side by side, see model.h. */
#include "format/model.h"

#include "common/number.h"

static smol_status check_scales(const struct blob_hybrid *h, smol_error *error)
{
    const struct {
        const char *name;
        float value;
    } scales[] = {
        {"attention_in", h->attention_in},
        {"attention_out", h->attention_out},
        {"mixer_in", h->mixer_in},
        {"mixer_out", h->mixer_out},
        {"gate", h->gate},
        {"x", h->x},
        {"b", h->b},
        {"c", h->c},
        {"step", h->step},
        {"mlp_gate", h->mlp_gate},
        {"mlp_out", h->mlp_out},
    };
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
        if (!(scales[i].value > 0) || !f32_is_finite(scales[i].value))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "%s is %g: must be finite and above 0",
                             scales[i].name, (double)scales[i].value);
    return SMOL_OK;
}

smol_status smol_hybrid_check(const struct blob_model *model, smol_error *error)
{
    const struct blob_hybrid *h = &model->hybrid;
    const struct field_range ranges[] = {
        {"parallel", h->parallel, 1, 1},         {"norm", h->norm, 0, MIXER_NORM_COUNT - 1},
        {"input_biases", h->input_biases, 0, 1}, {"output_bias", h->output_bias, 0, 1},
        {"a reserved field", h->reserved, 0, 0},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    if (status)
        return status;
    if (model->blocks & (BLOCK_NORM_OUTPUTS | BLOCK_NO_INPUT_NORMS | BLOCK_NO_GATE |
                         BLOCK_PARALLEL | BLOCK_ONE_NORM | BLOCK_ATTENTION_GATE))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "blocks is %u: not with attention and states side by side", model->blocks);
    return check_scales(h, error);
}

const char *smol_mixer_norm_name(enum mixer_norm norm)
{
    switch (norm) {
    case MIXER_NORM_LATE:
        return "late";
    case MIXER_NORM_EARLY:
        return "early";
    case MIXER_NORM_NONE:
        return "none";
    case MIXER_NORM_COUNT:
        break;
    }
    return "?";
}
