/* Mixtures of experts: the section, see struct blob_experts. */
#ifndef SMOL_FORMAT_EXPERTS_H
#define SMOL_FORMAT_EXPERTS_H

#include <stdbool.h>

#include "common/error.h"
#include "format/format.h"

/* Checks model->experts, of a file that requires FEATURE_EXPERTS, against itself and the checked
 * model. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_experts_check(const struct blob_model *model, smol_error *error);

/* Returns whether a layer has experts. */
bool smol_layer_is_sparse(const struct blob_model *model, uint32_t layer);

/* Returns the number of layers that have. */
uint32_t smol_experts_layers(const struct blob_model *model);

/* Returns the intermediate size of a layer's MLP, in a sparse layer of the one beside the experts,
 * or 0 if it has none. */
uint32_t smol_mlp_width(const struct blob_model *model, uint32_t layer);

/* Returns the number of weights that a token uses: all but those of the experts that it does not.
 */
uint64_t smol_experts_active(const struct blob_model *model);

/* Returns a name such as "softmax". */
const char *smol_scoring_name(enum expert_scoring scoring);

#endif
