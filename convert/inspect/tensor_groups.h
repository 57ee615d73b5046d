/* Groups tensors that have the same role in every layer. */
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

/* Tensors whose names differ in one number, the layer; or one tensor without a number. */
struct tensor_group {
    const char *name;              /* of the first tensor: name[0..before), number, name[after..) */
    size_t before, after;          /* both are the name's length without a number */
    const char *label;             /* the part after the number, or the whole name */
    enum part part;                /* of the first tensor */
    bool has_role;                 /* of the first tensor */
    enum tensor_role role;         /* if has_role */
    uint64_t n_parameters;         /* of all tensors except aliases */
    const struct group_member *in; /* (n), by layer */
    size_t n;
};

struct tensor_groups {
    struct tensor_group *all; /* (n), in the order of their first tensors */
    size_t n;
    struct group_member *members; /* (n_tensors) */
    int *of;                      /* (n_tensors), the group of each */
    char (*names)[MAX_NAME];      /* (n_tensors), the role's name of tensors with a role */
};

/* Groups the subject's tensors. Call smol_groups_free, also after an error. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_groups_make(const struct subject *subject, struct tensor_groups *groups,
                             smol_error *error);
void smol_groups_free(struct tensor_groups *groups);

#endif
