/* Logits as probabilities, in double and by fixed sequences of operations: the same bits on every
 * machine. */
#ifndef SMOL_SMOLRUN_LIKELIHOOD_H
#define SMOL_SMOLRUN_LIKELIHOOD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* The logarithm of the sum of e^logit over finite logits (n), n > 0: token i has the
 * log-probability logits[i] - that, in nats. */
double smol_log_sum_exp(const float *logits, size_t n);

/* e^x within 2 units in the last place for x in [-708, 709]; smaller x count as -708, larger ones
 * give infinity. */
double smol_exp(double x);

/* Finds the ids of the `most` largest of logits (n), the largest first, of equals the lowest id
 * first: `top`, the caller's (most). Returns their number, smaller in a small vocabulary. */
size_t smol_top_tokens(const float *logits, size_t n, size_t most, uint32_t *top);

/* The first of these, n > 0. */
uint32_t smol_top_token(const float *logits, size_t n);

/* --- one token among the others ----------------------------------------------------------- */

enum { CHOICE_TOP = 5 };

struct ranked {
    uint32_t id;
    double log_probability; /* in nats */
};

struct choice {
    struct ranked token;
    size_t rank; /* 1: the most likely; of equals the lowest id is first */
    struct ranked top[CHOICE_TOP];
    size_t n_top; /* fewer in a small vocabulary */
};

/* The probability of token `id`, and the most likely tokens, by finite logits (n), n > id. */
struct choice smol_choice(const float *logits, size_t n, uint32_t id);

/* --- running mean and variance (Welford, 1962) --------------------------------------------- */

/* Zeroed: of nothing. */
struct tally {
    size_t n;
    double mean, squares; /* sum of squared differences from the mean */
};

static inline void tally_add(struct tally *tally, double x)
{
    double before = x - tally->mean;
    tally->n++;
    tally->mean += before / (double)tally->n;
    tally->squares += before * (x - tally->mean);
}

/* The mean's standard error; NaN for a single value. */
static inline double tally_error(const struct tally *tally)
{
    double n = (double)tally->n;
    return tally->n > 1 ? sqrt(tally->squares / (n - 1) / n) : (double)NAN;
}

#endif
