/* The choice of dtypes, see plan.h. */
#include "convert/weights/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/weights/mix.h"

/* A step of a matrix to a larger dtype. Those of one matrix gain less and less for each byte. */
struct upgrade {
    size_t tensor;
    unsigned char from, to; /* choices */
    double gain;            /* nats for each byte */
};

/* Sums over the choices, which each step changes. */
struct sums {
    uint64_t bytes;           /* of the matrices */
    size_t counts[N_CHOICES]; /* matrices of each dtype */
    double nats;              /* the losses, but for rounding */
};

struct planner {
    const struct blob_model *model;
    const struct dtype_losses *losses;
    const struct goal *goal;
    plan_size *size;
    void *user;
    size_t n_tensors;
    struct blob_tensor *layouts; /* (n_tensors) */
    unsigned char *choices;      /* (n_tensors) */
    bool *closed;                /* (n_tensors): no further steps */
    struct upgrade *steps;       /* (n_steps), the best first */
    size_t n_steps;
    struct mix mix; /* of the choices, when all are made */
    struct sums sums;
    double n_weights; /* in the matrices */
    double most_nats; /* with int4 everywhere */
    /* With GOAL_SIZE: the most bytes of matrices of a blob within the goal, by tables of levels. */
    uint64_t limits[N_CHOICES];
    smol_error *error;
};

/* Returns whether a dtype is chosen for the tensor: it is a matrix, and not a tied output. */
static bool is_chosen(const struct planner *p, size_t i)
{
    bool is_tied = p->model->tied_embeddings && p->layouts[i].role == ROLE_OUTPUT;
    return has_storage(&p->layouts[i]) && !is_tied;
}

static uint64_t bytes_of(const struct planner *p, size_t i, size_t choice)
{
    const struct blob_tensor *t = &p->layouts[i];
    return smol_block_bytes(smol_choices[choice], t->cols) * count_blocks(t->rows);
}

/* --- steps -------------------------------------------------------------------------------- */

/* Adds the steps of a matrix: those on the lower convex hull of its sizes and losses. */
static void add_steps(struct planner *p, size_t i)
{
    const double *nats = p->losses[i].nats;
    for (size_t from = 0, next; from < N_CHOICES; from = next) {
        double best = 0;
        next = N_CHOICES;
        for (size_t to = from + 1; to < N_CHOICES; to++) {
            double bytes = (double)(bytes_of(p, i, to) - bytes_of(p, i, from));
            double gain = (nats[from] - nats[to]) / bytes;
            if (gain > best) {
                best = gain;
                next = to;
            }
        }
        if (next < N_CHOICES)
            p->steps[p->n_steps++] =
                (struct upgrade){i, (unsigned char)from, (unsigned char)next, best};
    }
}

static int compare_steps(const void *a, const void *b)
{
    const struct upgrade *x = a, *y = b;
    if (x->gain != y->gain)
        return x->gain > y->gain ? -1 : 1;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* --- sums --------------------------------------------------------------------------------- */

static double sum_of_losses(const struct planner *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->n_tensors; i++)
        if (is_chosen(p, i))
            sum += p->losses[i].nats[p->choices[i]];
    return sum;
}

static double bits_per_weight(const struct planner *p)
{
    return 8 * (double)p->sums.bytes / p->n_weights;
}

/* Returns the number of tables of levels: one for each dtype but int8 that is chosen. */
static size_t count_levels(const struct planner *p)
{
    size_t n = 0;
    for (size_t i = 0; i < N_CHOICES; i++)
        n += smol_choices[i] != DTYPE_INT8 && p->sums.counts[i] > 0;
    return n;
}

/* Starts with the first choice, int4, everywhere. */
static void start_sums(struct planner *p)
{
    for (size_t i = 0; i < p->n_tensors; i++)
        if (is_chosen(p, i)) {
            p->sums.bytes += bytes_of(p, i, 0);
            p->sums.counts[0]++;
            p->n_weights += (double)p->layouts[i].rows * (double)p->layouts[i].cols;
        }
    p->most_nats = p->sums.nats = sum_of_losses(p);
}

static void choose_for(struct planner *p, size_t i, unsigned char choice)
{
    const double *nats = p->losses[i].nats;
    unsigned char before = p->choices[i];
    p->sums.bytes += bytes_of(p, i, choice) - bytes_of(p, i, before);
    p->sums.counts[before]--;
    p->sums.counts[choice]++;
    p->sums.nats += nats[choice] - nats[before];
    p->choices[i] = choice;
}

/* Sets p->mix to that of the choices: zeroed if all are int8. */
static void fill_mix(struct planner *p)
{
    unsigned levels[N_CHOICES] = {0}; /* numbers of tables, from 1 */
    p->mix.n_levels = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        size_t choice = p->choices[i];
        enum blob_dtype dtype = smol_choices[choice];
        if (!is_chosen(p, i))
            continue;
        if (dtype != DTYPE_INT8 && levels[choice] == 0) {
            p->mix.levels[p->mix.n_levels] = smol_levels_default(dtype);
            levels[choice] = (unsigned)++p->mix.n_levels;
        }
        p->mix.storage[i] = (struct storage){dtype, dtype == DTYPE_INT8 ? 0 : levels[choice] - 1};
    }
    if (p->model->tied_embeddings)
        p->mix.storage[p->n_tensors - 1] = p->mix.storage[0];
}

/* Finds the most bytes of matrices with which the blob is within the goal: its size grows with
 * them. */
static void find_limits(struct planner *p)
{
    for (size_t n = 0; n < N_CHOICES && p->goal->kind == GOAL_SIZE; n++) {
        uint64_t fits = 0, fails = (uint64_t)fmin(p->goal->value, 0x1p62) + 1;
        while (fails - fits > 1) {
            uint64_t bytes = fits + (fails - fits) / 2;
            if ((double)p->size(p->user, bytes, n) <= p->goal->value)
                fits = bytes;
            else
                fails = bytes;
        }
        p->limits[n] = fits;
    }
}

/* Returns whether the choices are within the goal. Where the rounding of the running sum of losses
 * could matter, they are added up. */
static bool holds(const struct planner *p)
{
    double most = p->goal->value, margin = p->most_nats * 1e-9;
    if (p->goal->kind == GOAL_SIZE)
        return p->sums.bytes <= p->limits[count_levels(p)];
    if (p->goal->kind == GOAL_BITS)
        return bits_per_weight(p) <= most;
    if (p->sums.nats < most - margin || p->sums.nats > most + margin)
        return p->sums.nats < most;
    return sum_of_losses(p) <= most;
}

/* --- the choice --------------------------------------------------------------------------- */

/* Takes each step after which the goal still holds, the best first. */
static void fill_up(struct planner *p)
{
    for (size_t i = 0; i < p->n_steps; i++) {
        const struct upgrade *step = &p->steps[i];
        if (p->closed[step->tensor])
            continue;
        choose_for(p, step->tensor, step->to);
        if (holds(p))
            continue;
        choose_for(p, step->tensor, step->from);
        p->closed[step->tensor] = true;
    }
}

/* Takes steps, the best first, until the goal holds; then takes back those without which it holds
 * too, the worst first. */
static void fill_until(struct planner *p)
{
    size_t n = 0;
    while (n < p->n_steps && !holds(p)) {
        choose_for(p, p->steps[n].tensor, p->steps[n].to);
        n++;
    }
    while (n-- > 0) {
        const struct upgrade *step = &p->steps[n];
        if (p->choices[step->tensor] != step->to)
            continue;
        choose_for(p, step->tensor, step->from);
        if (!holds(p))
            choose_for(p, step->tensor, step->to);
    }
}

static smol_status refuse(struct planner *p)
{
    double value = p->goal->value;
    if (p->goal->kind == GOAL_SIZE)
        return smol_fail(p->error, SMOL_ERROR_USAGE,
                         "--size: %.0f bytes: the smallest blob, all in int4, has %.0f", value,
                         (double)p->size(p->user, p->sums.bytes, count_levels(p)));
    if (p->goal->kind == GOAL_BITS)
        return smol_fail(p->error, SMOL_ERROR_USAGE,
                         "--bits %g: int4 takes %.2f, the least possible", value,
                         bits_per_weight(p));
    return smol_fail(p->error, SMOL_ERROR_USAGE,
                     "--max-kl %g: the least that can be expected is %.2g: use --dtype bf16", value,
                     sum_of_losses(p));
}

static smol_status choose(struct planner *p)
{
    start_sums(p);
    find_limits(p);
    if (p->goal->kind == GOAL_KL)
        fill_until(p);
    else
        fill_up(p);
    return holds(p) ? SMOL_OK : refuse(p);
}

/* Returns the dtype of most weights of the layers; of several, the largest. */
static enum blob_dtype most_common(const struct planner *p)
{
    uint64_t weights[N_CHOICES] = {0};
    size_t most = 0;
    for (size_t i = 0; i < p->n_tensors; i++)
        if (is_chosen(p, i) && p->layouts[i].role != ROLE_EMBED &&
            p->layouts[i].role != ROLE_OUTPUT)
            weights[p->choices[i]] += p->layouts[i].rows * p->layouts[i].cols;
    for (size_t i = 1; i < N_CHOICES; i++)
        most = weights[i] >= weights[most] ? i : most;
    return smol_choices[most];
}

static smol_status prepare(struct planner *p)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t n = p->n_tensors;
    p->layouts = calloc(n, sizeof *p->layouts);
    p->choices = calloc(n, sizeof *p->choices);
    p->closed = calloc(n, sizeof *p->closed);
    p->steps = calloc(n, N_CHOICES * sizeof *p->steps);
    p->mix.storage = calloc(n, sizeof *p->mix.storage);
    p->mix.levels = calloc(N_CHOICES, sizeof *p->mix.levels);
    if (!p->layouts || !p->choices || !p->closed || !p->steps || !p->mix.storage || !p->mix.levels)
        return smol_fail_memory(p->error, "the choice of dtypes");
    for (size_t i = 0; i < n; i++, smol_tensor_next(p->model, &key))
        p->layouts[i] = smol_tensor_layout(p->model, key, NULL);
    for (size_t i = 0; i < n; i++)
        if (is_chosen(p, i))
            add_steps(p, i);
    qsort(p->steps, p->n_steps, sizeof *p->steps, compare_steps);
    return SMOL_OK;
}

smol_status smol_plan_make(const struct blob_model *model, const struct dtype_losses *losses,
                           const struct goal *goal, plan_size *size, void *user, struct plan *plan,
                           smol_error *error)
{
    struct planner p = {
        .model = model,
        .losses = losses,
        .goal = goal,
        .size = size,
        .user = user,
        .n_tensors = smol_tensor_count(model),
        .error = error,
    };
    smol_status status = prepare(&p);
    if (!status)
        status = choose(&p);
    if (!status) {
        fill_mix(&p);
        *plan = (struct plan){p.mix, most_common(&p), sum_of_losses(&p), bits_per_weight(&p), {0}};
        memcpy(plan->n, p.sums.counts, sizeof plan->n);
        p.mix = (struct mix){0};
        if (plan->mix.n_levels == 0)
            smol_mix_free(&plan->mix);
    }
    smol_mix_free(&p.mix);
    free(p.layouts);
    free(p.choices);
    free(p.closed);
    free(p.steps);
    return status;
}
