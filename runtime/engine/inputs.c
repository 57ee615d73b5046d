/* Embeddings and the inputs of layers, see inputs.h. */
#include "runtime/engine/inputs.h"

#include <string.h>

#include "common/number.h"
#include "format/model.h"
#include "runtime/engine/mixer.h"
#include "runtime/engine/mlp.h"
#include "runtime/engine/residual.h"

/* --- embeddings ------------------------------------------------------------------------------ */

/* Returns element (row, col) of a row block. `levels` is for int6, int5 and int4. */
static float tile_element(const void *block, enum blob_dtype dtype, const int8_t *levels,
                          size_t row, size_t col)
{
    if (dtype == DTYPE_F32)
        return ((const float *)block)[tile_index(DTYPE_F32, row, col)];
    if (dtype == DTYPE_BF16)
        return f32_from_bf16(((const uint16_t *)block)[tile_index(DTYPE_BF16, row, col)]);
    const uint8_t *bytes = block;
    size_t group = col / GROUP_INPUTS;
    const uint16_t *scales = (const void *)(bytes + group_scales_offset(dtype, group));
    int8_t step = group_weight(dtype, levels, bytes + group_weights_offset(dtype, group),
                               col % GROUP_INPUTS, row);
    return (float)step * f32_from_f16(scales[row]);
}

/* Writes row `row` of a table of embeddings, scaled, to x. The row is a strided gather from its
 * tile. */
static void embed(struct pass *pass, enum tensor_role role, uint64_t row, float scale, float *x)
{
    const struct blob_tensor *weight = pass->e->network->outer.tensor[role];
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    const int8_t *levels = blob_levels(pass->e->network->blob, weight);
    const void *block = smol_pass_bytes(pass, weight, row / TILE_ROWS * bytes, bytes);
    for (size_t col = 0; col < weight->cols; col++)
        x[col] = tile_element(block, weight->dtype, levels, row % TILE_ROWS, col) * scale;
}

/* Adds the learned position, if the model has them, to x. */
static void add_position(struct pass *pass, size_t position, float *x)
{
    const struct blob_tensor *table = pass->e->network->outer.tensor[ROLE_POSITIONS];
    if (!table)
        return;
    uint64_t bytes = table->cols * sizeof(float);
    const float *row = smol_pass_bytes(pass, table, position * bytes, bytes);
    for (size_t i = 0; i < table->cols; i++)
        x[i] += row[i];
}

/* Adds the second type of a reranker's tokens to x, if a separator is before row t. */
static void add_type(struct pass *pass, const struct segment *segment, size_t t, float *x)
{
    const struct embedder *embedder = &pass->e->network->blob->embedder;
    size_t i = segment->row;
    if (!embedder->types)
        return;
    while (i < t && segment->ids[i - segment->row] != embedder->header->separator)
        i++;
    for (size_t j = 0; i < t && j < pass->m->hidden_size; j++)
        x[j] += embedder->types[j];
}

static void start_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    size_t hidden = pass->m->hidden_size;
    const struct segment *segment = pass->segment_of[t];
    float *x = pass->e->x + t * hidden;
    embed(pass, ROLE_EMBED, segment->ids[t - segment->row], pass->m->embedding_scale, x);
    add_position(pass, pass_position(pass, t), x);
    add_type(pass, segment, t, x);
    smol_heads_angles(pass, t);
}

/* Replaces row t of the residual stream by what the observer has. */
static void replace_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    size_t hidden = pass->m->hidden_size;
    memcpy(pass->e->x + t * hidden, pass->observer->before + t * hidden, hidden * sizeof(float));
}

/* --- inputs of layers ------------------------------------------------------------------------ */

static struct product_input stream_input(const struct pass *pass)
{
    return smol_input(pass->e->x, pass->n, pass->m->hidden_size, pass->e->normed_q);
}

static struct product_input gate_input(const struct pass *pass)
{
    const struct engine *e = pass->e;
    return smol_input(e->input_gate, pass->n, pass->m->varied.input_width, e->input_q);
}

static void prepare_stream(struct pass *pass, size_t layer, size_t t)
{
    const struct product_input input = stream_input(pass);
    smol_input_prepare(pass, &input, t, "residual stream", layer);
}

/* Makes the inputs of row t from the projection of its embedding and its rows of the table. */
static void mix_inputs(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    const struct engine *e = pass->e;
    const struct blob_varied *v = &pass->m->varied;
    const struct segment *segment = pass->segment_of[t];
    const float *norm = smol_pass_vector(pass, e->network->outer.tensor[ROLE_INPUT_NORM]);
    size_t width = v->input_width, n_layers = pass->m->n_layers;
    float *row = e->input_gate + t * width, *x = e->inputs + t * n_layers * width;
    uint64_t first = (uint64_t)segment->ids[t - segment->row] * n_layers;
    for (size_t l = 0; l < n_layers; l++, x += width) {
        embed(pass, ROLE_INPUT_EMBED, first + l, v->input_scale, row);
        for (size_t i = 0; i < width; i++)
            x[i] *= v->projection_scale;
        e->kernels->rms_norm(x, norm, width, pass->m->rms_norm_eps, x);
        for (size_t i = 0; i < width; i++)
            x[i] = (x[i] + row[i]) * v->sum_scale;
    }
}

void smol_inputs_start(const struct worker *w, size_t first)
{
    const struct pass *pass = w->pass;
    const struct product_input input = stream_input(pass);
    const struct product projection = {pass->e->network->outer.tensor[ROLE_INPUT_PROJECTION], NULL,
                                       .out = pass->e->inputs};
    smol_pass_each_token(w, start_token, first);
    if (pass->m->varied.input_width > 0) {
        smol_pass_each_token(w, prepare_stream, first);
        smol_multiply(w, &input, &projection, 1);
        smol_pass_each_token(w, mix_inputs, first);
    }
    if (pass->observer && pass->observer->before)
        smol_pass_each_token(w, replace_token, first);
}

/* Multiplies the activation of row t's gate by its input of the layer. */
static void activate_gate(struct pass *pass, size_t layer, size_t t)
{
    const struct engine *e = pass->e;
    const struct product_input input = gate_input(pass);
    size_t width = input.width;
    smol_mlp_activation(pass)(e->input_gate + t * width,
                              e->inputs + (t * pass->m->n_layers + layer) * width, width);
    smol_input_prepare(pass, &input, t, "layer's input", layer);
}

/* Adds the output of row t, if there is one, to the residual stream, and scales that. */
static void finish_layer(struct pass *pass, size_t layer, size_t t)
{
    const struct layer *l = &pass->e->network->layers[layer];
    size_t hidden = pass->m->hidden_size;
    float *x = pass->e->x + t * hidden, *output = pass->e->normed + t * hidden;
    float scale = *smol_pass_vector(pass, l->tensor[ROLE_LAYER_SCALE]);
    if (pass->m->varied.input_width > 0) {
        smol_normalize(pass, l, ROLE_INPUT_OUT_NORM, output, output);
        for (size_t i = 0; i < hidden; i++)
            x[i] += output[i];
    }
    for (size_t i = 0; i < hidden; i++)
        x[i] *= scale;
}

void smol_inputs_add(const struct worker *w, size_t layer)
{
    const struct pass *pass = w->pass;
    const struct engine *e = pass->e;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    const struct product_input stream = stream_input(pass), gated = gate_input(pass);
    const struct product gate = {tensor[ROLE_INPUT_GATE], NULL, .out = e->input_gate};
    const struct product output = {tensor[ROLE_INPUT_OUT], NULL, .out = e->normed};
    if (!model_is_varied(pass->m))
        return;
    if (pass->m->varied.input_width > 0) {
        smol_pass_each_token(w, prepare_stream, layer);
        smol_input_observe(w, (struct stats_place){STATS_INPUT, (uint32_t)layer, 0}, &stream);
        smol_multiply(w, &stream, &gate, 1);
        smol_pass_each_token(w, activate_gate, layer);
        smol_input_observe(w, (struct stats_place){STATS_INPUT_GATED, (uint32_t)layer, 0}, &gated);
        smol_multiply(w, &gated, &output, 1);
    }
    smol_pass_each_token(w, finish_layer, layer);
}
