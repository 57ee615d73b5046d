/* The MLP: the second block of a layer. */
#include "runtime/engine/mlp.h"

#include <string.h>

#include "common/number.h"
#include "format/model.h"
#include "runtime/engine/residual.h"

static struct product_input gated_input(const struct pass *pass, size_t layer)
{
    size_t width = smol_mlp_width(pass->m, (uint32_t)layer);
    return smol_input(pass->e->gated, pass->n, width, pass->e->gated_q);
}

activation_kernel *smol_mlp_activation(const struct pass *pass)
{
    const struct kernels *kernels = pass->e->kernels;
    switch ((enum activation)pass->m->activation) {
    case ACTIVATION_GELU_TANH:
        return kernels->geglu_tanh;
    case ACTIVATION_GELU:
        return kernels->geglu;
    case ACTIVATION_RELU_SQUARED:
        return kernels->reglu_squared;
    case ACTIVATION_SILU:
    case ACTIVATION_COUNT:
        break;
    }
    return kernels->swiglu;
}

/* The MLP's activation combines gate and up (SwiGLU, GEGLU; Shazeer, 2020), or is that of up alone,
 * which then takes the gate's place. It is computed in slices of as many channels as share a scale
 * in its quantized copy, and in as many slices at a time as fit into the first-level cache. For a
 * single token this is a whole range, because each switch between the two weights slows down the
 * reads from memory. */
enum { SLICE = GROUP_INPUTS, SLICE_BLOCKS = SLICE / TILE_ROWS, WORKBENCH = BATCH * SLICE };

/* Computes slices [begin, end) of one of the two products: out (slices, n, SLICE), with 0 after the
 * last channel. */
static void multiply_slices(struct pass *pass, const struct blob_tensor *weight,
                            const struct blob_tensor *bias, const struct product_input *normed,
                            size_t begin, size_t end, float out[WORKBENCH])
{
    size_t n_blocks = count_blocks(weight->rows);
    if (n_blocks < end * SLICE_BLOCKS)
        memset(out, 0, (end - begin) * normed->n * SLICE * sizeof *out);
    for (size_t slice = begin; slice < end; slice++) {
        size_t block = slice * SLICE_BLOCKS, block_end = block + SLICE_BLOCKS;
        smol_multiply_blocks(pass, weight, bias, normed, block,
                             block_end < n_blocks ? block_end : n_blocks,
                             out + (slice - begin) * normed->n * SLICE, SLICE);
    }
}

/* Reports an error for the sequence of each row of a slice (n, SLICE) that has a NaN or an
 * infinity, and sets the row to 0 so that it does not affect the others. */
static void drop_not_finite(const struct mlp_rows *rows, float *activation)
{
    for (size_t t = 0; t < rows->input.n; t++) {
        bool finite = true;
        for (size_t i = 0; i < SLICE; i++)
            finite &= f32_is_finite(activation[t * SLICE + i]);
        if (finite)
            continue;
        smol_pass_fail_numeric(rows->pass, "MLP activation", rows->layer,
                               rows->rows ? rows->rows[t] : rows->first + t);
        memset(activation + t * SLICE, 0, SLICE * sizeof *activation);
    }
}

/* Stores a slice (n, SLICE) of the activation where the next product reads it. */
static void store_slice(const struct mlp_rows *rows, size_t slice, float *activation)
{
    const struct product_input *gated = &rows->gated;
    if (rows->pass->m->dtype == DTYPE_INT8) {
        const struct kernels *kernels = rows->pass->e->kernels;
        if (!kernels->quantize_slice(activation, gated->n, &gated->quantized, slice)) {
            drop_not_finite(rows, activation);
            kernels->quantize_slice(activation, gated->n, &gated->quantized, slice);
        }
        return;
    }
    size_t first = slice * SLICE, rest = gated->width - first;
    for (size_t t = 0; t < gated->n; t++)
        memcpy(rows->out + t * gated->width + first, activation + t * SLICE,
               (rest < SLICE ? rest : SLICE) * sizeof(float));
}

static void scale_gate(float *gate, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        gate[i] *= scale;
}

void smol_mlp_activate(const struct mlp_rows *rows, size_t begin, size_t end)
{
    struct pass *pass = rows->pass;
    size_t n_values = rows->input.n * SLICE; /* per slice */
    activation_kernel *activate = smol_mlp_activation(pass);
    for (size_t next, slice = begin; slice < end; slice = next) {
        float gate[WORKBENCH], up[WORKBENCH];
        next = slice + WORKBENCH / n_values < end ? slice + WORKBENCH / n_values : end;
        if (rows->gate)
            multiply_slices(pass, rows->gate, rows->gate_bias, &rows->input, slice, next, gate);
        multiply_slices(pass, rows->up, rows->up_bias, &rows->input, slice, next,
                        rows->gate ? up : gate);
        if (pass->m->hybrid.parallel)
            scale_gate(gate, (next - slice) * n_values, pass->m->hybrid.mlp_gate);
        activate(gate, rows->gate ? up : NULL, (next - slice) * n_values);
        for (size_t i = slice; i < next; i++)
            store_slice(rows, i, gate + (i - slice) * n_values);
    }
}

/* Computes slices [begin, end) for all rows, at most BATCH at a time. */
static void activate_slices(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    size_t layer = *(const size_t *)argument;
    const struct blob_tensor *const *tensor = pass->e->network->layers[layer].tensor;
    const struct product_input all = smol_residual_input(pass), gated = gated_input(pass, layer);
    for (size_t first = 0; first < pass->n; first += BATCH) {
        size_t left = pass->n - first, n = left < BATCH ? left : BATCH;
        const struct mlp_rows rows = {
            .pass = pass,
            .layer = layer,
            .gate = tensor[ROLE_MLP_GATE],
            .up = tensor[ROLE_MLP_UP],
            .gate_bias = tensor[ROLE_MLP_GATE_BIAS],
            .up_bias = tensor[ROLE_MLP_UP_BIAS],
            .input = smol_input_rows(&all, first, n),
            .gated = smol_input_rows(&gated, first, n),
            .out = pass->e->gated + first * gated.width,
            .first = first,
        };
        smol_mlp_activate(&rows, begin, end);
    }
}

static void read_mlp_input(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_read(pass, layer, ROLE_MLP_NORM, 1, t, "MLP input");
}

void smol_mlp_read(const struct worker *w, size_t layer)
{
    const struct product_input normed = smol_residual_input(w->pass);
    const struct product_input gated = gated_input(w->pass, layer);
    if (!(w->pass->m->blocks & BLOCK_ONE_NORM))
        smol_pass_each_token(w, read_mlp_input, layer);
    smol_input_observe(w, (struct stats_place){STATS_MLP, (uint32_t)layer, 0}, &normed);
    if (gated.width > 0)
        smol_pass_each_range(w, count_groups(gated.width), 2, activate_slices, &layer);
    smol_input_observe(w, (struct stats_place){STATS_GATED, (uint32_t)layer, 0}, &gated);
    if (smol_layer_is_sparse(w->pass->m, (uint32_t)layer))
        smol_experts_read(w, layer, &gated);
}

void smol_mlp_write(const struct worker *w, size_t layer)
{
    const struct product_input gated = gated_input(w->pass, layer);
    if (smol_layer_is_sparse(w->pass->m, (uint32_t)layer))
        smol_experts_write(w, layer, &gated);
    else
        smol_residual_write(w, layer, &gated, ROLE_MLP_DOWN, ROLE_MLP_DOWN_BIAS);
}
