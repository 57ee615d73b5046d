/* Attention and states side by side: the section, see struct blob_hybrid. */
#ifndef SMOL_FORMAT_HYBRID_H
#define SMOL_FORMAT_HYBRID_H

#include "common/error.h"
#include "format/format.h"

/* Checks model->hybrid, of a file that requires FEATURE_HYBRID, against itself and the checked
 * model. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_hybrid_check(const struct blob_model *model, smol_error *error);

/* Returns the name of a place of the norm, such as "late". */
const char *smol_mixer_norm_name(enum mixer_norm norm);

#endif
