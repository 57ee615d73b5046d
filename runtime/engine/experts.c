/* Mixtures of experts, see mlp.h. The rows of a pass are grouped by expert, so that each matrix
 * is multiplied once. A row's output is a sum over its experts in ascending order, whichever rows
 * stand beside it. */
#include "runtime/engine/mlp.h"

#include <math.h>
#include <string.h>

#include "format/model.h"
#include "runtime/engine/residual.h"
#include "runtime/kernels/math.h"

static const struct layer *layer_of(const struct pass *pass, size_t layer)
{
    return &pass->e->network->layers[layer];
}

/* The tensors of an expert follow one another in the blob's table. */
static const struct blob_tensor *expert_tensor(const struct pass *pass, size_t layer,
                                               enum tensor_role role, uint32_t expert)
{
    return layer_of(pass, layer)->tensor[role] + (size_t)expert * expert_matrices(pass->m);
}

/* --- routing --------------------------------------------------------------------------------- */

/* Chooses the n_used experts with the largest scores (n_experts), of equal ones the first: chosen
 * (n_used), ascending. Whatever a NaN compares to, the experts differ. */
static void choose(const struct blob_experts *experts, const float *scores, const float *bias,
                   uint32_t *chosen)
{
    bool taken[MODEL_MAX_EXPERTS] = {false};
    for (uint32_t n = 0; n < experts->n_used; n++) {
        uint32_t best = experts->n_experts;
        float most = 0;
        for (uint32_t i = 0; i < experts->n_experts; i++) {
            float score = bias ? scores[i] + bias[i] : scores[i];
            if (!taken[i] && (best == experts->n_experts || score > most)) {
                best = i;
                most = score;
            }
        }
        taken[best] = true;
    }
    for (uint32_t i = 0; i < experts->n_experts; i++)
        if (taken[i])
            *chosen++ = i;
}

/* Turns logits (n) into exp(logit - the largest), and returns their sum. */
static float exponentiate(float *logits, size_t n)
{
    float most = logits[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    for (size_t i = 0; i < n; i++) {
        logits[i] = math_exp(logits[i] - most);
        sum += logits[i];
    }
    return sum;
}

/* Computes the weights (n_used) of the chosen experts from the scores (n_experts): logits, or for
 * SCORE_SIGMOID their sigmoids. */
static void weigh(const struct blob_experts *experts, float *scores, const uint32_t *chosen,
                  float *weights)
{
    uint32_t n = experts->n_used;
    float sum = 1, chosen_sum = 0;
    if (experts->scoring == SCORE_SOFTMAX)
        sum = exponentiate(scores, experts->n_experts);
    for (uint32_t i = 0; i < n; i++)
        weights[i] = scores[chosen[i]];
    if (experts->scoring == SCORE_SOFTMAX_CHOSEN)
        sum = exponentiate(weights, n);
    for (uint32_t i = 0; i < n; i++) {
        weights[i] /= sum;
        chosen_sum += weights[i];
    }
    for (uint32_t i = 0; i < n; i++)
        weights[i] =
            (experts->normalizes ? weights[i] / (chosen_sum + experts->sum_epsilon) : weights[i]) *
            experts->scale;
}

/* Chooses the experts of row t. */
static void route(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_experts *experts = &pass->m->experts;
    const struct expert_memory *memory = &pass->e->experts;
    const float *bias = smol_pass_vector(pass, layer_of(pass, layer)->tensor[ROLE_ROUTER_BIAS]);
    float *scores = memory->scores + t * experts->n_experts;
    const float *factors = smol_pass_vector(pass, layer_of(pass, layer)->tensor[ROLE_ROUTER_SCALE]);
    uint32_t *chosen = memory->chosen + t * experts->n_used;
    float *weights = memory->weights + t * experts->n_used;
    smol_pass_check_finite(pass, scores, experts->n_experts, "router's output", layer, t);
    for (uint32_t i = 0; experts->scoring == SCORE_SIGMOID && i < experts->n_experts; i++)
        scores[i] = math_sigmoid(scores[i]);
    if (experts->shared_gate) {
        smol_pass_check_finite(pass, memory->shared_gate + t, 1, "shared gate", layer, t);
        memory->shared_gate[t] = math_sigmoid(memory->shared_gate[t]);
    }
    choose(experts, scores, bias, chosen);
    weigh(experts, scores, chosen, weights);
    for (uint32_t i = 0; factors && i < experts->n_used; i++)
        weights[i] *= factors[chosen[i]];
}

/* Lists the rows of each expert that is used. */
static void group_rows(const struct pass *pass)
{
    struct expert_memory *memory = &pass->e->experts;
    const struct blob_experts *experts = &pass->m->experts;
    size_t n = pass->n * experts->n_used;
    uint32_t next[MODEL_MAX_EXPERTS] = {0}, first = 0, column = 0;
    for (size_t i = 0; i < n; i++)
        next[memory->chosen[i]]++;
    memory->n_uses = 0;
    for (uint32_t expert = 0; expert < experts->n_experts; expert++) {
        uint32_t n_rows = next[expert];
        next[expert] = first;
        if (n_rows == 0)
            continue;
        memory->uses[memory->n_uses++] = (struct expert_use){expert, first, n_rows, column};
        first += n_rows;
        column += (uint32_t)smol_quantized_stride(n_rows);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t place = next[memory->chosen[i]]++;
        memory->rows[place] = (uint32_t)(i / experts->n_used);
        memory->row_weights[place] = memory->weights[i];
    }
}

/* --- inputs and activations of experts ------------------------------------------------------- */

/* Returns the rows of an expert in an array x of rows and in its quantized copy. */
static struct product_input view(const struct expert_use *use, const float *x, size_t width,
                                 struct quantized q)
{
    return smol_input(x ? x + use->first * width : NULL, use->n, width,
                      smol_quantized_part(q, count_groups(width), use->column));
}

/* Returns the input of an expert: copies of its rows, or, if it has all, the layer's input. */
static struct product_input input_of(const struct pass *pass, const struct expert_use *use)
{
    const struct expert_memory *memory = &pass->e->experts;
    if (use->n == pass->n)
        return smol_residual_input(pass);
    return view(use, memory->input, pass->m->hidden_size, memory->input_q);
}

static struct product_input gated_of(const struct pass *pass, const struct expert_use *use)
{
    const struct expert_memory *memory = &pass->e->experts;
    return view(use, memory->gated, pass->m->experts.width, memory->gated_q);
}

/* Copies rows [begin, end) of the list, where they are not all rows of the pass. Quantizing a row
 * again gives the same steps. */
static void gather(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    const struct expert_memory *memory = &pass->e->experts;
    const struct product_input all = smol_residual_input(pass);
    (void)argument;
    for (size_t i = 0; i < memory->n_uses; i++) {
        const struct expert_use *use = &memory->uses[i];
        if (use->first + use->n <= begin || use->first >= end || use->n == pass->n)
            continue;
        const struct product_input input = input_of(pass, use);
        size_t last = use->first + use->n < end ? use->first + use->n : end;
        for (size_t at = begin > use->first ? begin : use->first; at < last; at++) {
            const float *row = all.x + memory->rows[at] * all.width;
            if (input.quantized.steps)
                pass->e->kernels->quantize(row, all.width, &input.quantized, at - use->first);
            else
                memcpy(memory->input + at * all.width, row, all.width * sizeof *row);
        }
    }
}

/* Computes slices [begin, end) of the activations, counted over all experts that are used. */
static void activate(struct pass *pass, size_t layer, size_t begin, size_t end)
{
    const struct expert_memory *memory = &pass->e->experts;
    size_t width = pass->m->experts.width;
    size_t n_slices = count_groups(width);
    for (size_t next, at = begin; at < end; at = next) {
        const struct expert_use *use = &memory->uses[at / n_slices];
        size_t first = at % n_slices;
        next = at - first + n_slices < end ? at - first + n_slices : end;
        const struct mlp_rows rows = {
            .pass = pass,
            .layer = layer,
            .gate = pass->m->blocks & BLOCK_NO_GATE
                        ? NULL
                        : expert_tensor(pass, layer, ROLE_EXPERT_GATE, use->expert),
            .up = expert_tensor(pass, layer, ROLE_EXPERT_UP, use->expert),
            .input = input_of(pass, use),
            .gated = gated_of(pass, use),
            .out = memory->gated ? memory->gated + use->first * width : NULL,
            .rows = memory->rows + use->first,
        };
        smol_mlp_activate(&rows, first, first + (next - at));
    }
}

/* Computes the activations as one stage. Its number of items does not depend on the list of
 * experts, which a thread that comes late may find changed. */
static void activate_all(const struct worker *w, size_t layer)
{
    const struct pass *pass = w->pass;
    const size_t n_parts = 2 * (size_t)w->thread->n_threads;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n_parts);
    while (smol_pool_claim(&stage)) {
        size_t n_slices = pass->e->experts.n_uses * count_groups(pass->m->experts.width);
        size_t begin, end;
        pool_share(n_slices, stage.item, n_parts, &begin, &end);
        activate(w->pass, layer, begin, end);
    }
}

/* Shows the observer an input of each expert that is used, as one stage of as many items as there
 * are experts, for the same reason. */
static void observe_uses(const struct worker *w, enum stats_input kind, size_t layer)
{
    const struct pass *pass = w->pass;
    const struct expert_memory *memory = &pass->e->experts;
    const struct observer *observer = pass->observer;
    if (!observer || !observer->parts)
        return;
    struct pool_stage stage = pool_stage(w->thread, pass->m->experts.n_experts);
    while (smol_pool_claim(&stage)) {
        if (stage.item >= memory->n_uses)
            continue;
        const struct expert_use *use = &memory->uses[stage.item];
        const struct stats_place place = {kind, (uint32_t)layer, use->expert};
        const struct product_input x =
            kind == STATS_EXPERT ? input_of(pass, use) : gated_of(pass, use);
        if (observer->parts(observer->user, place) > 0)
            observer->see_expert(observer->user, place, x.x, x.width, x.n);
    }
}

/* Makes row t of the router's input, where it has a norm of its own. */
static void read_router_input(struct pass *pass, size_t layer, size_t t)
{
    float scale = 1 / sqrtf((float)pass->m->hidden_size);
    smol_residual_read(pass, layer, ROLE_ROUTER_NORM, scale, t, "router's input");
}

static void read_input(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_read(pass, layer, ROLE_EXPERT_NORM, 1, t, "experts' input");
}

/* Computes the output of the MLP beside the experts, whose input then makes room for the router's.
 */
static void end_shared(const struct worker *w, size_t layer, const struct product_input *shared)
{
    const struct product output = {layer_of(w->pass, layer)->tensor[ROLE_MLP_DOWN],
                                   .out = w->pass->e->experts.shared_out};
    smol_multiply(w, shared, &output, 1);
    smol_pass_each_token(w, read_router_input, layer);
}

void smol_experts_read(const struct worker *w, size_t layer, const struct product_input *shared)
{
    struct pass *pass = w->pass;
    const struct blob_experts *experts = &pass->m->experts;
    const struct product_input input = smol_residual_input(pass);
    const struct blob_tensor *const *tensor = layer_of(pass, layer)->tensor;
    const struct product routes[] = {
        {tensor[ROLE_ROUTER], .out = pass->e->experts.scores},
        {tensor[ROLE_SHARED_GATE], .out = pass->e->experts.shared_gate},
    };
    if (experts->own_norms)
        end_shared(w, layer, shared);
    smol_multiply(w, &input, routes, tensor[ROLE_SHARED_GATE] ? 2 : 1);
    smol_pass_each_token(w, route, layer);
    if (experts->own_norms)
        smol_pass_each_token(w, read_input, layer);
    struct pool_stage stage = pool_stage(w->thread, 1);
    while (smol_pool_claim(&stage))
        group_rows(pass);
    if (pass->n > 1)
        smol_pass_each_range(w, pass->n * experts->n_used, 4, gather, NULL);
    observe_uses(w, STATS_EXPERT, layer);
    activate_all(w, layer);
    observe_uses(w, STATS_EXPERT_GATED, layer);
}

/* --- outputs --------------------------------------------------------------------------------- */

struct outputs {
    size_t layer;
    const struct product_input *shared;
    struct product to; /* its weight is the last matrix of the MLP beside the experts, or NULL */
};

/* Computes row blocks [begin, end), at most BATCH / n of them, of the sums over the experts of each
 * row: sums (n, width). */
static void sum_experts(struct pass *pass, const struct outputs *o, size_t begin, size_t end,
                        float *sums)
{
    const struct expert_memory *memory = &pass->e->experts;
    size_t width = (end - begin) * TILE_ROWS;
    float products[BATCH * TILE_ROWS];
    if (o->to.weight)
        smol_multiply_blocks(pass, o->to.weight, NULL, o->shared, begin, end, sums, width);
    else
        memset(sums, 0, pass->n * width * sizeof *sums);
    for (size_t t = 0; pass->m->experts.shared_gate && t < pass->n; t++)
        for (size_t r = 0; r < width; r++)
            sums[t * width + r] *= memory->shared_gate[t];
    for (size_t i = 0; i < memory->n_uses; i++) {
        const struct expert_use *use = &memory->uses[i];
        const struct product_input gated = gated_of(pass, use);
        smol_multiply_blocks(pass, expert_tensor(pass, o->layer, ROLE_EXPERT_DOWN, use->expert),
                             NULL, &gated, begin, end, products, width);
        for (size_t t = 0; t < use->n; t++) {
            float weight = memory->row_weights[use->first + t];
            float *to = sums + memory->rows[use->first + t] * width;
            for (size_t r = 0; r < width; r++)
                to[r] += weight * products[t * width + r];
        }
    }
}

static void write_blocks(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    const struct outputs *o = argument;
    const struct blob_tensor *down = expert_tensor(pass, o->layer, ROLE_EXPERT_DOWN, 0);
    size_t hidden = pass->m->hidden_size, step = smol_blocks_at_once(down, pass->n);
    for (size_t next, block = begin; block < end; block = next) {
        float sums[BATCH * TILE_ROWS];
        next = block + step < end ? block + step : end;
        sum_experts(pass, o, block, next, sums);
        size_t row = block * TILE_ROWS, width = (next - block) * TILE_ROWS;
        size_t n = hidden - row < width ? hidden - row : width;
        for (size_t t = 0; t < pass->n; t++) {
            float *out = o->to.out + t * hidden + row;
            for (size_t r = 0; r < n; r++)
                out[r] = o->to.add ? out[r] + sums[t * width + r] : sums[t * width + r];
        }
    }
}

/* Adds row t of the output of the MLP beside the experts to theirs, each after its norm. */
static void join_outputs(struct pass *pass, size_t layer, size_t t)
{
    size_t hidden = pass->m->hidden_size;
    float *out = pass->e->normed + t * hidden, *beside = pass->e->experts.shared_out + t * hidden;
    smol_normalize(pass, layer_of(pass, layer), ROLE_EXPERT_OUT_NORM, out, out);
    smol_normalize(pass, layer_of(pass, layer), ROLE_SHARED_OUT_NORM, beside, beside);
    for (size_t i = 0; i < hidden; i++)
        out[i] += beside[i];
}

void smol_experts_write(const struct worker *w, size_t layer, const struct product_input *shared)
{
    const bool own_norms = w->pass->m->experts.own_norms;
    struct outputs o = {layer, shared,
                        smol_residual_product(w->pass, layer, ROLE_MLP_DOWN, ROLE_MLP_DOWN_BIAS)};
    if (own_norms)
        o.to.weight = NULL; /* its output is apart */
    smol_pass_each_range(w, count_blocks(w->pass->m->hidden_size), 2, write_blocks, &o);
    if (own_norms)
        smol_pass_each_token(w, join_outputs, layer);
    smol_residual_finish(w, layer, ROLE_MLP_DOWN);
}
