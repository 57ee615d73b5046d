/* Recurrent layers, see mixer.h. Products, norms and activations treat all rows alike. The
 * convolution and the recurrence go from token to token of a sequence, in the order that kernels.h
 * states, and are shared out by channels and by slices of heads, whose states stay in the
 * first-level cache. The bits therefore depend neither on the split of a text nor on the threads.
 *
 * The two kinds differ in few places: Mamba2's x, B and C are DeltaNet's value, key and query,
 * which are in another order and normalized; DeltaNet's output is normalized before its gate is
 * applied, Mamba2's after it. (With FEATURE_HYBRID Mamba2's may be too, or not at all.) */
#include "runtime/engine/mixer.h"

#include <math.h>
#include <string.h>

#include "format/model.h"
#include "runtime/engine/residual.h"
#include "runtime/engine/state.h"
#include "runtime/kernels/math.h"

/* The part of a layer that a stage works on. */
struct recurrence {
    size_t layer;
    const struct blob_tensor *const *tensor;
};

/* Where a row's vectors are: of the output's heads, and of the groups that drive and read their
 * states. */
struct places {
    size_t value, drive, read; /* Mamba2: x, B, C; DeltaNet: value, key, query */
};

static struct places places_of(const struct blob_model *m)
{
    size_t shared = (size_t)m->states.n_groups * m->states.size, width = smol_states_width(m);
    if (m->states.kind == STATE_MAMBA2)
        return (struct places){0, width, width + shared};
    return (struct places){2 * shared, shared, 0};
}

static void read_input(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_hybrid *h = &pass->m->hybrid;
    smol_residual_read(pass, layer, ROLE_ATTN_NORM, h->parallel ? h->mixer_in : 1, t,
                       "mixer input");
}

/* Multiplies the parts of row t of Mamba2's products by their scales. */
static void scale_parts(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    const struct engine *e = pass->e;
    const struct blob_hybrid *h = &pass->m->hybrid;
    const struct places at = places_of(pass->m);
    size_t width = smol_states_width(pass->m), n_heads = pass->m->states.n_heads;
    size_t shared = (size_t)pass->m->states.n_groups * pass->m->states.size;
    float *row = e->mixed + t * smol_states_channels(pass->m);
    const struct {
        float *part;
        size_t n;
        float scale;
    } parts[] = {
        {e->convolved + t * width, width, h->gate},
        {row + at.value, width, h->x},
        {row + at.drive, shared, h->b},
        {row + at.read, shared, h->c},
        {e->mixer_step + t * n_heads, n_heads, h->step},
    };
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        for (size_t i = 0; i < parts[k].n; i++)
            parts[k].part[i] *= parts[k].scale;
}

/* --- convolution ------------------------------------------------------------------------------ */

/* Returns the channels [first, end) of those of all segments, and the segment that they are in. */
static struct segment *channels_of(struct pass *pass, size_t n_channels, size_t *first, size_t *end)
{
    size_t index = *first / n_channels, limit = (index + 1) * n_channels;
    *end = (*end < limit ? *end : limit) - index * n_channels;
    *first -= index * n_channels;
    return &pass->segments[index];
}

/* Convolves blocks of channels [begin, end), counted from the first segment to the last. */
static void convolve_blocks(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    const struct recurrence *r = argument;
    struct engine *e = pass->e;
    size_t n_channels = smol_states_channels(pass->m);
    size_t n_blocks = (n_channels + SLICE_CHANNELS - 1) / SLICE_CHANNELS;
    const float *weight = smol_pass_vector(pass, r->tensor[ROLE_MIXER_CONV]);
    const float *bias = smol_pass_vector(pass, r->tensor[ROLE_MIXER_CONV_BIAS]);
    while (begin < end) {
        size_t first = begin, last = end;
        const struct segment *segment = channels_of(pass, n_blocks, &first, &last);
        begin += last - first;
        size_t channel = first * SLICE_CHANNELS, limit = last * SLICE_CHANNELS;
        size_t n = (limit < n_channels ? limit : n_channels) - channel;
        size_t place = segment->state->places[r->layer] + channel;
        float *window = segment->state->next + place;
        for (size_t tap = 0; tap + 1 < pass->m->states.taps; tap++)
            memcpy(window + tap * n_channels, segment->state->now + place + tap * n_channels,
                   n * sizeof *window);
        const struct convolution convolution = {
            .weight = weight + channel,
            .bias = bias ? bias + channel : NULL,
            .window = window,
            .taps = pass->m->states.taps,
            .stride = n_channels,
            .activates = true,
        };
        e->kernels->convolve(&convolution, n, e->mixed + segment->row * n_channels + channel,
                             n_channels, segment->n);
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

/* Computes what a token does to the states of each head: Mamba2's step and the decay that belongs
 * to it, or DeltaNet's decay and rate of learning. */
static void compute_steps(struct pass *pass, size_t layer, size_t t)
{
    struct engine *e = pass->e;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    const float *bias = smol_pass_vector(pass, tensor[ROLE_MIXER_STEP_BIAS]);
    const float *decays = smol_pass_vector(pass, tensor[ROLE_MIXER_DECAY]);
    size_t n = pass->m->states.n_heads;
    float *step = e->mixer_step + t * n, *decay = e->mixer_decay + t * n;
    bool mamba2 = pass->m->states.kind == STATE_MAMBA2;
    for (size_t i = 0; i < n; i++) {
        float size = math_softplus((mamba2 ? step[i] : decay[i]) + bias[i]);
        decay[i] = math_exp(-math_exp(decays[i]) * size);
        step[i] = mamba2 ? size : math_sigmoid(step[i]);
    }
}

/* Gives DeltaNet's keys the length 1, and its queries that of 1 / sqrt(size). */
static void normalize_vectors(struct pass *pass, size_t t)
{
    const struct blob_states *s = &pass->m->states;
    const struct places at = places_of(pass->m);
    const float eps = 1e-6f, scale = 1.0f / sqrtf((float)s->size);
    float *row = pass->e->mixed + t * smol_states_channels(pass->m);
    for (size_t i = 0; i < (size_t)s->n_groups * s->size; i += s->size) {
        float *query = row + at.read + i, *key = row + at.drive + i;
        pass->e->kernels->unit_norm(query, s->size, eps, scale, query);
        pass->e->kernels->unit_norm(key, s->size, eps, 1, key);
    }
}

static void prepare_token(struct pass *pass, size_t layer, size_t t)
{
    compute_steps(pass, layer, t);
    if (pass->m->states.kind == STATE_DELTA)
        normalize_vectors(pass, t);
}

/* --- the recurrence --------------------------------------------------------------------------- */

/* Runs slice `slice` of a head for all tokens of a segment. */
static void run_slice(struct pass *pass, const struct recurrence *r, const struct segment *segment,
                      size_t head, size_t slice)
{
    const struct blob_states *s = &pass->m->states;
    const struct engine *e = pass->e;
    const struct places at = places_of(pass->m);
    size_t stride = smol_states_channels(pass->m), channel = slice * SLICE_CHANNELS;
    size_t rest = s->head_dim - channel, group = head / (s->n_heads / s->n_groups) * s->size;
    float *row = e->mixed + segment->row * stride;
    float *value = row + at.value + head * s->head_dim + channel;
    const float *step = e->mixer_step + segment->row * s->n_heads + head;
    const float *decay = e->mixer_decay + segment->row * s->n_heads + head;
    size_t width = rest < SLICE_CHANNELS ? rest : SLICE_CHANNELS;
    size_t place = segment->state->places[r->layer] + (s->taps - 1) * stride +
                   (head * smol_states_slices(pass->m) + slice) * s->size * SLICE_CHANNELS;
    const float *before = segment->state->now + place;
    float *state = segment->state->next + place;
    if (s->kind == STATE_MAMBA2)
        e->kernels->scan(&(struct scan){
            .n = segment->n,
            .width = width,
            .size = s->size,
            .x = value,
            .b = row + at.drive + group,
            .c = row + at.read + group,
            .step = step,
            .decay = decay,
            .stride = stride,
            .step_stride = s->n_heads,
            .skip = smol_pass_vector(pass, r->tensor[ROLE_MIXER_SKIP])[head],
            .before = before,
            .state = state,
        });
    else
        e->kernels->delta_rule(&(struct delta_rule){
            .n = segment->n,
            .width = width,
            .size = s->size,
            .value = value,
            .query = row + at.read + group,
            .key = row + at.drive + group,
            .rate = step,
            .decay = decay,
            .stride = stride,
            .step_stride = s->n_heads,
            .before = before,
            .state = state,
        });
}

/* Runs slices [begin, end), counted from the first segment to the last. */
static void run_slices(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    size_t slices = smol_states_slices(pass->m), per_segment = pass->m->states.n_heads * slices;
    for (size_t i = begin; i < end; i++)
        run_slice(pass, argument, &pass->segments[i / per_segment], i % per_segment / slices,
                  i % slices);
}

/* --- output ----------------------------------------------------------------------------------- */

/* Normalizes row t of the output, in groups of `width`, with the weights of each. */
static void normalize_output(struct pass *pass, const struct blob_tensor *norm, float *x,
                             size_t width)
{
    const float *weight = smol_pass_vector(pass, norm);
    for (size_t i = 0; i < smol_states_width(pass->m); i += width)
        pass->e->kernels->rms_norm(x + i, weight + i % norm->cols, width, pass->m->rms_norm_eps,
                                   x + i);
}

/* Applies the norm and the gate to row t of the output, which replaces the gate. */
static void finish_token(struct pass *pass, size_t layer, size_t t)
{
    struct engine *e = pass->e;
    const struct blob_states *s = &pass->m->states;
    const struct product_input input = smol_mixer_state_output(pass);
    const struct blob_tensor *norm = e->network->layers[layer].tensor[ROLE_MIXER_NORM];
    float *gate = e->convolved + t * input.width;
    float *output = e->mixed + t * smol_states_channels(pass->m) + places_of(pass->m).value;
    smol_pass_check_finite(pass, output, input.width, "mixer output", layer, t);
    size_t part = s->kind == STATE_DELTA ? s->head_dim : input.width / s->n_groups;
    bool early = s->kind == STATE_DELTA || pass->m->hybrid.norm == MIXER_NORM_EARLY;
    if (norm && early)
        normalize_output(pass, norm, output, part);
    e->kernels->swiglu(gate, output, input.width);
    if (norm && !early)
        normalize_output(pass, norm, gate, part);
    smol_input_prepare(pass, &input, t, "mixer output", layer);
}

void smol_recurrence_read(const struct worker *w, size_t layer)
{
    struct pass *pass = w->pass;
    struct engine *e = pass->e;
    const struct recurrence r = {layer, e->network->layers[layer].tensor};
    const struct product_input input = smol_residual_input(pass),
                               output = smol_mixer_state_output(pass);
    bool mamba2 = pass->m->states.kind == STATE_MAMBA2;
    const struct product products[] = {
        {r.tensor[ROLE_MIXER_GATE], r.tensor[ROLE_MIXER_GATE_BIAS], .out = e->convolved},
        {r.tensor[ROLE_MIXER_IN], r.tensor[ROLE_MIXER_IN_BIAS], .out = e->mixed},
        {r.tensor[ROLE_MIXER_STEP], r.tensor[ROLE_MIXER_STEP_IN_BIAS],
         .out = mamba2 ? e->mixer_step : e->mixer_decay},
        {r.tensor[ROLE_MIXER_RATE], NULL, .out = e->mixer_step},
    };
    size_t n_channels = smol_states_channels(pass->m);
    smol_pass_each_token(w, read_input, layer);
    if (!pass->m->hybrid.parallel) /* attention has shown it */
        smol_input_observe(w, (struct stats_place){STATS_ATTENTION, (uint32_t)layer, 0}, &input);
    smol_multiply(w, &input, products, mamba2 ? 3 : 4);
    if (pass->m->hybrid.parallel)
        smol_pass_each_token(w, scale_parts, layer);
    smol_pass_each_range(w, pass->n_segments * ((n_channels + SLICE_CHANNELS - 1) / SLICE_CHANNELS),
                         2, convolve_blocks, &r);
    smol_pass_each_token(w, prepare_token, layer);
    smol_pass_each_range(w,
                         pass->n_segments * pass->m->states.n_heads * smol_states_slices(pass->m),
                         4, run_slices, &r);
    smol_pass_each_token(w, finish_token, layer);
    const struct stats_place place = {stats_state_input(pass->m), (uint32_t)layer, 0};
    smol_input_observe(w, place, &output);
}
