/* Attention and states side by side, see model.h. */
#include "format/model.h"

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
    const struct field_real scales[] = {
        {"attention_in", h->attention_in, false},
        {"attention_out", h->attention_out, false},
        {"mixer_in", h->mixer_in, false},
        {"mixer_out", h->mixer_out, false},
        {"gate", h->gate, false},
        {"x", h->x, false},
        {"b", h->b, false},
        {"c", h->c, false},
        {"step", h->step, false},
        {"mlp_gate", h->mlp_gate, false},
        {"mlp_out", h->mlp_out, false},
    };
    return smol_check_reals(scales, sizeof scales / sizeof scales[0], error);
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
