/* The first block of a layer, see mixer.h: attention, and the choice between it and states. */
#include "runtime/engine/mixer.h"

#include "format/model.h"
#include "runtime/engine/attention.h"
#include "runtime/engine/relative.h"
#include "runtime/engine/residual.h"
#include "runtime/kernels/math.h"

/* Returns attention's output, which replaces the queries, or what latent vectors make of it. */
static struct product_input attended_input(const struct pass *pass, size_t layer)
{
    const struct engine *e = pass->e;
    const float *output = model_has_latent(pass->m) ? e->value : e->query;
    return smol_input(output, pass->n, smol_attended_width(pass->m, (uint32_t)layer), e->query_q);
}

static void read_attention_input(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_hybrid *h = &pass->m->hybrid;
    smol_residual_read(pass, layer, ROLE_ATTN_NORM, h->parallel ? h->attention_in : 1, t,
                       "attention input");
}

/* Multiplies row t of attention's output by its gates. */
static void gate_attention(const struct pass *pass, size_t t)
{
    size_t dim = pass->m->head_dim, width = pass->m->n_heads * dim, n = gate_width(pass->m);
    float *x = pass->e->query + t * width;
    const float *gate = pass->e->attention_gate + t * n;
    if (n == width) {
        for (size_t i = 0; i < width; i++)
            x[i] *= math_sigmoid(gate[i]);
        return;
    }
    for (size_t head = 0; head < n; head++, x += dim) {
        float factor = math_sigmoid(gate[head]);
        for (size_t i = 0; i < dim; i++)
            x[i] *= factor;
    }
}

/* Completes row t of attention's output. A windowed layer checks here that it is finite: a position
 * that no longer sees such a value may or may not be affected by it, because a kernel may multiply
 * unseen values by 0. */
static void finish_attention(struct pass *pass, size_t layer, size_t t)
{
    const struct product_input input = attended_input(pass, layer);
    if (!model_has_latent(pass->m) && !(pass->m->blocks & BLOCK_RELATIVE))
        smol_attention_finish(pass, layer, t);
    if (pass->m->blocks & BLOCK_ATTENTION_GATE)
        gate_attention(pass, t);
    if (pass->e->network->layers[layer].bits & LAYER_WINDOWED)
        smol_pass_check_finite(pass, input.x + t * input.width, input.width, "attention output",
                               layer, t);
    smol_input_prepare(pass, &input, t, "attention output", layer);
}

/* Computes attention's output from the residual stream, up to its last product. */
static void attention_read(const struct worker *w, size_t layer)
{
    struct engine *e = w->pass->e;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    const struct product_input input = smol_residual_input(w->pass),
                               attended = attended_input(w->pass, layer);
    const struct product qkv[] = {
        {tensor[ROLE_ATTN_Q], tensor[ROLE_ATTN_Q_BIAS], .out = e->query},
        {tensor[ROLE_ATTN_K], tensor[ROLE_ATTN_K_BIAS], .out = e->key},
        {tensor[ROLE_ATTN_V], tensor[ROLE_ATTN_V_BIAS], .out = e->value},
        {tensor[ROLE_ATTN_GATE], tensor[ROLE_ATTN_GATE_BIAS], .out = e->attention_gate},
    };
    size_t n = !tensor[ROLE_ATTN_K] ? 1 : !tensor[ROLE_ATTN_V] ? 2 : tensor[ROLE_ATTN_GATE] ? 4 : 3;
    smol_pass_each_token(w, read_attention_input, layer);
    smol_input_observe(w, (struct stats_place){STATS_ATTENTION, (uint32_t)layer, 0}, &input);
    if (model_has_latent(w->pass->m))
        smol_latent_read(w, layer, &input);
    else
        smol_multiply(w, &input, qkv, n);
    smol_pass_each_token(w, smol_heads_store, layer);
    if (w->pass->m->blocks & BLOCK_RELATIVE)
        smol_relative_attend(w);
    else
        smol_attend(w, layer);
    if (model_has_latent(w->pass->m))
        smol_latent_attended(w, layer);
    smol_pass_each_token(w, finish_attention, layer);
    smol_input_observe(w, (struct stats_place){STATS_ATTENDED, (uint32_t)layer, 0}, &attended);
}

struct product_input smol_mixer_state_output(const struct pass *pass)
{
    return smol_input(pass->e->convolved, pass->n, smol_states_width(pass->m),
                      pass->e->convolved_q);
}

void smol_mixer_read(const struct worker *w, size_t layer)
{
    const struct blob_model *m = w->pass->m;
    if (layer_attends(m, (uint32_t)layer))
        attention_read(w, layer);
    if (layer_has_state(m, (uint32_t)layer) && m->states.kind == STATE_SHORT_CONV)
        smol_short_conv_read(w, layer);
    else if (layer_has_state(m, (uint32_t)layer))
        smol_recurrence_read(w, layer);
}

void smol_mixer_write(const struct worker *w, size_t layer)
{
    const struct blob_model *m = w->pass->m;
    const struct product_input attended = attended_input(w->pass, layer);
    const struct product_input output = smol_mixer_state_output(w->pass);
    if (layer_attends(m, (uint32_t)layer))
        smol_residual_write(w, layer, &attended, ROLE_ATTN_O, ROLE_ATTN_O_BIAS);
    if (layer_has_state(m, (uint32_t)layer))
        smol_residual_write(w, layer, &output, ROLE_MIXER_OUT, ROLE_MIXER_OUT_BIAS);
}
