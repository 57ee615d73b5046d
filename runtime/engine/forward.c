/* The forward pass of a Llama model (Touvron et al., 2023: RMSNorm, RoPE, grouped-query attention,
 * SwiGLU) and of related families (FORMAT.md, 5.1). The file reads from top to bottom: embedding,
 * the two blocks of each layer, output.
 *
 * All threads run the same function, a sequence of stages (common/pool.h). A stage splits its work
 * by token, by attention head or by block of output rows, never within a sum, so the number of
 * threads cannot change a bit of the result. */
#include "runtime/engine/forward.h"

#include <string.h>

#include "common/number.h"
#include "runtime/engine/attention.h"
#include "runtime/engine/fpenv.h"
#include "runtime/engine/heads.h"
#include "runtime/engine/product.h"

/* --- embedding ------------------------------------------------------------------------------- */

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

/* Writes row `id` of the embedding, scaled, to x. The row is a strided gather from its tile. */
static void embed(struct pass *pass, uint32_t id, float *x)
{
    const struct blob_tensor *weight = pass->e->network->outer.tensor[ROLE_EMBED];
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    float scale = pass->m->embedding_scale;
    const int8_t *levels = blob_levels(pass->e->network->blob, weight);
    const void *block = smol_pass_bytes(pass, weight, id / TILE_ROWS * bytes, bytes);
    for (size_t col = 0; col < weight->cols; col++)
        x[col] = tile_element(block, weight->dtype, levels, id % TILE_ROWS, col) * scale;
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

static void start_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    const struct segment *segment = pass->segment_of[t];
    const float *before = pass->observer ? pass->observer->before : NULL;
    if (before)
        memcpy(e->x + t * hidden, before + t * hidden, hidden * sizeof *before);
    else {
        embed(pass, segment->ids[t - segment->row], e->x + t * hidden);
        add_position(pass, pass_position(pass, t), e->x + t * hidden);
    }
    smol_heads_angles(pass, t);
}

/* --- observed inputs -------------------------------------------------------------------------- */

/* Shows a product's input, whose rows are ready, to the observer, as two stages. */
static void observe(const struct worker *w, enum stats_input kind, size_t layer,
                    const struct product_input *input)
{
    const struct observer *observer = w->pass->observer;
    if (!observer || !observer->parts)
        return;
    uint32_t n_parts = observer->parts(observer->user, kind, layer);
    struct pool_stage stage = pool_stage(w->thread, n_parts ? (uint32_t)input->n : 0);
    while (smol_pool_claim(&stage))
        observer->look(observer->user, kind, layer, input->x, stage.item);
    stage = pool_stage(w->thread, n_parts);
    while (smol_pool_claim(&stage))
        observer->see(observer->user, kind, layer, input->x, input->n, stage.item);
}

/* --- norms ----------------------------------------------------------------------------------- */

/* Applies the norm `role` of the layer to x (hidden_size): an RMSNorm, or a LayerNorm if it has a
 * bias. out may be x. */
static void normalize(struct pass *pass, const struct layer *layer, enum tensor_role role,
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

/* --- the residual stream --------------------------------------------------------------------- */

/* Adds the copy of what the rounding leaves to an input, which only int8 encoders have. */
static struct product_input with_rest(struct product_input input, struct quantized rest)
{
    rest.n = input.quantized.n;
    rest.stride = input.quantized.stride;
    input.rest = rest;
    return input;
}

/* Returns the input of a block's products; residual_read prepares its rows. */
static struct product_input residual_input(const struct pass *pass)
{
    const struct engine *e = pass->e;
    bool normed = !(pass->m->blocks & (BLOCK_NO_INPUT_NORMS | BLOCK_NORM_STREAM));
    return with_rest(
        smol_input(normed ? e->normed : e->x, pass->n, pass->m->hidden_size, e->normed_q),
        e->normed_rest);
}

/* Computes row t of that input from the residual stream, through the norm `role` if the model has
 * it. `what` is for error messages. */
static void residual_read(struct pass *pass, size_t layer, enum tensor_role role, size_t t,
                          const char *what)
{
    struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    const struct layer *l = &e->network->layers[layer];
    const struct product_input input = residual_input(pass);
    if (l->tensor[role])
        normalize(pass, l, role, e->x + t * hidden,
                  (pass->m->blocks & BLOCK_NORM_STREAM ? e->x : e->normed) + t * hidden);
    smol_input_prepare(pass, &input, t, what, layer);
}

/* Returns a block's last product. It adds to the residual stream, or, if !add, writes in place of
 * the block's input, which is no longer needed, and residual_add adds it. */
static struct product residual_product(const struct pass *pass, const struct blob_tensor *weight,
                                       const struct blob_tensor *bias)
{
    bool apart = pass->m->blocks & BLOCK_NORM_OUTPUTS || pass->m->residual_scale != 1;
    return (struct product){weight, bias, .out = apart ? pass->e->normed : pass->e->x,
                            .add = !apart};
}

/* Adds row t of that output to the residual stream, after the norm `role`, if any, times the
 * scale. */
static void residual_add(struct pass *pass, size_t layer, enum tensor_role role, size_t t)
{
    size_t hidden = pass->m->hidden_size;
    const struct layer *l = &pass->e->network->layers[layer];
    float *x = pass->e->x + t * hidden, *output = pass->e->normed + t * hidden;
    float scale = pass->m->residual_scale;
    if (l->tensor[role])
        normalize(pass, l, role, output, output);
    for (size_t i = 0; i < hidden; i++)
        x[i] += output[i] * scale;
}

/* --- attention ------------------------------------------------------------------------------- */

/* Returns attention's output, which replaces the queries. */
static struct product_input attended_input(const struct pass *pass)
{
    size_t width = (size_t)pass->m->n_heads * pass->m->head_dim;
    return with_rest(smol_input(pass->e->query, pass->n, width, pass->e->query_q),
                     pass->e->query_rest);
}

static void read_attention_input(struct pass *pass, size_t layer, size_t t)
{
    residual_read(pass, layer, ROLE_ATTN_NORM, t, "attention input");
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
    residual_add(pass, layer, ROLE_ATTN_OUT_NORM, t);
}

/* Computes attention's output from the residual stream, up to its last product. */
static void attention_read(const struct worker *w, size_t layer)
{
    struct engine *e = w->pass->e;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    const struct product_input input = residual_input(w->pass), attended = attended_input(w->pass);
    const struct product qkv[] = {
        {tensor[ROLE_ATTN_Q], tensor[ROLE_ATTN_Q_BIAS], .out = e->query},
        {tensor[ROLE_ATTN_K], tensor[ROLE_ATTN_K_BIAS], .out = e->key},
        {tensor[ROLE_ATTN_V], tensor[ROLE_ATTN_V_BIAS], .out = e->value},
    };
    smol_pass_each_token(w, read_attention_input, layer);
    observe(w, STATS_ATTENTION, layer, &input);
    smol_multiply(w, &input, qkv, 3);
    smol_pass_each_token(w, smol_heads_store, layer);
    smol_attend(w, layer);
    smol_pass_each_token(w, finish_attention, layer);
    observe(w, STATS_ATTENDED, layer, &attended);
}

/* Adds attention's output to the residual stream. */
static void attention_write(const struct worker *w, size_t layer)
{
    const struct blob_tensor *const *tensor = w->pass->e->network->layers[layer].tensor;
    const struct product_input attended = attended_input(w->pass);
    const struct product output =
        residual_product(w->pass, tensor[ROLE_ATTN_O], tensor[ROLE_ATTN_O_BIAS]);
    smol_multiply(w, &attended, &output, 1);
    if (!output.add)
        smol_pass_each_token(w, add_attention_output, layer);
}

/* --- MLP ------------------------------------------------------------------------------------- */

static struct product_input gated_input(const struct pass *pass)
{
    return with_rest(
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
    const struct product_input all = residual_input(pass), all_gated = gated_input(pass);
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
    residual_read(pass, layer, ROLE_MLP_NORM, t, "MLP input");
}

static void add_mlp_output(struct pass *pass, size_t layer, size_t t)
{
    residual_add(pass, layer, ROLE_MLP_OUT_NORM, t);
}

/* Computes the MLP's output from the residual stream, up to its last product. With one norm for
 * both, its input is attention's, which is still there. */
static void mlp_read(const struct worker *w, size_t layer)
{
    const struct product_input normed = residual_input(w->pass), gated = gated_input(w->pass);
    if (!(w->pass->m->blocks & BLOCK_ONE_NORM))
        smol_pass_each_token(w, read_mlp_input, layer);
    observe(w, STATS_MLP, layer, &normed);
    smol_pass_each_range(w, count_groups(gated.width), 2, activate_slices, &layer);
    observe(w, STATS_GATED, layer, &gated);
}

/* Adds the MLP's output to the residual stream. */
static void mlp_write(const struct worker *w, size_t layer)
{
    const struct blob_tensor *const *tensor = w->pass->e->network->layers[layer].tensor;
    const struct product_input gated = gated_input(w->pass);
    const struct product down =
        residual_product(w->pass, tensor[ROLE_MLP_DOWN], tensor[ROLE_MLP_DOWN_BIAS]);
    smol_multiply(w, &gated, &down, 1);
    if (!down.add)
        smol_pass_each_token(w, add_mlp_output, layer);
}

/* --- output ---------------------------------------------------------------------------------- */

/* Quantizes row t of the output layer's n rows in two steps: to row t the row, and to row n + t the
 * remainder, which the rounding left. Returns false if it has a NaN or infinity. Every bit of this
 * row affects the logits, and the time of the product depends on the weights' bytes, which are read
 * once for both (docs/decisions.md has the measurements). */
static bool quantize_twice(const struct pass *pass, const struct product_input *input, size_t t,
                           float *row)
{
    const struct kernels *kernels = pass->e->kernels;
    const struct quantized *q = &input->quantized;
    bool finite = kernels->quantize(row, input->width, q, t);
    for (size_t i = 0; i < input->width; i++) {
        size_t quad = i / 4, group = i / GROUP_INPUTS;
        int8_t step = q->steps[(quad * q->stride + t) * 4 + i % 4];
        row[i] -= (float)step * q->scales[group * q->stride + t];
    }
    return finite && kernels->quantize(row, input->width, q, input->n / 2 + t);
}

/* Computes the requested logits [from, from + n). */
static void compute_logits(const struct worker *w, size_t from, size_t n)
{
    struct pass *pass = w->pass;
    struct engine *e = pass->e;
    const struct layer *outer = &e->network->outer;
    size_t hidden = pass->m->hidden_size;
    bool remainders = pass->m->dtype == DTYPE_INT8;
    const struct product_input normed =
        smol_input(e->normed, remainders ? 2 * n : n, hidden, e->normed_q);
    const struct product head = {outer->tensor[ROLE_OUTPUT], .out_rows = pass->logits + from,
                                 .remainders = remainders};
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n);
    while (smol_pool_claim(&stage)) {
        size_t t = stage.item;
        float *row = e->normed + t * hidden;
        normalize(pass, outer, ROLE_FINAL_NORM, e->x + pass->logits_row[from + t] * hidden, row);
        if (remainders && !quantize_twice(pass, &normed, t, row))
            smol_pass_fail_numeric(pass, "output layer's input", pass->m->n_layers,
                                   pass->logits_row[from + t]);
    }
    smol_multiply(w, &normed, &head, 1);
}

/* Adds the bias, if any, to the logits, divides and caps them. A NaN or infinity among them is an
 * error, checked before the cap, which would turn it into an ordinary number. */
static void finish_logits(const struct worker *w)
{
    struct pass *pass = w->pass;
    const struct blob_model *m = pass->m;
    const struct blob_tensor *vector = pass->e->network->outer.tensor[ROLE_OUTPUT_BIAS];
    const float *bias = vector && pass->n_logits ? smol_pass_vector(pass, vector) : NULL;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)pass->n_logits);
    while (smol_pool_claim(&stage)) {
        float *logits = pass->logits[stage.item];
        for (size_t i = 0; bias && i < m->vocab_size; i++)
            logits[i] += bias[i];
        for (size_t i = 0; m->logit_divisor != 1 && i < m->vocab_size; i++)
            logits[i] /= m->logit_divisor;
        smol_pass_check_finite(pass, logits, m->vocab_size, "logits", m->n_layers,
                               pass->logits_row[stage.item]);
        if (m->logit_softcap > 0)
            pass->e->kernels->softcap(logits, m->vocab_size, m->logit_softcap);
    }
}

/* Computes a row's hidden state after the final norm. */
static void finish_state(struct pass *pass, size_t layer, size_t t)
{
    const struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    float *state = e->normed + t * hidden;
    normalize(pass, &e->network->outer, ROLE_FINAL_NORM, e->x + t * hidden, state);
    smol_pass_check_finite(pass, state, hidden, "hidden state", layer, t);
}

/* Computes the requested hidden states and logits. Logits are computed for at most BATCH / 2 rows
 * at a time, which with their remainders are at most BATCH. */
static void finish_pass(const struct worker *w)
{
    struct pass *pass = w->pass;
    if (pass->wants_states) {
        const struct engine *e = pass->e;
        const struct product_input states =
            smol_input(e->normed, pass->n, pass->m->hidden_size, e->normed_q);
        smol_pass_each_token(w, finish_state, pass->m->n_layers);
        observe(w, STATS_OUTPUT, pass->m->n_layers, &states);
    }
    for (size_t done = 0; done < pass->n_logits; done += BATCH / 2) {
        size_t rest = pass->n_logits - done;
        compute_logits(w, done, rest < BATCH / 2 ? rest : BATCH / 2);
    }
    finish_logits(w);
}

/* Hands row t of the residual stream to the observer. */
static void keep_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    size_t hidden = pass->m->hidden_size;
    memcpy(pass->observer->after + t * hidden, pass->e->x + t * hidden, hidden * sizeof(float));
}

/* --- the pass -------------------------------------------------------------------------------- */

/* Returns whether all sequences are cancelled. A thread that finds this leaves the pass between two
 * layers; the others do its share until they find it too. */
static bool is_cancelled(struct pass *pass)
{
    for (size_t i = 0; i < pass->n_segments; i++)
        if (!atomic_load_explicit(pass->segments[i].cancelled, memory_order_relaxed))
            return false;
    atomic_store(&pass->unfinished, true);
    return true;
}

/* Runs a layer. In a parallel one the MLP reads the residual stream before attention adds to it. */
static void run_layer(const struct worker *w, size_t layer)
{
    bool parallel = w->pass->m->blocks & BLOCK_PARALLEL;
    attention_read(w, layer);
    if (parallel)
        mlp_read(w, layer);
    attention_write(w, layer);
    if (!parallel)
        mlp_read(w, layer);
    mlp_write(w, layer);
}

static void run_layers(void *argument, struct pool_thread *thread)
{
    struct pass *pass = argument;
    const struct worker worker = {pass, thread};
    fenv_t saved;
    fpenv_enter(&saved);
    const struct observer *observer = pass->observer;
    size_t first = observer ? observer->first_layer : 0;
    size_t end = observer ? observer->n_layers : pass->m->n_layers;
    smol_pass_each_token(&worker, start_token, first);
    bool cancelled = false;
    for (size_t layer = first; layer < end && !cancelled; layer++) {
        run_layer(&worker, layer);
        cancelled = is_cancelled(pass);
    }
    if (observer && observer->after)
        smol_pass_each_token(&worker, keep_token, end);
    if (!cancelled)
        finish_pass(&worker);
    fpenv_leave(&saved);
}

smol_status smol_forward(struct pass *pass)
{
    smol_attention_place(pass);
    smol_pool_run(pass->e->pool, run_layers, pass);
    return pass->status;
}
