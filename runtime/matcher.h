/* A matcher as generation sees it. Generation calls through this struct, so that a program which
 * never creates a constraint does not contain what compiles one. */
#ifndef SMOL_RUNTIME_MATCHER_H
#define SMOL_RUNTIME_MATCHER_H

#include <stdbool.h>

#include "smol.h"

/* The tokens that can come next: either those that must, or a mask of those that may. */
struct matcher_next {
    uint32_t *forced; /* (capacity): the tokens that must follow */
    size_t capacity, n_forced;
    /* only if n_forced is 0 */
    uint64_t *mask; /* (vocab_size bits): the tokens that may follow */
    bool complete;  /* the text may end here */
};

struct matcher_calls {
    /* Finds what may follow, with about *work steps of work; UINT64_MAX: as many as it takes. Sets
     * *work to those it took, and *found to whether they were enough. The next call starts from
     * what this one has found. Errors: those of smol_matcher_mask. */
    smol_status (*next)(smol_matcher *matcher, uint64_t *work, bool *found,
                        struct matcher_next *next, smol_error *error);
    smol_status (*accept)(smol_matcher *matcher, uint32_t id, smol_error *error); /* as in smol.h */
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
