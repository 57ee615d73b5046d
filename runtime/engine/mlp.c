/* The MLP: the second block of a layer. */
#include "runtime/engine/mlp.h"

#include <string.h>

#include "common/number.h"
#include "runtime/engine/residual.h"

static struct product_input gated_input(const struct pass *pass)
{
    return smol_input_with_rest(
        smol_input(pass->e->gated, pass->n, pass->m->intermediate_size, pass->e->gated_q),
        pass->e->gated_rest);
}

typedef void activation_kernel(float *gate, const float *up, size_t n);

static activation_kernel *activation_of(const struct pass *pass)
{
    const struct kernels *kernels = pass->e->kernels;
    switch ((enum activation)pass->m->activation) {
    case ACTIVATION_GELU_TANH:
        return kernels->geglu_tanh;
    case ACTIVATION_GELU:
        return kernels->geglu;
    case ACTIVATION_SILU:
        break;
    }
    return kernels->swiglu;
}

/* The MLP's activation combines gate and up (SwiGLU, GEGLU; Shazeer, 2020), or is that of up alone,
 * which then takes the gate's place. It is computed in
 * slices of as many channels as share a scale in its quantized copy, and in as many slices at a
 * time as fit into the first-level cache. For a single token this is a whole range, because
 * each switch between the two weights slows down the reads from memory. */
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

/* Some rows of a pass, at most BATCH, and a layer. */
struct mlp_rows {
    struct pass *pass;
    size_t layer, first, n;
};

/* Reports an error for the sequence of each row of a slice (n, SLICE) that has a NaN or an
 * infinity, and sets the row to 0 so that it does not affect the others. */
static void drop_not_finite(const struct mlp_rows *rows, float *activation)
{
    for (size_t t = 0; t < rows->n; t++) {
        bool finite = true;
        for (size_t i = 0; i < SLICE; i++)
            finite &= f32_is_finite(activation[t * SLICE + i]);
        if (finite)
            continue;
        smol_pass_fail_numeric(rows->pass, "MLP activation", rows->layer, rows->first + t);
        memset(activation + t * SLICE, 0, SLICE * sizeof *activation);
    }
}

/* Quantizes what the rounding of a slice left, which replaces the activation. */
static void store_rest(const struct mlp_rows *rows, const struct product_input *gated, size_t slice,
                       float *activation)
{
    const struct quantized *q = &gated->quantized;
    for (size_t t = 0; t < rows->n; t++)
        for (size_t i = 0; i < SLICE; i++) {
            int8_t step = q->steps[((slice * SLICE + i) / 4 * q->stride + t) * 4 + i % 4];
            activation[t * SLICE + i] -= (float)step * q->scales[slice * q->stride + t];
        }
    rows->pass->e->kernels->quantize_slice(activation, rows->n, &gated->rest, slice);
}

/* Stores a slice (n, SLICE) of the activation where the next product reads it: these rows of
 * `gated`. */
static void store_slice(const struct mlp_rows *rows, const struct product_input *gated,
                        size_t slice, float *activation)
{
    if (rows->pass->m->dtype == DTYPE_INT8) {
        const struct kernels *kernels = rows->pass->e->kernels;
        if (!kernels->quantize_slice(activation, rows->n, &gated->quantized, slice)) {
            drop_not_finite(rows, activation);
            kernels->quantize_slice(activation, rows->n, &gated->quantized, slice);
        }
        if (gated->rest.steps)
            store_rest(rows, gated, slice, activation);
        return;
    }
    size_t first = slice * SLICE, rest = gated->width - first;
    for (size_t t = 0; t < rows->n; t++)
        memcpy(rows->pass->e->gated + (rows->first + t) * gated->width + first,
               activation + t * SLICE, (rest < SLICE ? rest : SLICE) * sizeof(float));
}

/* Computes slices [begin, end) of some rows. */
static void activate_rows(const struct mlp_rows *rows, size_t begin, size_t end)
{
    struct pass *pass = rows->pass;
    size_t n_values = rows->n * SLICE; /* per slice */
    const struct blob_tensor *const *tensor = pass->e->network->layers[rows->layer].tensor;
    const struct product_input all = smol_residual_input(pass), all_gated = gated_input(pass);
    const struct product_input normed = smol_input_rows(&all, rows->first, rows->n);
    const struct product_input gated = smol_input_rows(&all_gated, rows->first, rows->n);
    activation_kernel *activate = activation_of(pass);
    bool has_gate = !(pass->m->blocks & BLOCK_NO_GATE);
    for (size_t next, slice = begin; slice < end; slice = next) {
        float gate[WORKBENCH], up[WORKBENCH];
        next = slice + WORKBENCH / n_values < end ? slice + WORKBENCH / n_values : end;
        if (has_gate)
            multiply_slices(pass, tensor[ROLE_MLP_GATE], tensor[ROLE_MLP_GATE_BIAS], &normed, slice,
                            next, gate);
        multiply_slices(pass, tensor[ROLE_MLP_UP], tensor[ROLE_MLP_UP_BIAS], &normed, slice, next,
                        has_gate ? up : gate);
        activate(gate, has_gate ? up : NULL, (next - slice) * n_values);
        for (size_t i = slice; i < next; i++)
            store_slice(rows, &gated, i, gate + (i - slice) * n_values);
    }
}

static void activate_slices(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    struct mlp_rows rows = {pass, *(const size_t *)argument, 0, 0};
    for (; rows.first < pass->n; rows.first += BATCH) {
        size_t left = pass->n - rows.first;
        rows.n = left < BATCH ? left : BATCH;
        activate_rows(&rows, begin, end);
    }
}

static void read_mlp_input(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_read(pass, layer, ROLE_MLP_NORM, t, "MLP input");
}

static void add_mlp_output(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_add(pass, layer, ROLE_MLP_OUT_NORM, t);
}

void smol_mlp_read(const struct worker *w, size_t layer)
{
    const struct product_input normed = smol_residual_input(w->pass), gated = gated_input(w->pass);
    if (!(w->pass->m->blocks & BLOCK_ONE_NORM))
        smol_pass_each_token(w, read_mlp_input, layer);
    smol_input_observe(w, STATS_MLP, layer, &normed);
    smol_pass_each_range(w, count_groups(gated.width), 2, activate_slices, &layer);
    smol_input_observe(w, STATS_GATED, layer, &gated);
}

void smol_mlp_write(const struct worker *w, size_t layer)
{
    const struct blob_tensor *const *tensor = w->pass->e->network->layers[layer].tensor;
    const struct product_input gated = gated_input(w->pass);
    const struct product down =
        smol_residual_product(w->pass, tensor[ROLE_MLP_DOWN], tensor[ROLE_MLP_DOWN_BIAS]);
    smol_multiply(w, &gated, &down, 1);
    if (!down.add)
        smol_pass_each_token(w, add_mlp_output, layer);
}
