/* The choice of a dtype for each matrix: the least expected divergence for a size, or the least
 * size for a divergence. */
#ifndef SMOL_CONVERT_PLAN_H
#define SMOL_CONVERT_PLAN_H

#include "convert/weights/losses.h"
#include "convert/weights/mix.h"

enum goal_kind {
    GOAL_NONE,
    GOAL_SIZE, /* at most so many bytes of the blob */
    GOAL_BITS, /* at most so many bits for each weight of a matrix, scales included */
    GOAL_KL,   /* an expected divergence of at most so many nats */
};

struct goal {
    enum goal_kind kind;
    double value;
};

/* Returns the size of a blob with `bytes` of matrices and n_levels tables of levels. It grows with
 * either. */
typedef uint64_t plan_size(void *user, uint64_t bytes, size_t n_levels);

struct plan {
    struct mix mix;        /* owned by the caller, see smol_mix_free */
    enum blob_dtype dtype; /* of most weights of the layers */
    double nats;           /* the expected divergence */
    double bits;           /* for each weight of a matrix */
    size_t n[N_CHOICES];   /* matrices of each dtype */
};

/* Chooses the dtypes. Starts with int4 everywhere and takes the steps to a larger dtype that gain
 * most for each byte (the greedy solution of the knapsack problem, exact but for the last steps;
 * Dantzig, 1957). The same losses give the same choice. Errors: SMOL_ERROR_USAGE (the goal cannot
 * be met), SMOL_ERROR_MEMORY. After an error there is nothing to free. */
smol_status smol_plan_make(const struct blob_model *model, const struct dtype_losses *losses,
                           const struct goal *goal, plan_size *size, void *user, struct plan *plan,
                           smol_error *error);

#endif
