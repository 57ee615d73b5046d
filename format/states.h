/* States of sequences: the section, see struct blob_states. */
#ifndef SMOL_FORMAT_STATES_H
#define SMOL_FORMAT_STATES_H

#include "common/error.h"
#include "format/format.h"

/* Checks model->states, of a file that requires FEATURE_STATES, against itself and the checked
 * model. `layers` (n_layers) are bits of enum layer_bit, or NULL. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_states_check(const struct blob_model *model, const uint8_t *layers,
                              smol_error *error);

/* Returns the number of layers with a state. */
uint32_t smol_states_count(const struct blob_model *model);

/* Return the rows of ROLE_MIXER_IN, the channels of a layer's convolution, and the width of its
 * output before the last product. */
uint64_t smol_states_inputs(const struct blob_model *model);
uint64_t smol_states_channels(const struct blob_model *model);
uint64_t smol_states_width(const struct blob_model *model);

/* Returns the floats of a layer's state of one sequence: the convolution's window (taps - 1,
 * channels), then, for each head, the slices of smol_states_slices (size, 16 channels). */
uint64_t smol_states_floats(const struct blob_model *model);

/* Returns the slices of a head: each has the states of 16 channels, the last one of fewer. */
uint32_t smol_states_slices(const struct blob_model *model);

/* Returns the name of a kind, such as "short_conv". */
const char *smol_state_name(enum state_kind kind);

#endif
