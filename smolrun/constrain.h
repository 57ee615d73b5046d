/* The constraint of a command line. */
#ifndef SMOL_SMOLRUN_CONSTRAIN_H
#define SMOL_SMOLRUN_CONSTRAIN_H

#include "cli/request/constraints.h"
#include "cli/text.h"
#include "smolrun/settings.h"

/* Reads the constraint of the settings: of --json-schema, --regex, --grammar or --choices. Unless
 * it is given, there is none. Free wanted->text with smol_free. Errors: USAGE (several options),
 * FILE. */
smol_status smol_constrain_read(const struct settings *settings, struct wanted_constraint *wanted,
                                smol_error *error);

/* Compiles the constraint that smol_constrain_read has found, in place of *constraint, which is
 * NULL if there is none. Free it with smol_constraint_free. Errors: those of
 * smol_constraint_create. */
smol_status smol_constrain(const struct settings *settings, const smol_model *model,
                           const struct wanted_constraint *wanted, smol_constraint **constraint,
                           smol_error *error);

/* The place of an answer in its constraint, as bytes of a session's data (format/SESSION.md, 5):
 * its tokens, and which constraint it is. Empty: the answer has none, or is complete. */

/* Returns the size of the place that a session's data begin with, or 0. */
size_t smol_place_size(const void *data, size_t size);

/* Stores the place of a matcher. Errors: MEMORY. */
smol_status smol_place_store(struct buffer *place, const smol_constraint *constraint,
                             const smol_matcher *matcher, smol_error *error);

/* Creates a matcher at that place. If the answer began with other reasoning before the same
 * constraint, compiles that one in place of *constraint, and sets wanted->reasoning. *matcher is
 * NULL if there is no constraint. Errors: USAGE (another constraint), those of smol_constrain and
 * smol_matcher_accept. */
smol_status smol_place_find(const struct buffer *place, const struct settings *settings,
                            const smol_model *model, struct wanted_constraint *wanted,
                            smol_constraint **constraint, smol_matcher **matcher,
                            smol_error *error);

#endif
