/* Probabilities from logits, computed in double with a fixed order of operations, so that every
 * machine returns the same bits. */
#ifndef SMOL_CLI_REQUEST_LIKELIHOOD_H
#define SMOL_CLI_REQUEST_LIKELIHOOD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

/* Returns the logarithm of the sum of e^logit over finite logits (n), n > 0. Token i has the
 * log-probability logits[i] minus this, in nats. */
double smol_log_sum_exp(const float *logits, size_t n);

/* Returns e^x within 2 units in the last place for x in [-708, 709]. Smaller x count as -708;
 * larger x return infinity. */
double smol_exp(double x);

/* Stores the ids of the `most` largest logits (n) in top (most), the largest first; among equal
 * logits, the lowest id first. Returns their number, which is smaller in a small vocabulary. */
size_t smol_top_tokens(const float *logits, size_t n, size_t most, uint32_t *top);

/* Returns the first of these ids, n > 0. */
uint32_t smol_top_token(const float *logits, size_t n);

/* --- a token among the others ------------------------------------------------------------- */

enum { CHOICE_TOP = 5 };

struct ranked {
    uint32_t id;
    double log_probability; /* in nats */
};

enum { MAX_LOGPROBS = 20 }; /* most alternatives */

/* Appends 1 + n_alternatives of struct ranked: the token that was chosen from logits (n), and the
 * most likely ones, whose id is SMOL_NO_TOKEN if there are fewer. A token that had to follow has no
 * logits (NULL): it is certain, and has no alternatives. */
void smol_logprobs_add(struct buffer *out, size_t n_alternatives, uint32_t id, const float *logits,
                       size_t n);

struct choice {
    struct ranked token;
    size_t rank; /* 1: the most likely; among equals, the lowest id comes first */
    struct ranked top[CHOICE_TOP];
    size_t n_top; /* fewer in a small vocabulary */
};

/* Returns the probability of token `id` and the most likely tokens, from finite logits (n), n >
 * id. */
struct choice smol_choice(const float *logits, size_t n, uint32_t id);

/* --- running mean and variance (Welford, 1962) --------------------------------------------- */

/* Zeros are an empty tally. */
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

/* Returns the standard error of the mean; NaN for fewer than two values. */
static inline double tally_error(const struct tally *tally)
{
    double n = (double)tally->n;
    return tally->n > 1 ? sqrt(tally->squares / (n - 1) / n) : (double)NAN;
}

#endif
