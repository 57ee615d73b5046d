/* Constraints of the output: of a command line, and of the requests of a batch. */
#ifndef SMOL_SMOLRUN_CONSTRAIN_H
#define SMOL_SMOLRUN_CONSTRAIN_H

#include "smolrun/settings.h"

/* Compiles the constraint of the settings: of --json-schema, --regex, --grammar or --choices.
 * *constraint is NULL if there is none. Free it with smol_constraint_free. Errors: USAGE (several
 * options), FILE, those of smol_constraint_create. */
smol_status smol_constrain(const struct settings *settings, const smol_model *model,
                           smol_constraint **constraint, smol_error *error);

/* A constraint that a request asks for. */
struct wanted_constraint {
    bool given; /* the request says whether it wants one, instead of the settings */
    smol_constraint_kind kind;
    char *text; /* (size), or NULL: none */
    size_t size;
};

/* Compiled constraints of requests, which often ask for the same. Initialize to zeros. */
struct constraints {
    struct compiled {
        struct wanted_constraint of;
        smol_constraint *constraint;
        unsigned users;
        uint64_t last_use;
    } compiled[2 * MAX_SEQUENCES];
    size_t n;
    uint64_t n_uses;
};

/* Returns a compiled constraint, from before or now. Call smol_constraints_release when no matcher
 * needs it any more. Errors: those of smol_constraint_create. */
smol_status smol_constraints_get(struct constraints *constraints, const struct settings *settings,
                                 const smol_model *model, const struct wanted_constraint *wanted,
                                 smol_constraint **constraint, smol_error *error);
void smol_constraints_release(struct constraints *constraints, const smol_constraint *constraint);
void smol_constraints_free(struct constraints *constraints);

#endif
