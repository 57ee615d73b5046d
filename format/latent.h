/* Attention to latent vectors: the section, see struct blob_latent. */
#ifndef SMOL_FORMAT_LATENT_H
#define SMOL_FORMAT_LATENT_H

#include <stdbool.h>

#include "common/error.h"
#include "format/format.h"

/* Checks model->latent, of a file that requires FEATURE_LATENT, against itself and the checked
 * model. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_latent_check(const struct blob_model *model, smol_error *error);

/* Returns whether the model attends to latent vectors. */
static inline bool model_has_latent(const struct blob_model *model)
{
    return model->latent.kv_rank > 0;
}

/* Return the rows of ROLE_ATTN_Q, and the columns of ROLE_ATTN_O. */
uint64_t smol_query_width(const struct blob_model *model);
uint64_t smol_attended_width(const struct blob_model *model);

#endif
