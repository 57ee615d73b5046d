/* Tensors that are of the same kind in every layer. */
#ifndef SMOL_CONVERT_TENSOR_GROUPS_H
#define SMOL_CONVERT_TENSOR_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "convert/inspect/subject.h"

struct group_member {
    size_t tensor;
    uint32_t layer;
};

/* Tensors whose names differ in one number, the layer; or one tensor without. */
struct tensor_group {
    const char *name;              /* of the first: name[0..before), the number, name[after..) */
    size_t before, after;          /* both are the name's length where there is no number */
    const char *label;             /* the last part, or all of a name without a number */
    enum part part;                /* of the first */
    bool has_role;                 /* the first has */
    enum tensor_role role;         /* if so */
    uint64_t n_parameters;         /* of all, but for aliases */
    const struct group_member *in; /* (n), by layer */
    size_t n;
};

struct tensor_groups {
    struct tensor_group *all; /* (n), in the order of their first tensors */
    size_t n;
    struct group_member *members; /* (n_tensors) */
    int *of;                      /* (n_tensors), the group of each */
    char (*names)[MAX_NAME];      /* the roles' names of tensors that have one, (n_tensors) */
};

/* Errors: SMOL_ERROR_MEMORY; call smol_groups_free in any case. */
smol_status smol_groups_make(const struct subject *subject, struct tensor_groups *groups,
                             smol_error *error);
void smol_groups_free(struct tensor_groups *groups);

#endif
