/* Hyper-parameters: their ranges, the implicit values of the plain Llama block, and what follows
 * from them for layers with experts and states. */
#ifndef SMOL_FORMAT_MODEL_H
#define SMOL_FORMAT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/format.h"

/* The largest sizes of a model, except MAX_HEAD_DIM. They bound products: a matrix has at most 2^24
 * rows and 2^22 columns, or 2^34 and 2^12, so a tensor has less than 2^49 bytes. All tensors
 * together may have more than 2^64, because each layer may have MODEL_MAX_EXPERTS experts: the
 * reader checks each addition (front_tensors.c). */
enum {
    MODEL_MAX_LAYERS = STATES_MAX_LAYERS,
    MODEL_MAX_HIDDEN = 1 << 20,
    MODEL_MAX_INTERMEDIATE = 1 << 22,
    MODEL_MAX_EXPERTS = 1 << 10,
    MODEL_MAX_HEADS = 1 << 12, /* of queries, and of keys and values */
    MODEL_MAX_VOCAB = 1 << 24,
    MODEL_MAX_CONTEXT = 1 << 24,
    VARIED_MAX_INPUT = 1 << 12, /* numbers of a token for each layer */
};

/* A field of a section, and the least and the most that it may be. */
struct field_range {
    const char *name;
    uint32_t value, low, high;
};

/* Checks n fields. Errors: SMOL_ERROR_DAMAGED, naming field and value. */
smol_status smol_check_ranges(const struct field_range *ranges, size_t n, smol_error *error);

/* A field that is finite and above 0 or, if may_be_zero, 0 but not -0. */
struct field_real {
    const char *name;
    float value;
    bool may_be_zero;
};

/* Checks n fields. Errors: SMOL_ERROR_DAMAGED, naming field and value. */
smol_status smol_check_reals(const struct field_real *reals, size_t n, smol_error *error);

/* Checks every hyper-parameter against its range and against the others, so that the size of no
 * tensor overflows 64 bits. Errors: SMOL_ERROR_DAMAGED, naming field and value. */
smol_status smol_model_check(const struct blob_model *model, smol_error *error);

/* Checks layers (n_layers), bits of enum layer_bit, against each other and the checked model.
 * Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_layers_check(const struct blob_model *model, const uint8_t *layers,
                              smol_error *error);

/* Sets the fields from `blocks` on to the values of the plain Llama block if all of them are
 * zero. */
void smol_model_fill(struct blob_model *model);

/* Returns whether the fields from `blocks` on are zero, so that the model requires no feature. */
bool smol_model_is_plain(const struct blob_model *model);

/* Returns whether the model requires FEATURE_COMPONENTS. */
bool smol_model_has_components(const struct blob_model *model);

/* Returns whether the model requires FEATURE_FURTHER. */
bool smol_model_has_further(const struct blob_model *model);

/* Returns whether a model with FEATURE_ENCODER requires FEATURE_AROUND. */
bool smol_encoder_needs_around(const struct blob_model *model, const struct blob_encoder *encoder);

/* Returns whether model and layers (n_layers, or NULL: all zero) require FEATURE_BLOCKS. If they do
 * not, sets the fields from `blocks` on to zero, so that each model has only one representation. */
bool smol_model_reduce(struct blob_model *model, const uint8_t *layers);

/* Returns the name of an activation, such as "gelu_tanh". */
const char *smol_activation_name(enum activation activation);

/* Returns the number of floats in the section inv_freq, in all tables. */
size_t smol_inv_freq_count(const struct blob_model *model);

/* --- experts.c: the section of struct blob_experts ------------------------------------------ */

/* Checks model->experts, of a file that requires FEATURE_EXPERTS, against itself and the checked
 * model. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_experts_check(const struct blob_model *model, smol_error *error);

/* Returns whether a layer has experts. */
bool smol_layer_is_sparse(const struct blob_model *model, uint32_t layer);

/* Returns the number of such layers. */
uint32_t smol_experts_layers(const struct blob_model *model);

/* Returns whether a layer has one MLP of intermediate_size. */
bool smol_has_dense(const struct blob_model *model);

/* Returns the intermediate size of a layer's MLP. In a sparse layer this is the MLP that all tokens
 * use beside the experts; 0: there is none. */
uint32_t smol_mlp_width(const struct blob_model *model, uint32_t layer);

/* Returns the number of weights that a token uses: all except those of experts not chosen for it.
 */
uint64_t smol_experts_active(const struct blob_model *model);

/* Returns a name such as "softmax". */
const char *smol_scoring_name(enum expert_scoring scoring);

/* --- hybrid.c: attention and states side by side, struct blob_hybrid ------------------------ */

/* Checks model->hybrid, of a file that requires FEATURE_HYBRID, against itself and the checked
 * model. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_hybrid_check(const struct blob_model *model, smol_error *error);

/* Returns the name of a place of the norm, such as "late". */
const char *smol_mixer_norm_name(enum mixer_norm norm);

/* --- latent.c: attention to latent vectors, struct blob_latent -------------------------------- */

/* Checks model->latent, of a file that requires FEATURE_LATENT, against itself and the checked
 * model. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_latent_check(const struct blob_model *model, smol_error *error);

/* Returns whether the model attends to latent vectors. */
static inline bool model_has_latent(const struct blob_model *model)
{
    return model->latent.kv_rank > 0;
}

/* Return the rows of a layer's ROLE_ATTN_Q, and the columns of its ROLE_ATTN_O. */
uint64_t smol_query_width(const struct blob_model *model, uint32_t layer);
uint64_t smol_attended_width(const struct blob_model *model, uint32_t layer);

/* --- varied.c: layers that differ in shape, struct blob_varied -------------------------------- */

/* Checks model->varied, of a file that requires FEATURE_VARIED, against itself, the checked model
 * and `layers` (n_layers), bits of enum layer_bit. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_varied_check(const struct blob_model *model, const uint8_t *layers,
                              smol_error *error);

/* Returns whether the model's layers differ in shape. */
static inline bool model_is_varied(const struct blob_model *model)
{
    return model->varied.head_dim > 0;
}

/* Return the shape of a layer's heads, and the channels and the number of keys of all layers with
 * the most. */
uint32_t smol_head_dim(const struct blob_model *model, uint32_t layer);
uint32_t smol_kv_heads(const struct blob_model *model, uint32_t layer);
uint32_t smol_most_head_dim(const struct blob_model *model);
uint64_t smol_most_key_width(const struct blob_model *model);

/* Returns whether a layer's values are its keys before their norm and rotation. */
bool smol_values_are_keys(const struct blob_model *model, uint32_t layer);

/* Returns the layer whose keys and values a layer attends to: itself, or an earlier one. */
uint32_t smol_kv_source(const struct blob_model *model, uint32_t layer);

/* --- partial.c: layers that lack a block, struct blob_partial --------------------------------- */

/* Checks model->partial, of a file that requires FEATURE_PARTIAL, against itself, the checked model
 * and `layers` (n_layers), bits of enum layer_bit. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_partial_check(const struct blob_model *model, const uint8_t *layers,
                               smol_error *error);

/* Returns whether a layer of the model lacks a block. */
bool smol_model_is_partial(const struct blob_model *model);

/* --- states.c: states of sequences, struct blob_states -------------------------------------- */

/* Checks model->states, of a file that requires FEATURE_STATES, against itself and the checked
 * model. `layers` (n_layers) are bits of enum layer_bit, or NULL. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_states_check(const struct blob_model *model, const uint8_t *layers,
                              smol_error *error);

/* Returns the number of layers with a state, and whether any layer attends. */
uint32_t smol_states_count(const struct blob_model *model);
bool smol_model_attends(const struct blob_model *model);

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
