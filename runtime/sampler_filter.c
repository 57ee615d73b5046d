/* The filters between logits and choice. They have the meaning of transformers' logits processors
 * of the same names, including the treatment of equal scores. Exponentials and sums use fixed
 * operations in a fixed order, so the same ids remain on every machine.
 *
 * Each filter finds its threshold in a scratch heap and then removes candidates below it in place.
 * Candidates stay in the order of their ids, and no filter sorts all of them. */
#include "runtime/sampler.h"

#include <float.h>
#include <string.h>

#include "common/number.h"
#include "runtime/kernels/math.h"

/* --- logits ------------------------------------------------------------------------------- */

bool smol_sampler_changes_logits(const smol_sampler *sampler)
{
    const smol_sampler_params *params = &sampler->params;
    bool repeats = params->repetition_penalty != 0 && params->repetition_penalty != 1;
    return repeats || params->frequency_penalty != 0 || params->presence_penalty != 0 ||
           params->n_logit_bias > 0;
}

/* Returns a score after the repetition penalty. One that would be infinite is the largest number:
 * an infinite score means that the model is broken. */
static float penalized(float score, float penalty)
{
    float result = score < 0 ? score * penalty : score / penalty;
    if (f32_is_finite(result) || !f32_is_finite(score))
        return result;
    return score < 0 ? -FLT_MAX : FLT_MAX;
}

/* An id that occurs several times is penalized only once, because each occurrence starts from the
 * score before. */
static void penalize_repetition(smol_sampler *sampler, size_t n, const uint32_t *history,
                                size_t n_history)
{
    float penalty = sampler->params.repetition_penalty, *scores = sampler->scores;
    float *before = (float *)sampler->heap;
    if (penalty == 0 || penalty == 1)
        return;
    memcpy(before, scores, n * sizeof *scores);
    for (size_t i = 0; i < n_history; i++) {
        uint32_t id = history[i];
        if (id < n)
            scores[id] = penalized(before[id], penalty);
    }
}

static void penalize_output(smol_sampler *sampler, size_t n, const uint32_t *output,
                            size_t n_output)
{
    float frequency = sampler->params.frequency_penalty;
    float presence = sampler->params.presence_penalty;
    uint64_t *counts = sampler->heap;
    if (frequency == 0 && presence == 0)
        return;
    memset(counts, 0, n * sizeof *counts);
    for (size_t i = 0; i < n_output; i++)
        if (output[i] < n)
            counts[output[i]]++;
    for (size_t i = 0; i < n_output; i++) {
        uint32_t id = output[i];
        if (id >= n || counts[id] == 0)
            continue;
        sampler->scores[id] -= (float)counts[id] * frequency;
        sampler->scores[id] -= presence;
        counts[id] = 0;
    }
}

void smol_sampler_penalize(smol_sampler *sampler, const float *logits, size_t n,
                           const uint32_t *history, size_t n_history, size_t n_output)
{
    memcpy(sampler->scores, logits, n * sizeof *logits);
    for (size_t i = 0; i < sampler->params.n_logit_bias; i++)
        if (sampler->biases[i].id < n)
            sampler->scores[sampler->biases[i].id] += sampler->biases[i].bias;
    penalize_repetition(sampler, n, history, n_history);
    penalize_output(sampler, n, history + (n_history - n_output), n_output);
}

enum { RUN = 32 }; /* scores that are compared at once */

/* Returns whether a run of scores has only finite ones, none of them larger than `best`. */
static bool none_above(const float scores[RUN], float best)
{
    uint32_t above = 0; /* compilers vectorize the sum of comparisons, but no end of the loop */
    for (size_t i = 0; i < RUN; i++)
        above += !(scores[i] >= -FLT_MAX && scores[i] <= best); /* NaN is neither */
    return above == 0;
}

smol_status smol_sampler_best(const float *scores, size_t n, uint32_t *best, smol_error *error)
{
    *best = 0;
    for (size_t i = 0; i < n; i += RUN) {
        size_t end = n - i < RUN ? n : i + RUN;
        if (end - i == RUN && i > 0 && none_above(scores + i, scores[*best]))
            continue;
        for (size_t j = i; j < end; j++) {
            if (!f32_is_finite(scores[j]))
                return smol_fail(error, SMOL_ERROR_NUMERIC,
                                 "the logit of token %zu is not a finite number", j);
            if (scores[j] > scores[*best])
                *best = (uint32_t)j;
        }
    }
    return SMOL_OK;
}

/* --- a heap of keys, the largest on top --------------------------------------------------- */

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t key = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= key)
            break;
        heap[i] = heap[child];
    }
    heap[i] = key;
}

static void heapify(uint64_t *heap, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i);
}

/* --- top-k -------------------------------------------------------------------------------- */

/* Returns an integer that compares as the float does. Both zeros have the same rank. */
static uint32_t float_rank(float value)
{
    uint32_t bits = f32_bits(value + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Returns the rank of the k-th largest of scores (n), 0 < k <= n. The heap holds the complements of
 * the k largest so far, so the least of them is on top. */
static uint32_t kth_largest_rank(const float *scores, size_t n, size_t k, uint64_t *heap)
{
    for (size_t i = 0; i < k; i++)
        heap[i] = ~(uint64_t)float_rank(scores[i]);
    heapify(heap, k);
    for (size_t i = k; i < n; i++) {
        uint64_t key = ~(uint64_t)float_rank(scores[i]);
        if (key < heap[0]) {
            heap[0] = key;
            sift_down(heap, k, 0);
        }
    }
    return (uint32_t)~heap[0];
}

/* Returns how many scores of a run have at least this rank. */
static uint32_t count_of_rank(const float run[RUN], uint32_t least)
{
    uint32_t n = 0;
    for (size_t i = 0; i < RUN; i++)
        n += float_rank(run[i]) >= least;
    return n;
}

/* Applies top-k, then the temperature, which does not change the order. Subtracting the best score
 * first keeps a tiny temperature from overflowing. Returns the number of candidates. */
static size_t weigh_top_k(smol_sampler *sampler, const float *scores, size_t n, float best_score)
{
    size_t k = sampler->params.top_k;
    uint32_t least = k == 0 || k >= n ? 0 : kth_largest_rank(scores, n, k, sampler->heap);
    float temperature = sampler->params.temperature;
    float run[RUN] = {0}, weights[RUN]; /* the last run may end with scores of the one before */
    size_t kept = 0;
    for (size_t i = 0; i < n; i += RUN) {
        size_t size = n - i < RUN ? n - i : RUN;
        memcpy(run, scores + i, size * sizeof *run);
        if (count_of_rank(run, least) == 0)
            continue;
        for (size_t j = 0; j < RUN; j++)
            weights[j] = math_exp((run[j] - best_score) / temperature);
        for (size_t j = 0; j < size; j++)
            if (float_rank(run[j]) >= least)
                sampler->candidates[kept++] = (struct candidate){(uint32_t)(i + j), weights[j]};
    }
    return kept;
}

/* --- top-p -------------------------------------------------------------------------------- */

static double sum_of_weights(const struct candidate *candidates, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)candidates[i].weight;
    return sum;
}

/* Returns a key that compares by weight (as the bits of positive floats do), then by id. Among
 * equal candidates at the threshold the higher ids stay, because transformers sorts in ascending
 * order and removes from the front. */
static uint64_t candidate_key(struct candidate candidate)
{
    return (uint64_t)f32_bits(candidate.weight) << 32 | candidate.id;
}

/* Pops the heap until the sum of weights reaches `wanted`, and returns the last key popped. */
static uint64_t pop_until(uint64_t *heap, size_t n, double wanted)
{
    double sum = 0;
    for (;;) {
        uint64_t top = heap[0];
        sum += (double)f32_from_bits((uint32_t)(top >> 32));
        if (sum >= wanted || n == 1)
            return top;
        heap[0] = heap[--n];
        sift_down(heap, n, 0);
    }
}

/* Keeps the fewest of the heaviest candidates whose share of the weight is at least top_p. */
static size_t keep_top_p(smol_sampler *sampler, size_t n)
{
    double top_p = (double)sampler->params.top_p;
    if (top_p == 0 || top_p == 1)
        return n;
    struct candidate *candidates = sampler->candidates;
    double total = sum_of_weights(candidates, n);
    /* All candidates lighter than this together weigh less than the share to remove. Most of a
     * vocabulary therefore never enters the heap. */
    double too_light = (1 - top_p) * total / (double)n;
    size_t n_heap = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)candidates[i].weight >= too_light)
            sampler->heap[n_heap++] = candidate_key(candidates[i]);
    heapify(sampler->heap, n_heap);
    uint64_t least = pop_until(sampler->heap, n_heap, top_p * total);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (candidate_key(candidates[i]) >= least)
            candidates[kept++] = candidates[i];
    return kept;
}

/* --- min-p -------------------------------------------------------------------------------- */

/* Keeps candidates of at least min_p. The best candidate weighs 1, so weights are relative to the
 * best's probability. */
static size_t keep_min_p(smol_sampler *sampler, size_t n)
{
    struct candidate *candidates = sampler->candidates;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (candidates[i].weight >= sampler->params.min_p)
            candidates[kept++] = candidates[i];
    return kept;
}

size_t smol_sampler_filter(smol_sampler *sampler, const float *scores, size_t n, float best_score)
{
    size_t kept = weigh_top_k(sampler, scores, n, best_score);
    kept = keep_top_p(sampler, kept);
    return keep_min_p(sampler, kept);
}
