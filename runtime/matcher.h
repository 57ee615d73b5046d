/* A matcher as generation sees it. Generation calls through this struct, so that a program which
 * never creates a constraint does not contain what compiles one. */
#ifndef SMOL_RUNTIME_MATCHER_H
#define SMOL_RUNTIME_MATCHER_H

#include "smol.h"

/* The functions of smol.h with these names. */
struct matcher_calls {
    smol_status (*mask)(smol_matcher *matcher, uint64_t *mask, smol_error *error);
    smol_status (*accept)(smol_matcher *matcher, uint32_t id, smol_error *error);
    smol_status (*forced)(smol_matcher *matcher, uint32_t *ids, size_t capacity, size_t *n,
                          smol_error *error);
    int (*complete)(smol_matcher *matcher);
};

/* The start of a matcher. */
struct matcher_head {
    const struct matcher_calls *calls;
    const smol_model *model; /* of the constraint */
};

static inline const struct matcher_head *matcher_head(const smol_matcher *matcher)
{
    return (const void *)matcher;
}

static inline const struct matcher_calls *matcher_calls(const smol_matcher *matcher)
{
    return matcher_head(matcher)->calls;
}

#endif
