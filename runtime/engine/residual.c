/* Norms and the residual stream, see residual.h. */
#include "runtime/engine/residual.h"

#include <string.h>

void smol_normalize(struct pass *pass, const struct layer *layer, enum tensor_role role,
                    const float *x, float *out)
{
    static const enum tensor_role biases[ROLE_COUNT] = {
        [ROLE_ATTN_NORM] = ROLE_ATTN_NORM_BIAS,
        [ROLE_MLP_NORM] = ROLE_MLP_NORM_BIAS,
        [ROLE_FINAL_NORM] = ROLE_FINAL_NORM_BIAS,
    };
    const struct kernels *kernels = pass->e->kernels;
    const float *weight = smol_pass_vector(pass, layer->tensor[role]);
    size_t hidden = pass->m->hidden_size;
    float eps = pass->m->rms_norm_eps;
    if (pass->m->blocks & BLOCK_LAYER_NORM)
        kernels->layer_norm(x, weight, smol_pass_vector(pass, layer->tensor[biases[role]]), hidden,
                            eps, out);
    else
        kernels->rms_norm(x, weight, hidden, eps, out);
}

struct product_input smol_residual_input(const struct pass *pass)
{
    const struct engine *e = pass->e;
    bool normed = !(pass->m->blocks & (BLOCK_NO_INPUT_NORMS | BLOCK_NORM_STREAM));
    return smol_input(normed ? e->normed : e->x, pass->n, pass->m->hidden_size, e->normed_q);
}

/* Returns whether the first layer's norm is that of the embedding. */
static bool norms_embedding(const struct pass *pass)
{
    const struct blob_encoder *encoder = pass->e->network->blob->encoder;
    return encoder && encoder->norms_embedding;
}

void smol_residual_read(struct pass *pass, size_t layer, enum tensor_role role, float scale,
                        size_t t, const char *what)
{
    struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    const struct layer *l = &e->network->layers[layer];
    const struct product_input input = smol_residual_input(pass);
    if (l->tensor[role])
        smol_normalize(pass, l, role, e->x + t * hidden,
                       (pass->m->blocks & BLOCK_NORM_STREAM ? e->x : e->normed) + t * hidden);
    for (size_t i = 0; scale != 1 && i < hidden; i++)
        e->normed[t * hidden + i] *= scale;
    if (layer == 0 && role == ROLE_ATTN_NORM && norms_embedding(pass))
        memcpy(e->x + t * hidden, e->normed + t * hidden, hidden * sizeof *e->x);
    smol_input_prepare(pass, &input, t, what, layer);
}

/* Returns what the output of the matrix `weight` is multiplied by. */
static float output_scale(const struct pass *pass, enum tensor_role weight)
{
    const struct blob_hybrid *h = &pass->m->hybrid;
    float scale = pass->m->residual_scale;
    if (!h->parallel)
        return scale;
    return scale * (weight == ROLE_ATTN_O      ? h->attention_out
                    : weight == ROLE_MIXER_OUT ? h->mixer_out
                                               : h->mlp_out);
}

/* Returns whether a block's last product writes its output apart from the residual stream. */
static bool is_apart(const struct pass *pass, enum tensor_role weight)
{
    return pass->m->blocks & BLOCK_NORM_OUTPUTS || output_scale(pass, weight) != 1;
}

struct product smol_residual_product(const struct pass *pass, size_t layer, enum tensor_role weight,
                                     enum tensor_role bias)
{
    const struct blob_tensor *const *tensor = pass->e->network->layers[layer].tensor;
    bool apart = is_apart(pass, weight);
    return (struct product){tensor[weight], tensor[bias],
                            .out = apart ? pass->e->normed : pass->e->x, .add = !apart};
}

/* Adds row t of an output that is apart to the residual stream. */
static void add_output(struct pass *pass, size_t layer, enum tensor_role weight, size_t t)
{
    enum tensor_role norm = weight == ROLE_MLP_DOWN ? ROLE_MLP_OUT_NORM : ROLE_ATTN_OUT_NORM;
    size_t hidden = pass->m->hidden_size;
    const struct layer *l = &pass->e->network->layers[layer];
    float *x = pass->e->x + t * hidden, *output = pass->e->normed + t * hidden;
    float scale = output_scale(pass, weight);
    if (l->tensor[norm])
        smol_normalize(pass, l, norm, output, output);
    for (size_t i = 0; i < hidden; i++)
        x[i] += output[i] * scale;
}

static void add_attention(struct pass *pass, size_t layer, size_t t)
{
    add_output(pass, layer, ROLE_ATTN_O, t);
}

static void add_mixer(struct pass *pass, size_t layer, size_t t)
{
    add_output(pass, layer, ROLE_MIXER_OUT, t);
}

static void add_mlp(struct pass *pass, size_t layer, size_t t)
{
    add_output(pass, layer, ROLE_MLP_DOWN, t);
}

void smol_residual_finish(const struct worker *w, size_t layer, enum tensor_role weight)
{
    if (is_apart(w->pass, weight))
        smol_pass_each_token(w,
                             weight == ROLE_ATTN_O      ? add_attention
                             : weight == ROLE_MIXER_OUT ? add_mixer
                                                        : add_mlp,
                             layer);
}

void smol_residual_write(const struct worker *w, size_t layer, const struct product_input *input,
                         enum tensor_role weight, enum tensor_role bias)
{
    const struct product output = smol_residual_product(w->pass, layer, weight, bias);
    smol_multiply(w, input, &output, 1);
    smol_residual_finish(w, layer, weight);
}
