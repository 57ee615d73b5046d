/* The internals of a sampler: its scratch memory and the filters. */
#ifndef SMOL_RUNTIME_SAMPLER_H
#define SMOL_RUNTIME_SAMPLER_H

#include <stdbool.h>

#include "common/error.h"
#include "smol.h"

/* An id that may be chosen; its probability is weight / (sum of all weights). */
struct candidate {
    uint32_t id;
    float weight;
};

struct smol_sampler {
    smol_sampler_params params;
    uint64_t n_calls;
    /* Scratch for a vocabulary of `capacity`. Greedy decoding without penalty needs none. */
    size_t capacity;
    uint64_t *heap;               /* (capacity): start of the single allocation */
    struct candidate *candidates; /* (capacity) */
    float *scores;                /* (capacity) */
    uint32_t *ids;                /* (capacity): of masked scores */
    smol_logit_bias *biases;      /* (params.n_logit_bias), which params.logit_bias points to */
};

/* Checks that the parameters are in range. Errors: SMOL_ERROR_USAGE, naming the first that is
 * not. */
smol_status smol_sampler_check(const smol_sampler_params *params, smol_error *error);

/* Returns whether the parameters change logits before the temperature. */
bool smol_sampler_changes_logits(const smol_sampler *sampler);

/* Writes the logits (n) to the sampler's scratch, which must have room for n, with the biases
 * added, after the penalties: that of repetition for `history`, the others for its last n_output
 * tokens. */
void smol_sampler_penalize(smol_sampler *sampler, const float *logits, size_t n,
                           const uint32_t *history, size_t n_history, size_t n_output);

/* smol_sample_masked, in which the last n_output tokens of the history have been generated. */
smol_status smol_sampler_choose(smol_sampler *sampler, const float *logits, size_t n,
                                const uint64_t *mask, const uint32_t *history, size_t n_history,
                                size_t n_output, uint32_t *id, smol_error *error);

/* Sets *best to the lowest id among the largest scores (n), n > 0. Errors: SMOL_ERROR_NUMERIC (NaN,
 * infinity). */
smol_status smol_sampler_best(const float *scores, size_t n, uint32_t *best, smol_error *error);

/* Writes the candidates that remain after temperature (> 0), top-k, top-p and min-p to
 * sampler->candidates and returns their number. `best_score` is the largest of scores (n). The ids
 * ascend and include the best one, whose weight is 1. The scratch must have room for n. */
size_t smol_sampler_filter(smol_sampler *sampler, const float *scores, size_t n, float best_score);

#endif
