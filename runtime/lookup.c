/* Guesses of the next tokens, see lookup.h. */
#include "runtime/lookup.h"

#include <string.h>

enum {
    LEAST_MATCH = 2, /* tokens that must agree */
    PATIENCE = 32,   /* every so many places that promise little are tried nevertheless */
};

/* About what another row costs, in passes of one row, while passes wait for the weights. */
static const float row_cost = 0.15f;

static const float learning_rate = 0.15f;

void smol_lookup_init(struct lookup *lookup, bool has_states)
{
    float wrong = 1;
    lookup->has_states = has_states;
    for (size_t n = 0; n <= LOOKUP_MATCH; n++) {
        lookup->chance[n] = 1 - wrong;
        wrong *= 0.75f;
    }
    lookup->n_agreeing = 0;
    lookup->n_unused = 0;
}

/* Returns how many tokens before ids[end] agree with the last ones of ids[0..n), at most
 * LOOKUP_MATCH. */
static size_t count_agreeing(const uint32_t *ids, size_t n, size_t end)
{
    size_t count = 0;
    while (count < end && count < LOOKUP_MATCH && ids[end - 1 - count] == ids[n - 1 - count])
        count++;
    return count;
}

/* Returns the end of the earlier place that agrees best with the end of ids[0..n), the latest of
 * several, and sets *n_agreeing; n if there is none. */
static size_t find_place(const uint32_t *ids, size_t n, size_t *n_agreeing)
{
    size_t best = n;
    *n_agreeing = LEAST_MATCH - 1;
    for (size_t end = n - 1; end >= LEAST_MATCH && *n_agreeing < LOOKUP_MATCH; end--) {
        if (ids[end - 1] != ids[n - 1])
            continue;
        size_t count = count_agreeing(ids, n, end);
        if (count > *n_agreeing) {
            *n_agreeing = count;
            best = end;
        }
    }
    return best;
}

/* Returns what guess number n costs, in passes. `all` is the chance that all guesses before it are
 * right, `chance` its own then. If it is the first wrong one, states need n rows again: those of
 * the newest token and the guesses before. */
static float cost_of(const struct lookup *lookup, size_t n, float all, float chance)
{
    float again = lookup->has_states ? (float)n * all * (1 - chance) : 0;
    return row_cost * (1 + again);
}

size_t smol_lookup_guess(struct lookup *lookup, const uint32_t *ids, size_t n, uint32_t *out,
                         size_t most)
{
    size_t place = n > LEAST_MATCH ? find_place(ids, n, &lookup->n_agreeing) : n;
    size_t count = 0, left = n - place;
    left = left < most ? left : most;
    if (left == 0)
        return 0;
    float chance = lookup->chance[lookup->n_agreeing], all = 1;
    bool doubtful = chance < 2 * cost_of(lookup, 1, all, chance);
    if (doubtful)
        count = ++lookup->n_unused % PATIENCE == 0;
    while (!doubtful && count < left && all * chance > cost_of(lookup, count + 1, all, chance)) {
        count++;
        all *= chance;
    }
    memcpy(out, ids + place, count * sizeof *out);
    return count;
}

void smol_lookup_learn(struct lookup *lookup, size_t n_guessed, size_t n_right)
{
    float *chance = &lookup->chance[lookup->n_agreeing];
    for (size_t i = 0; i < n_right; i++)
        *chance += learning_rate * (1 - *chance);
    if (n_right < n_guessed)
        *chance -= learning_rate * *chance;
}
