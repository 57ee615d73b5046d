/* The first block of a layer, which mixes positions: attention. */
#include "runtime/engine/mixer.h"

#include "runtime/engine/attention.h"
#include "runtime/engine/heads.h"
#include "runtime/engine/residual.h"

/* Returns attention's output, which replaces the queries. */
static struct product_input attended_input(const struct pass *pass)
{
    size_t width = (size_t)pass->m->n_heads * pass->m->head_dim;
    return smol_input_with_rest(smol_input(pass->e->query, pass->n, width, pass->e->query_q),
                                pass->e->query_rest);
}

static void read_attention_input(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_read(pass, layer, ROLE_ATTN_NORM, t, "attention input");
}

/* Completes row t of attention's output. A windowed layer checks here that it is finite: a position
 * that no longer sees such a value may or may not be affected by it, because a kernel may multiply
 * unseen values by 0. */
static void finish_attention(struct pass *pass, size_t layer, size_t t)
{
    const struct product_input input = attended_input(pass);
    smol_attention_finish(pass, layer, t);
    if (pass->e->network->layers[layer].bits & LAYER_WINDOWED)
        smol_pass_check_finite(pass, input.x + t * input.width, input.width, "attention output",
                               layer, t);
    smol_input_prepare(pass, &input, t, "attention output", layer);
}

static void add_attention_output(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_add(pass, layer, ROLE_ATTN_OUT_NORM, t);
}

void smol_mixer_read(const struct worker *w, size_t layer)
{
    struct engine *e = w->pass->e;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    const struct product_input input = smol_residual_input(w->pass),
                               attended = attended_input(w->pass);
    const struct product qkv[] = {
        {tensor[ROLE_ATTN_Q], tensor[ROLE_ATTN_Q_BIAS], .out = e->query},
        {tensor[ROLE_ATTN_K], tensor[ROLE_ATTN_K_BIAS], .out = e->key},
        {tensor[ROLE_ATTN_V], tensor[ROLE_ATTN_V_BIAS], .out = e->value},
    };
    smol_pass_each_token(w, read_attention_input, layer);
    smol_input_observe(w, STATS_ATTENTION, layer, &input);
    smol_multiply(w, &input, qkv, 3);
    smol_pass_each_token(w, smol_heads_store, layer);
    smol_attend(w, layer);
    smol_pass_each_token(w, finish_attention, layer);
    smol_input_observe(w, STATS_ATTENDED, layer, &attended);
}

void smol_mixer_write(const struct worker *w, size_t layer)
{
    const struct blob_tensor *const *tensor = w->pass->e->network->layers[layer].tensor;
    const struct product_input attended = attended_input(w->pass);
    const struct product output =
        smol_residual_product(w->pass, tensor[ROLE_ATTN_O], tensor[ROLE_ATTN_O_BIAS]);
    smol_multiply(w, &attended, &output, 1);
    if (!output.add)
        smol_pass_each_token(w, add_attention_output, layer);
}
