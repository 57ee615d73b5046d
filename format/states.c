/* States of sequences, see model.h. */
#include "format/model.h"

#include <stdbool.h>

#include "common/checked.h"
#include "format/layout.h"

uint32_t smol_states_count(const struct blob_model *model)
{
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < model->n_layers; layer++)
        n += layer_has_state(model, layer);
    return n;
}

bool smol_model_attends(const struct blob_model *model)
{
    bool attends = false;
    for (uint32_t layer = 0; layer < model->n_layers; layer++)
        attends |= layer_attends(model, layer);
    return attends;
}

uint64_t smol_states_width(const struct blob_model *model)
{
    const struct blob_states *states = &model->states;
    return states->kind == STATE_SHORT_CONV ? model->hidden_size
                                            : (uint64_t)states->n_heads * states->head_dim;
}

uint64_t smol_states_channels(const struct blob_model *model)
{
    const struct blob_states *states = &model->states;
    return smol_states_width(model) + 2 * (uint64_t)states->n_groups * states->size;
}

uint64_t smol_states_inputs(const struct blob_model *model)
{
    return (model->states.kind == STATE_SHORT_CONV ? 3 : 1) * smol_states_channels(model);
}

uint32_t smol_states_slices(const struct blob_model *model)
{
    return (model->states.head_dim + 15) / 16;
}

uint64_t smol_states_floats(const struct blob_model *model)
{
    const struct blob_states *states = &model->states;
    return (states->taps - 1) * smol_states_channels(model) +
           (uint64_t)states->n_heads * smol_states_slices(model) * states->size * 16;
}

/* Checks the sizes of a recurrence. */
static smol_status check_recurrence(const struct blob_states *states, smol_error *error)
{
    const struct field_range ranges[] = {
        {"n_heads", states->n_heads, 1, STATES_MAX_HEADS},
        {"head_dim", states->head_dim, 1, STATES_MAX_SIZE},
        {"size", states->size, 1, STATES_MAX_SIZE},
        {"n_groups", states->n_groups, 1, STATES_MAX_HEADS},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    if (status)
        return status;
    if (states->n_heads % states->n_groups)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "n_heads is %u: not a multiple of n_groups %u",
                         states->n_heads, states->n_groups);
    return SMOL_OK;
}

/* Checks that a convolution alone has no sizes of a recurrence. */
static smol_status check_short_conv(const struct blob_states *states, smol_error *error)
{
    if (states->n_heads | states->head_dim | states->size | states->n_groups)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "n_heads is %u, head_dim %u, size %u, n_groups %u: must be 0, because a "
                         "short convolution has no heads",
                         states->n_heads, states->head_dim, states->size, states->n_groups);
    return SMOL_OK;
}

/* Checks the set of layers. A state in place of attention leaves no use for attention's bits. */
static smol_status check_set(const struct blob_model *model, const uint8_t *layers,
                             smol_error *error)
{
    bool parallel = model->hybrid.parallel;
    for (uint32_t i = 0; i < STATES_MAX_LAYERS; i++) {
        if (!layer_has_state(model, i))
            continue;
        if (i >= model->n_layers)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "layer %u has a state, but there is no such layer", i);
        if (layers && layers[i] && !parallel)
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "layer %u has bits %u for attention, but a state in its place", i,
                             layers[i]);
    }
    if (smol_states_count(model) == 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no layer has a state");
    if (!smol_model_attends(model))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no layer attends: one must");
    return SMOL_OK;
}

smol_status smol_states_check(const struct blob_model *model, const uint8_t *layers,
                              smol_error *error)
{
    const struct blob_states *states = &model->states;
    const struct field_range ranges[] = {
        {"kind", states->kind, STATE_SHORT_CONV, STATE_DELTA},
        {"taps", states->taps, 2, STATES_MAX_TAPS},
        {"biases", states->biases, 0, 1},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    if (status)
        return status;
    if (states->kind != STATE_MAMBA2 && model->hybrid.parallel)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "kind is %u: only Mamba2 stands side by side with attention",
                         states->kind);
    status = states->kind == STATE_SHORT_CONV ? check_short_conv(states, error)
                                              : check_recurrence(states, error);
    if (status)
        return status;
    if (!all_zero(states->reserved, sizeof states->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    return check_set(model, layers, error);
}

const char *smol_state_name(enum state_kind kind)
{
    switch (kind) {
    case STATE_SHORT_CONV:
        return "short_conv";
    case STATE_MAMBA2:
        return "mamba2";
    case STATE_DELTA:
        return "delta";
    case STATE_NONE:
        break;
    }
    return "none";
}
