/* Reading and writing the residual stream, see residual.h. */
#include "runtime/engine/residual.h"

struct input smol_residual_input(const struct pass *pass)
{
    const struct engine *e = pass->e;
    bool normed = !(pass->m->blocks & BLOCK_NO_INPUT_NORMS);
    return smol_input(normed ? e->normed : e->x, pass->n, pass->m->hidden_size, e->normed_q);
}

void smol_residual_read(struct pass *pass, const struct blob_tensor *norm, size_t t,
                        const char *what, size_t layer)
{
    struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    const struct input input = smol_residual_input(pass);
    if (norm)
        e->kernels->rms_norm(e->x + t * hidden, smol_pass_vector(pass, norm), hidden,
                             pass->m->rms_norm_eps, e->normed + t * hidden);
    smol_input_prepare(pass, &input, t, what, layer);
}

/* The output has the place of a block's input, which is of no use any more. */
struct product smol_residual_product(const struct pass *pass, const struct blob_tensor *weight,
                                     const struct blob_tensor *bias)
{
    bool apart = pass->m->blocks & BLOCK_NORM_OUTPUTS || pass->m->residual_scale != 1;
    return (struct product){weight, bias, .out = apart ? pass->e->normed : pass->e->x,
                            .add = !apart};
}

void smol_residual_add(struct pass *pass, const struct blob_tensor *norm, size_t t)
{
    size_t hidden = pass->m->hidden_size;
    float *x = pass->e->x + t * hidden, *output = pass->e->normed + t * hidden;
    float scale = pass->m->residual_scale;
    if (norm)
        pass->e->kernels->rms_norm(output, smol_pass_vector(pass, norm), hidden,
                                   pass->m->rms_norm_eps, output);
    for (size_t i = 0; i < hidden; i++)
        x[i] += output[i] * scale;
}
