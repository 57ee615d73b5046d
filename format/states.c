/* States of sequences, see states.h. */
#include "format/states.h"

#include <stdbool.h>

#include "format/layout.h"
#include "format/model.h"

_Static_assert((int)STATES_MAX_LAYERS == MODEL_MAX_LAYERS, "a bit for each layer");

static bool reserved_is_zero(const struct blob_states *states)
{
    uint32_t used = 0;
    for (size_t i = 0; i < sizeof states->reserved / sizeof states->reserved[0]; i++)
        used |= states->reserved[i];
    return used == 0;
}

uint32_t smol_states_count(const struct blob_model *model)
{
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < model->n_layers; layer++)
        n += layer_has_state(model, layer);
    return n;
}

/* Checks the set of layers. */
static smol_status check_set(const struct blob_model *model, const uint8_t *layers,
                             smol_error *error)
{
    for (uint32_t i = 0; i < STATES_MAX_LAYERS; i++)
        if (layer_has_state(model, i) && (i >= model->n_layers || (layers && layers[i])))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "layer %u has a state, but %s", i,
                             i >= model->n_layers ? "there is no such layer" : "attention's bits");
    if (smol_states_count(model) == 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no layer has a state");
    return SMOL_OK;
}

smol_status smol_states_check(const struct blob_model *model, const uint8_t *layers,
                              smol_error *error)
{
    const struct blob_states *states = &model->states;
    if (states->kind != STATE_SHORT_CONV)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "kind is %u: unknown", states->kind);
    if (states->taps < 2 || states->taps > STATES_MAX_TAPS)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "taps is %u: must be from 2 to %d",
                         states->taps, STATES_MAX_TAPS);
    if (states->biases > 1)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "biases is %u: must be 0 or 1",
                         states->biases);
    if (!reserved_is_zero(states))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    return check_set(model, layers, error);
}

const char *smol_state_name(enum state_kind kind)
{
    switch (kind) {
    case STATE_SHORT_CONV:
        return "short_conv";
    case STATE_NONE:
        break;
    }
    return "none";
}
