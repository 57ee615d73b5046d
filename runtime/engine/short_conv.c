/* Gated short convolutions, see mixer.h. One product turns a token's input into B, C and x. The
 * gated input u = B * x of the token and those of the taps - 1 tokens before it are convolved,
 * channel by channel, and gated again: y = C * (w[0] u[oldest] + ... + w[taps - 1] u[newest] +
 * bias), added in this order. The state is the gated inputs of the last taps - 1 tokens, the oldest
 * first.
 *
 * A stage computes the tokens in any order: each computes the gated inputs that it needs itself,
 * which takes less time than to wait for another thread. */
#include "runtime/engine/mixer.h"

#include <string.h>

#include "runtime/engine/residual.h"
#include "runtime/engine/state.h"

/* out = factor * gated input, or added to out unless it is the first. */
static void add_tap(const float *u, const float *weight, bool first, size_t n, float *out)
{
    if (first)
        for (size_t i = 0; i < n; i++)
            out[i] = weight[i] * u[i];
    else
        for (size_t i = 0; i < n; i++)
            out[i] += weight[i] * u[i];
}

/* Does the same for the gated input b * x. */
static void add_gated_tap(const float *b, const float *x, const float *weight, bool first, size_t n,
                          float *out)
{
    if (first)
        for (size_t i = 0; i < n; i++)
            out[i] = weight[i] * (b[i] * x[i]);
    else
        for (size_t i = 0; i < n; i++)
            out[i] += weight[i] * (b[i] * x[i]);
}

/* Writes what the pass leaves of token t, number i of its sequence's n, into the next state. The
 * first token also moves what the state keeps. */
static void keep_inputs(const struct pass *pass, size_t layer, size_t t)
{
    const struct segment *segment = pass->segment_of[t];
    const struct sequence_state *state = segment->state;
    size_t hidden = pass->m->hidden_size, n_kept = pass->m->states.taps - 1, i = t - segment->row;
    const float *row = pass->e->mixed + t * 3 * hidden;
    float *next = state->next + state->places[layer];
    if (i == 0 && segment->n < n_kept)
        memcpy(next, state->now + state->places[layer] + segment->n * hidden,
               (n_kept - segment->n) * hidden * sizeof *next);
    if (i + n_kept < segment->n)
        return;
    next += (i + n_kept - segment->n) * hidden;
    for (size_t c = 0; c < hidden; c++)
        next[c] = row[c] * row[2 * hidden + c];
}

static void convolve(struct pass *pass, size_t layer, size_t t)
{
    const struct segment *segment = pass->segment_of[t];
    const struct blob_tensor *const *tensor = pass->e->network->layers[layer].tensor;
    const float *weights = smol_pass_vector(pass, tensor[ROLE_MIXER_CONV]);
    const float *bias = smol_pass_vector(pass, tensor[ROLE_MIXER_CONV_BIAS]);
    const float *old = segment->state->now + segment->state->places[layer];
    size_t hidden = pass->m->hidden_size, taps = pass->m->states.taps, i = t - segment->row;
    float *out = pass->e->convolved + t * hidden;
    for (size_t k = 0; k < taps; k++, weights += hidden) {
        size_t back = taps - 1 - k; /* tokens before t */
        if (back > i) {
            add_tap(old + (i + k) * hidden, weights, k == 0, hidden, out);
            continue;
        }
        const float *row = pass->e->mixed + (t - back) * 3 * hidden;
        add_gated_tap(row, row + 2 * hidden, weights, k == 0, hidden, out);
    }
    const float *gate = pass->e->mixed + (t * 3 + 1) * hidden;
    for (size_t c = 0; bias && c < hidden; c++)
        out[c] += bias[c];
    for (size_t c = 0; c < hidden; c++)
        out[c] *= gate[c];
    keep_inputs(pass, layer, t);
    const struct product_input input = smol_mixer_state_output(pass);
    smol_pass_check_finite(pass, out, hidden, "convolution", layer, t);
    smol_input_prepare(pass, &input, t, "convolution", layer);
}

static void read_input(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_read(pass, layer, ROLE_ATTN_NORM, 1, t, "convolution input");
}

void smol_short_conv_read(const struct worker *w, size_t layer)
{
    const struct blob_tensor *const *tensor = w->pass->e->network->layers[layer].tensor;
    const struct product_input input = smol_residual_input(w->pass);
    const struct product_input convolved = smol_mixer_state_output(w->pass);
    const struct product in = {tensor[ROLE_MIXER_IN], tensor[ROLE_MIXER_IN_BIAS],
                               .out = w->pass->e->mixed};
    smol_pass_each_token(w, read_input, layer);
    smol_input_observe(w, (struct stats_place){STATS_ATTENTION, (uint32_t)layer, 0}, &input);
    smol_multiply(w, &input, &in, 1);
    smol_pass_each_token(w, convolve, layer);
    smol_input_observe(w, (struct stats_place){STATS_ATTENDED, (uint32_t)layer, 0}, &convolved);
}
