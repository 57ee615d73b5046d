/* A layer's MLP, as part of a forward pass. */
#include <string.h>

#include "common/number.h"
#include "runtime/engine/forward.h"
#include "runtime/engine/residual.h"

static struct input gated_input(const struct pass *pass)
{
    return smol_input(pass->e->gated, pass->n, pass->m->intermediate_size, pass->e->gated_q);
}

/* The MLP's activation, gate and up made one (SwiGLU, GEGLU; Shazeer, 2020), is made in slices of
 * as many channels as share a scale in its quantized copy, and as many slices at a time as fit into
 * the first-level cache: all of a range when there is one token, since each change between the two
 * weights costs the time that memory takes to find its pace again. */
enum { SLICE = GROUP_INPUTS, SLICE_BLOCKS = SLICE / TILE_ROWS, WORKBENCH = BATCH * SLICE };

/* Slices [begin, end) of one of the two products: out (slices, n, SLICE); 0 behind the last
 * channel. */
static void multiply_slices(struct pass *pass, const struct blob_tensor *weight,
                            const struct blob_tensor *bias, const struct input *normed,
                            size_t begin, size_t end, float out[WORKBENCH])
{
    size_t n_blocks = count_blocks(weight->rows);
    if (n_blocks < end * SLICE_BLOCKS)
        memset(out, 0, (end - begin) * pass->n * SLICE * sizeof *out);
    for (size_t slice = begin; slice < end; slice++) {
        size_t block = slice * SLICE_BLOCKS, behind = block + SLICE_BLOCKS;
        smol_multiply_blocks(pass, weight, bias, normed, block,
                             behind < n_blocks ? behind : n_blocks,
                             out + (slice - begin) * pass->n * SLICE, SLICE);
    }
}

/* Rows of a slice (n, SLICE) that have a NaN or an infinity are errors of their sequences; zeros in
 * their place keep them from the others. */
static void drop_not_finite(struct pass *pass, size_t layer, float *activation)
{
    for (size_t t = 0; t < pass->n; t++) {
        bool finite = true;
        for (size_t i = 0; i < SLICE; i++)
            finite &= f32_is_finite(activation[t * SLICE + i]);
        if (finite)
            continue;
        smol_pass_fail_numeric(pass, "MLP activation", layer, t);
        memset(activation + t * SLICE, 0, SLICE * sizeof *activation);
    }
}

/* Puts a slice (n, SLICE) of the activation where the next product reads it. */
static void store_slice(struct pass *pass, size_t layer, const struct input *gated, size_t slice,
                        float *activation)
{
    if (pass->m->dtype == DTYPE_INT8) {
        const struct kernels *kernels = pass->e->kernels;
        if (!kernels->quantize_slice(activation, pass->n, &gated->quantized, slice)) {
            drop_not_finite(pass, layer, activation);
            kernels->quantize_slice(activation, pass->n, &gated->quantized, slice);
        }
        return;
    }
    size_t first = slice * SLICE, rest = gated->width - first;
    for (size_t t = 0; t < pass->n; t++)
        memcpy(pass->e->gated + t * gated->width + first, activation + t * SLICE,
               (rest < SLICE ? rest : SLICE) * sizeof(float));
}

static void activate_slices(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    size_t layer = *(const size_t *)argument, n_values = pass->n * SLICE; /* of a slice */
    const struct blob_tensor *const *tensor = pass->e->model->layers[layer].tensor;
    const struct input normed = smol_residual_input(pass), gated = gated_input(pass);
    const struct kernels *kernels = pass->e->kernels;
    bool gelu = pass->m->activation == ACTIVATION_GELU_TANH;
    for (size_t next, slice = begin; slice < end; slice = next) {
        float gate[WORKBENCH], up[WORKBENCH];
        next = slice + WORKBENCH / n_values < end ? slice + WORKBENCH / n_values : end;
        multiply_slices(pass, tensor[ROLE_MLP_GATE], tensor[ROLE_MLP_GATE_BIAS], &normed, slice,
                        next, gate);
        multiply_slices(pass, tensor[ROLE_MLP_UP], tensor[ROLE_MLP_UP_BIAS], &normed, slice, next,
                        up);
        (gelu ? kernels->geglu : kernels->swiglu)(gate, up, (next - slice) * n_values);
        for (size_t i = slice; i < next; i++)
            store_slice(pass, layer, &gated, i, gate + (i - slice) * n_values);
    }
}

static void read_residual(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_tensor *norm = pass->e->model->layers[layer].tensor[ROLE_MLP_NORM];
    smol_residual_read(pass, norm, t, "MLP input", layer);
}

static void add_output(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_add(pass, pass->e->model->layers[layer].tensor[ROLE_MLP_OUT_NORM], t);
}

void smol_forward_mlp(const struct worker *w, size_t layer)
{
    const struct blob_tensor *const *tensor = w->pass->e->model->layers[layer].tensor;
    const struct input gated = gated_input(w->pass);
    const struct product down =
        smol_residual_product(w->pass, tensor[ROLE_MLP_DOWN], tensor[ROLE_MLP_DOWN_BIAS]);
    smol_pass_each_token(w, read_residual, layer);
    smol_pass_each_range(w, count_groups(gated.width), 2, activate_slices, &layer);
    smol_multiply(w, &gated, &down, 1);
    if (!down.add)
        smol_pass_each_token(w, add_output, layer);
}
