/* Logits as log-probabilities, in double and by fixed sequences of operations: the same bits on
 * every machine. */
#ifndef SMOL_SMOLRUN_LOG_SOFTMAX_H
#define SMOL_SMOLRUN_LOG_SOFTMAX_H

#include <stddef.h>
#include <stdint.h>

/* The logarithm of the sum of e^logit over finite logits (n), n > 0: token i has the
 * log-probability logits[i] - that, in nats. */
double smol_log_sum_exp(const float *logits, size_t n);

/* e^x within 2 units in the last place for x in [-708, 709]; smaller x count as -708, larger ones
 * give infinity. */
double smol_exp(double x);

/* The ids of the `most` largest of logits (n), the largest first, of equals the lowest id first:
 * `top`, the caller's (most). Returns how many there are, fewer in a small vocabulary. */
size_t smol_top_tokens(const float *logits, size_t n, size_t most, uint32_t *top);

/* The first of these, n > 0. */
uint32_t smol_top_token(const float *logits, size_t n);

#endif
