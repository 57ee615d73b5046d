/* Reading and writing the residual stream, see residual.h. */
#include "runtime/residual.h"

struct input smol_residual_input(const struct pass *pass)
{
    const struct smol_context *c = pass->c;
    bool normed = !(pass->m->blocks & BLOCK_NO_INPUT_NORMS);
    return smol_input(normed ? c->normed : c->x, pass->n, pass->m->hidden_size, c->normed_q);
}

void smol_residual_read(struct pass *pass, const struct blob_tensor *norm, size_t t,
                        const char *what, size_t layer)
{
    struct smol_context *c = pass->c;
    size_t hidden = pass->m->hidden_size;
    const struct input input = smol_residual_input(pass);
    if (norm)
        c->kernels->rms_norm(c->x + t * hidden, smol_pass_vector(pass, norm), hidden,
                             pass->m->rms_norm_eps, c->normed + t * hidden);
    smol_input_prepare(pass, &input, t, what, layer);
}

/* The output has the place of a block's input, which is of no use any more. */
struct product smol_residual_product(const struct pass *pass, const struct blob_tensor *weight,
                                     const struct blob_tensor *bias)
{
    bool apart = pass->m->blocks & BLOCK_NORM_OUTPUTS || pass->m->residual_scale != 1;
    return (struct product){weight, bias, .out = apart ? pass->c->normed : pass->c->x,
                            .add = !apart};
}

void smol_residual_add(struct pass *pass, const struct blob_tensor *norm, size_t t)
{
    size_t hidden = pass->m->hidden_size;
    float *x = pass->c->x + t * hidden, *output = pass->c->normed + t * hidden;
    float scale = pass->m->residual_scale;
    if (norm)
        pass->c->kernels->rms_norm(output, smol_pass_vector(pass, norm), hidden,
                                   pass->m->rms_norm_eps, output);
    for (size_t i = 0; i < hidden; i++)
        x[i] += output[i] * scale;
}
