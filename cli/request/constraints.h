/* Constraints that requests ask for. */
#ifndef SMOL_CLI_REQUEST_CONSTRAINTS_H
#define SMOL_CLI_REQUEST_CONSTRAINTS_H

#include <stdbool.h>

#include "common/threads.h"
#include "smol.h"

/* A constraint that a request asks for. */
struct wanted_constraint {
    bool given; /* the request says whether it wants one, instead of the program's options */
    smol_constraint_kind kind;
    char *text; /* (size), or NULL: none */
    size_t size;
    /* for tools, as in smol_constraint_params */
    char *tool_choice, *answer_schema;
    bool one_call;
    smol_reasoning reasoning; /* before the text */
};

struct compiled_constraint {
    smol_constraint *constraint;
    struct wanted_constraint of;
    unsigned users;
    uint64_t last_use;
    bool kept; /* among those of struct constraints; else it ends with its request */
};

/* Compiled constraints for a model, of requests that often ask for the same. Those that no request
 * uses are kept for later ones, while they take at most UNUSED_BYTES. Any number of threads may use
 * them at once. */
struct constraints {
    thread_mutex mutex;
    const smol_model *model;
    smol_json_space json_space; /* for JSON Schemas */
    int any_order;
    struct compiled_constraint *kept[128];
    size_t n;
    uint64_t n_uses;
};

void smol_constraints_init(struct constraints *constraints, const smol_model *model,
                           smol_json_space json_space, int any_order);

/* Returns a constraint that was compiled before, or NULL. Call smol_constraints_release as below.
 */
struct compiled_constraint *smol_constraints_find(struct constraints *constraints,
                                                  const struct wanted_constraint *wanted);

/* Returns a compiled constraint, from before or now, which may take seconds. Call
 * smol_constraints_release when no matcher needs it any more. Errors: those of
 * smol_constraint_create. */
smol_status smol_constraints_get(struct constraints *constraints,
                                 const struct wanted_constraint *wanted,
                                 struct compiled_constraint **compiled, smol_error *error);

/* NULL is ignored. */
void smol_constraints_release(struct constraints *constraints,
                              struct compiled_constraint *compiled);

/* Frees all that are kept. None may be in use. */
void smol_constraints_free(struct constraints *constraints);

#endif
