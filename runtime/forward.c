/* The forward pass of a Llama model (Touvron et al., 2023: RMSNorm, RoPE, grouped-query
 * attention, SwiGLU), for a batch of tokens.
 *
 * All threads run the same function, a sequence of stages (common/pool.h). A stage is split by
 * token, by attention head or by block of output rows, never within a sum, so that the number of
 * threads cannot change a bit. */
#include "runtime/context.h"

#include <string.h>

#include "common/number.h"
#include "runtime/fpenv.h"
#include "runtime/kernels/math.h"
#include "runtime/pass.h"
#include "runtime/product.h"

/* --- embedding ---------------------------------------------------------------------------- */

/* Element (row, col) of a row block. */
static float tile_element(const void *block, enum blob_dtype dtype, size_t row, size_t col)
{
    if (dtype == DTYPE_F32)
        return ((const float *)block)[col * TILE_ROWS + row];
    if (dtype == DTYPE_BF16)
        return f32_from_bf16(((const uint16_t *)block)[(col / 2 * TILE_ROWS + row) * 2 + col % 2]);
    const uint8_t *bytes = block;
    size_t group = col / GROUP_INPUTS, quad = col % GROUP_INPUTS / 4;
    const uint16_t *scales = (const void *)(bytes + group_scales_offset(group));
    const int8_t *steps = (const void *)(bytes + group_weights_offset(group));
    int8_t step = steps[quad * QUAD_BYTES + row * 4 + col % 4];
    return (float)step * f32_from_f16(scales[row]);
}

/* Row `id` of the embedding: a strided gather from its tile. */
static void embed(struct pass *pass, uint32_t id, float *x)
{
    const struct blob_tensor *weight = pass->c->model->outer.tensor[ROLE_EMBED];
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    const void *block = smol_pass_bytes(pass, weight, id / TILE_ROWS * bytes, bytes);
    for (size_t col = 0; col < weight->cols; col++)
        x[col] = tile_element(block, weight->dtype, id % TILE_ROWS, col);
}

static void start_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    struct smol_context *c = pass->c;
    size_t half = pass->m->head_dim / 2;
    embed(pass, pass->ids[t], c->x + t * pass->m->hidden_size);
    float position = (float)(pass->first + t); /* below 2^24: exact */
    for (size_t i = 0; i < half; i++)
        math_sincos(position * c->model->blob.inv_freq[i], &c->sine[t * half + i],
                    &c->cosine[t * half + i]);
}

/* --- attention ---------------------------------------------------------------------------- */

/* RoPE on one head (Su et al., 2021) in the half-split pairing of Hugging Face's checkpoints:
 * channel i turns with channel i + head_dim / 2. */
static void rotate(float *head, size_t half, const float *cosine, const float *sine)
{
    for (size_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = a * cosine[i] - b * sine[i];
        head[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* Rotates a token's queries and keys, and puts its keys and values into the cache. */
static void rotate_and_store(struct pass *pass, size_t layer, size_t t)
{
    struct smol_context *c = pass->c;
    const struct blob_model *m = pass->m;
    size_t dim = m->head_dim, half = dim / 2;
    const float *cosine = c->cosine + t * half, *sine = c->sine + t * half;
    for (size_t head = 0; head < m->n_heads; head++)
        rotate(c->query + (t * m->n_heads + head) * dim, half, cosine, sine);
    for (size_t head = 0; head < m->n_kv_heads; head++) {
        size_t offset = (t * m->n_kv_heads + head) * dim;
        rotate(c->key + offset, half, cosine, sine);
        smol_kv_store(&c->kv, c->kernels, layer, head, pass->first + t, c->key + offset,
                      c->value + offset);
    }
}

/* --- layers ------------------------------------------------------------------------------- */

static struct input normed_input(const struct pass *pass)
{
    return smol_input(pass->c->normed, pass->n, pass->m->hidden_size, pass->c->normed_q);
}

/* Attention's output, which replaces the queries. */
static struct input attended_input(const struct pass *pass)
{
    size_t width = (size_t)pass->m->n_heads * pass->m->head_dim;
    return smol_input(pass->c->query, pass->n, width, pass->c->query_q);
}

static struct input gated_input(const struct pass *pass)
{
    return smol_input(pass->c->gated, pass->n, pass->m->intermediate_size, pass->c->gated_q);
}

static void normalize(struct pass *pass, const struct blob_tensor *norm, size_t t, const char *what,
                      size_t layer)
{
    struct smol_context *c = pass->c;
    size_t hidden = pass->m->hidden_size;
    const struct input input = normed_input(pass);
    c->kernels->rms_norm(c->x + t * hidden, smol_pass_vector(pass, norm), hidden,
                         pass->m->rms_norm_eps, c->normed + t * hidden);
    smol_input_prepare(pass, &input, t, what, layer);
}

static void normalize_for_attention(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_tensor *norm = pass->c->model->layers[layer].tensor[ROLE_ATTN_NORM];
    normalize(pass, norm, t, "attention input", layer);
}

static void normalize_for_mlp(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_tensor *norm = pass->c->model->layers[layer].tensor[ROLE_MLP_NORM];
    normalize(pass, norm, t, "MLP input", layer);
}

static void finish_attention(struct pass *pass, size_t layer, size_t t)
{
    const struct input input = attended_input(pass);
    smol_attention_finish(pass->c, pass->first, pass->n, t);
    smol_input_prepare(pass, &input, t, "attention output", layer);
}

static void attention(const struct worker *w, size_t layer)
{
    struct smol_context *c = w->pass->c;
    const struct blob_tensor *const *tensor = c->model->layers[layer].tensor;
    const struct input normed = normed_input(w->pass), attended = attended_input(w->pass);
    const struct product qkv[] = {
        {tensor[ROLE_ATTN_Q], tensor[ROLE_ATTN_Q_BIAS], .out = c->query},
        {tensor[ROLE_ATTN_K], tensor[ROLE_ATTN_K_BIAS], .out = c->key},
        {tensor[ROLE_ATTN_V], tensor[ROLE_ATTN_V_BIAS], .out = c->value},
    };
    const struct product output = {tensor[ROLE_ATTN_O], tensor[ROLE_ATTN_O_BIAS], .out = c->x,
                                   .add = true};
    smol_pass_each_token(w, normalize_for_attention, layer);
    smol_multiply(w, &normed, qkv, 3);
    smol_pass_each_token(w, rotate_and_store, layer);
    smol_attend(c, w->thread, layer, w->pass->first, w->pass->n);
    smol_pass_each_token(w, finish_attention, layer);
    smol_multiply(w, &attended, &output, 1);
}

/* The MLP's activation, SwiGLU of gate and up, is made in slices of as many channels as share a
 * scale in its quantized copy, and as many slices at a time as fit into the first-level cache: all
 * of a range when there is one token, since each change between the two weights costs the time that
 * memory takes to find its pace again. */
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

/* The first token of a slice (n, SLICE) that has a NaN or an infinity. */
static size_t find_not_finite(const float *activation, size_t n)
{
    size_t i = 0;
    while (i + 1 < n * SLICE && f32_is_finite(activation[i]))
        i++;
    return i / SLICE;
}

/* Puts a slice (n, SLICE) of the activation where the next product reads it. */
static void store_slice(struct pass *pass, size_t layer, const struct input *gated, size_t slice,
                        const float *activation)
{
    if (pass->m->dtype == DTYPE_INT8) {
        if (!pass->c->kernels->quantize_slice(activation, pass->n, &gated->quantized, slice))
            smol_pass_fail_numeric(pass, "MLP activation", layer,
                                   find_not_finite(activation, pass->n));
        return;
    }
    size_t first = slice * SLICE, rest = gated->width - first;
    for (size_t t = 0; t < pass->n; t++)
        memcpy(pass->c->gated + t * gated->width + first, activation + t * SLICE,
               (rest < SLICE ? rest : SLICE) * sizeof(float));
}

static void activate_slices(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    size_t layer = *(const size_t *)argument, n_values = pass->n * SLICE; /* of a slice */
    const struct blob_tensor *const *tensor = pass->c->model->layers[layer].tensor;
    const struct input normed = normed_input(pass), gated = gated_input(pass);
    for (size_t next, slice = begin; slice < end; slice = next) {
        float gate[WORKBENCH], up[WORKBENCH];
        next = slice + WORKBENCH / n_values < end ? slice + WORKBENCH / n_values : end;
        multiply_slices(pass, tensor[ROLE_MLP_GATE], tensor[ROLE_MLP_GATE_BIAS], &normed, slice,
                        next, gate);
        multiply_slices(pass, tensor[ROLE_MLP_UP], tensor[ROLE_MLP_UP_BIAS], &normed, slice, next,
                        up);
        pass->c->kernels->swiglu(gate, up, (next - slice) * n_values);
        for (size_t i = slice; i < next; i++)
            store_slice(pass, layer, &gated, i, gate + (i - slice) * n_values);
    }
}

static void mlp(const struct worker *w, size_t layer)
{
    struct smol_context *c = w->pass->c;
    const struct blob_tensor *const *tensor = c->model->layers[layer].tensor;
    const struct input gated = gated_input(w->pass);
    const struct product down = {tensor[ROLE_MLP_DOWN], tensor[ROLE_MLP_DOWN_BIAS], .out = c->x,
                                 .add = true};
    smol_pass_each_token(w, normalize_for_mlp, layer);
    smol_pass_each_range(w, count_groups(gated.width), 2, activate_slices, &layer);
    smol_multiply(w, &gated, &down, 1);
}

/* --- output ------------------------------------------------------------------------------- */

/* The output layer's input takes two int8 rows: the quantized row, then, quantized again, what the
 * first left over. The logits see every bit of this row, and the product is bound by the weights'
 * bytes, which are read once for both (docs/architecture.md has the figures). */
static void prepare_fine(struct pass *pass, const struct input *input, size_t t, float *row)
{
    const struct kernels *kernels = pass->c->kernels;
    const struct quantized *q = &input->quantized;
    bool finite = kernels->quantize(row, input->width, q, 2 * t);
    for (size_t i = 0; i < input->width; i++) {
        size_t quad = i / 4, group = i / GROUP_INPUTS;
        int8_t step = q->steps[(quad * q->stride + 2 * t) * 4 + i % 4];
        row[i] -= (float)step * q->scales[group * q->stride + 2 * t];
    }
    if (!finite || !kernels->quantize(row, input->width, q, 2 * t + 1))
        smol_pass_fail_numeric(pass, "output layer's input", pass->m->n_layers, t);
}

/* Logits (n, vocab_size) of tokens [from, from + n). */
static void output(const struct worker *w, size_t from, size_t n, float *logits)
{
    struct pass *pass = w->pass;
    struct smol_context *c = pass->c;
    const struct layer *outer = &c->model->outer;
    size_t hidden = pass->m->hidden_size;
    bool pairs = pass->m->dtype == DTYPE_INT8;
    const struct input normed = smol_input(c->normed, pairs ? 2 * n : n, hidden, c->normed_q);
    const struct product head = {outer->tensor[ROLE_OUTPUT], .out = logits, .pairs = pairs};
    const float *weight = smol_pass_vector(pass, outer->tensor[ROLE_FINAL_NORM]);
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n);
    while (smol_pool_claim(&stage)) {
        size_t t = stage.item;
        float *row = c->normed + t * hidden;
        c->kernels->rms_norm(c->x + (from + t) * hidden, weight, hidden, pass->m->rms_norm_eps,
                             row);
        if (pairs)
            prepare_fine(pass, &normed, t, row);
    }
    smol_multiply(w, &normed, &head, 1);
}

/* A NaN or infinity among the logits is an error; it must not look like an answer. */
static void check_logits(const struct worker *w)
{
    struct pass *pass = w->pass;
    size_t vocab = pass->m->vocab_size;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)pass->n_logits);
    while (smol_pool_claim(&stage)) {
        const float *logits = pass->logits + stage.item * vocab;
        uint32_t largest = 0;
        for (size_t i = 0; i < vocab; i++) {
            uint32_t magnitude = f32_bits(logits[i]) & 0x7fffffffu;
            largest = magnitude > largest ? magnitude : largest;
        }
        if (largest >= 0x7f800000u)
            smol_pass_fail_numeric(pass, "logits", pass->m->n_layers,
                                   pass->n - pass->n_logits + stage.item);
    }
}

/* The last n_logits tokens, in parts small enough for their pairs of rows. */
static void output_all(const struct worker *w)
{
    struct pass *pass = w->pass;
    for (size_t done = 0; done < pass->n_logits; done += BATCH / 2) {
        size_t rest = pass->n_logits - done;
        output(w, pass->n - rest, rest < BATCH / 2 ? rest : BATCH / 2,
               pass->logits + done * pass->m->vocab_size);
    }
    check_logits(w);
}

static void run(void *argument, struct pool_thread *thread)
{
    struct pass *pass = argument;
    const struct worker worker = {pass, thread};
    fenv_t saved;
    fpenv_enter(&saved);
    smol_pass_each_token(&worker, start_token, 0);
    for (size_t layer = 0; layer < pass->m->n_layers; layer++) {
        attention(&worker, layer);
        mlp(&worker, layer);
    }
    output_all(&worker);
    fpenv_leave(&saved);
}

enum status smol_forward(struct smol_context *context, const uint32_t *ids, size_t n,
                         size_t n_logits, float *logits, struct error *error)
{
    struct pass pass = {
        .c = context,
        .m = context->model->blob.model,
        .ids = ids,
        .n = n,
        .first = context->length,
        .n_logits = n_logits,
        .logits = logits,
        .failed = ATOMIC_FLAG_INIT,
        .status = STATUS_OK,
        .error = error,
    };
    smol_pool_run(context->pool, run, &pass);
    return pass.status;
}
