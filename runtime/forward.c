/* The forward pass of a Llama model (Touvron et al., 2023: RMSNorm, RoPE, grouped-query
 * attention, SwiGLU), for a batch of tokens.
 *
 * All threads run the same function, a sequence of stages (common/pool.h). A stage is split by
 * token, by attention head or by block of output rows, never within a sum, so that the number of
 * threads cannot change a bit. */
#include "runtime/context.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/checked.h"
#include "common/number.h"
#include "runtime/fpenv.h"
#include "runtime/kernels/math.h"

/* One call of smol_forward, shared by its threads. */
struct pass {
    struct smol_context *c;
    const struct blob_model *m;
    const uint32_t *ids;
    size_t n;     /* tokens in the batch */
    size_t first; /* position of the first one */
    size_t n_logits;
    float *logits;
    atomic_flag failed; /* taken by the first thread that fills *error */
    enum status status;
    struct error *error;
};

/* One thread's view of the pass. */
struct worker {
    struct pass *pass;
    struct pool_thread *thread;
};

/* Errors do not stop the pass, whose reads and writes stay in bounds whatever the bytes; the
 * first one becomes its result. */
static void fail(struct pass *pass, const struct error *error)
{
    if (atomic_flag_test_and_set(&pass->failed))
        return;
    *pass->error = *error;
    pass->status = error->status;
}

static void fail_numeric(struct pass *pass, const char *what, size_t layer, size_t token)
{
    struct error error;
    smol_fail(
        &error, STATUS_NUMERIC,
        "%s: NaN or infinity in the %s (layer %zu, position %zu): the model's numbers are out "
        "of range",
        pass->c->model->blob.path, what, layer, pass->first + token);
    fail(pass, &error);
}

/* The bytes [offset, offset + size) of a tensor, digests checked. */
static const void *tensor_bytes(struct pass *pass, const struct blob_tensor *tensor,
                                uint64_t offset, uint64_t size)
{
    const struct blob *blob = &pass->c->model->blob;
    struct error error;
    if (smol_blob_check(blob, tensor->offset + offset, size, &error))
        fail(pass, &error);
    return blob->file.data + tensor->offset + offset;
}

static const float *vector(struct pass *pass, const struct blob_tensor *tensor)
{
    return tensor_bytes(pass, tensor, 0, tensor->size);
}

/* --- matrix products ---------------------------------------------------------------------- */

/* out (n, stride) = or += x (n, cols) times the transpose of `weight` (rows, cols), plus bias. */
struct product {
    const struct blob_tensor *weight;
    const struct blob_tensor *bias; /* or NULL */
    float *out;
    bool add;   /* to what is in out: the residual stream */
    bool pairs; /* input rows 2t and 2t + 1 are two parts of row t: add their products */
};

/* The input of a product: f32 and bf16 blobs read x, int8 blobs the quantized copy that `prepare`
 * made. */
struct input {
    const float *x; /* (n, stride) */
    size_t n;
    size_t stride;
};

/* The quantized copy of n rows. */
static struct quantized quantized(const struct pass *pass, size_t n)
{
    struct quantized view = pass->c->quantized;
    view.n = n;
    return view;
}

/* Makes row t of an input of n rows ready: int8 blobs quantize it. */
static void prepare(struct pass *pass, const float *row, size_t cols, size_t n, size_t t,
                    const char *what, size_t layer)
{
    if (pass->m->dtype != DTYPE_INT8)
        return;
    const struct quantized view = quantized(pass, n);
    if (!pass->c->kernels->quantize(row, cols, &view, t))
        fail_numeric(pass, what, layer, t);
}

/* The products of one row block of `weight` with every row of the input. */
static void multiply_tile(struct pass *pass, const struct blob_tensor *weight, size_t block,
                          const struct input *input, float *out, size_t out_stride)
{
    const struct kernels *kernels = pass->c->kernels;
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    const void *data = tensor_bytes(pass, weight, block * bytes, bytes);
    const struct quantized view = quantized(pass, input->n);
    switch ((enum blob_dtype)weight->dtype) {
    case DTYPE_F32:
        kernels->matmul_f32(data, weight->cols, input->x, input->stride, input->n, out, out_stride);
        break;
    case DTYPE_BF16:
        kernels->matmul_bf16(data, weight->cols, input->x, input->stride, input->n, out,
                             out_stride);
        break;
    case DTYPE_INT8:
        kernels->matmul_int8(data, count_groups(weight->cols), &view, out, out_stride);
    }
}

static inline void add_to(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += x[i];
}

/* What a product does besides multiplying: pairs, bias, adding to what is there. The tile's rows
 * go to `rows` elements of each row of out (n, stride). */
static void finish_tile(const struct product *product, float tile[][TILE_ROWS], size_t n,
                        const float *bias, float *out, size_t stride, size_t rows)
{
    for (size_t t = 0; t < n; t++) {
        float *result = tile[product->pairs ? 2 * t : t];
        if (product->pairs)
            add_to(result, result + TILE_ROWS, TILE_ROWS);
        if (bias)
            add_to(result, bias, rows);
        if (product->add && rows == TILE_ROWS)
            add_to(out + t * stride, result, TILE_ROWS); /* a constant count is quicker */
        else if (product->add)
            add_to(out + t * stride, result, rows);
        else
            memcpy(out + t * stride, result, rows * sizeof(float));
    }
}

/* One row block of a product: TILE_ROWS outputs for every token. */
static void multiply_block(struct pass *pass, const struct product *product,
                           const struct input *input, size_t block)
{
    const struct blob_tensor *weight = product->weight;
    size_t row = block * TILE_ROWS, rows = rows_in_block(row, weight->rows);
    float *out = product->out + row;
    if (rows == TILE_ROWS && !product->bias && !product->pairs && !product->add) {
        multiply_tile(pass, weight, block, input, out, weight->rows);
        return;
    }
    float tile[BATCH][TILE_ROWS];
    multiply_tile(pass, weight, block, input, tile[0], TILE_ROWS);
    size_t n = product->pairs ? input->n / 2 : input->n;
    const float *bias = product->bias ? vector(pass, product->bias) + row : NULL;
    finish_tile(product, tile, n, bias, out, weight->rows, rows);
}

/* Row blocks [begin, end) of several products, counted through from the first to the last. */
static void multiply_blocks(struct pass *pass, const struct input *input,
                            const struct product *products, size_t n_products, size_t begin,
                            size_t end)
{
    size_t first = 0; /* of this product's blocks */
    for (size_t i = 0; i < n_products; i++) {
        size_t behind = first + count_blocks(products[i].weight->rows);
        size_t low = begin > first ? begin : first, high = end < behind ? end : behind;
        for (size_t block = low; block < high; block++)
            multiply_block(pass, &products[i], input, block - first);
        first = behind;
    }
}

/* Several products of the same input as one stage. Each thread gets a few runs of row blocks:
 * long ones read memory best, and more than one lets fast threads take over from slow ones. */
static void multiply(const struct worker *w, const struct input *input,
                     const struct product *products, size_t n_products)
{
    enum { RUNS_PER_THREAD = 2 };
    size_t total = 0;
    for (size_t i = 0; i < n_products; i++)
        total += count_blocks(products[i].weight->rows);
    size_t n_runs = (size_t)w->thread->n_threads * RUNS_PER_THREAD;
    n_runs = n_runs < total ? n_runs : total;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n_runs);
    while (smol_pool_claim(&stage)) {
        size_t begin, end;
        pool_share(total, stage.item, n_runs, &begin, &end);
        multiply_blocks(w->pass, input, products, n_products, begin, end);
    }
}

/* --- work by token ------------------------------------------------------------------------ */

/* Calls work for every token of the pass. Threads get runs of tokens, whose quantized copies
 * share no cache line with those of others. */
typedef void token_work(struct pass *pass, size_t layer, size_t t);
static void each_token(const struct worker *w, token_work *work, size_t layer)
{
    enum { RUN = 16 };
    size_t n = w->pass->n;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)((n + RUN - 1) / RUN));
    while (smol_pool_claim(&stage)) {
        size_t begin = stage.item * RUN, end = begin + RUN < n ? begin + RUN : n;
        for (size_t t = begin; t < end; t++)
            work(w->pass, layer, t);
    }
}

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
    const void *block = tensor_bytes(pass, weight, id / TILE_ROWS * bytes, bytes);
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

/* Each makes a token's row ready for the next product. */

static void normalize(struct pass *pass, const struct blob_tensor *norm, size_t t, const char *what,
                      size_t layer)
{
    struct smol_context *c = pass->c;
    size_t hidden = pass->m->hidden_size;
    float *out = c->normed + t * hidden;
    c->kernels->rms_norm(c->x + t * hidden, vector(pass, norm), hidden, pass->m->rms_norm_eps, out);
    prepare(pass, out, hidden, pass->n, t, what, layer);
}

static void normalize_for_attention(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_tensor *norm = pass->c->model->layers[layer].tensor[ROLE_ATTN_NORM];
    normalize(pass, norm, t, "attention input", layer);
}

static void finish_attention(struct pass *pass, size_t layer, size_t t)
{
    size_t width = (size_t)pass->m->n_heads * pass->m->head_dim;
    smol_attention_finish(pass->c, pass->first, pass->n, t);
    prepare(pass, pass->c->query + t * width, width, pass->n, t, "attention output", layer);
}

static void normalize_for_mlp(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_tensor *norm = pass->c->model->layers[layer].tensor[ROLE_MLP_NORM];
    normalize(pass, norm, t, "MLP input", layer);
}

static void activate(struct pass *pass, size_t layer, size_t t)
{
    struct smol_context *c = pass->c;
    size_t width = pass->m->intermediate_size;
    float *gate = c->gate + t * width;
    c->kernels->swiglu(gate, c->up + t * width, width);
    prepare(pass, gate, width, pass->n, t, "MLP activation", layer);
}

static void attention(const struct worker *w, size_t layer)
{
    struct smol_context *c = w->pass->c;
    const struct blob_model *m = w->pass->m;
    const struct blob_tensor *const *tensor = c->model->layers[layer].tensor;
    const struct input normed = {c->normed, w->pass->n, m->hidden_size};
    const struct input attended = {c->query, w->pass->n, (size_t)m->n_heads * m->head_dim};
    const struct product qkv[] = {
        {tensor[ROLE_ATTN_Q], tensor[ROLE_ATTN_Q_BIAS], .out = c->query},
        {tensor[ROLE_ATTN_K], tensor[ROLE_ATTN_K_BIAS], .out = c->key},
        {tensor[ROLE_ATTN_V], tensor[ROLE_ATTN_V_BIAS], .out = c->value},
    };
    const struct product output = {tensor[ROLE_ATTN_O], tensor[ROLE_ATTN_O_BIAS], .out = c->x,
                                   .add = true};
    each_token(w, normalize_for_attention, layer);
    multiply(w, &normed, qkv, 3);
    each_token(w, rotate_and_store, layer);
    smol_attend(c, w->thread, layer, w->pass->first, w->pass->n);
    each_token(w, finish_attention, layer);
    multiply(w, &attended, &output, 1);
}

static void mlp(const struct worker *w, size_t layer)
{
    struct pass *pass = w->pass;
    struct smol_context *c = pass->c;
    const struct blob_tensor *const *tensor = c->model->layers[layer].tensor;
    size_t width = pass->m->intermediate_size;
    const struct input normed = {c->normed, pass->n, pass->m->hidden_size};
    const struct input gated = {c->gate, pass->n, width};
    const struct product gate_up[] = {
        {tensor[ROLE_MLP_GATE], tensor[ROLE_MLP_GATE_BIAS], .out = c->gate},
        {tensor[ROLE_MLP_UP], tensor[ROLE_MLP_UP_BIAS], .out = c->up},
    };
    const struct product down = {tensor[ROLE_MLP_DOWN], tensor[ROLE_MLP_DOWN_BIAS], .out = c->x,
                                 .add = true};
    each_token(w, normalize_for_mlp, layer);
    multiply(w, &normed, gate_up, 2);
    each_token(w, activate, layer);
    multiply(w, &gated, &down, 1);
}

/* --- output ------------------------------------------------------------------------------- */

/* The output layer's input takes two int8 rows: the quantized row, then, quantized again, what the
 * first left over. The logits see every bit of this row, and the product is bound by the weights'
 * bytes, which are read once for both (docs/architecture.md has the figures). */
static void prepare_fine(struct pass *pass, float *row, size_t cols, size_t n, size_t t)
{
    if (pass->m->dtype != DTYPE_INT8)
        return;
    const char *what = "output layer's input";
    prepare(pass, row, cols, 2 * n, 2 * t, what, pass->m->n_layers);
    const struct quantized q = quantized(pass, 2 * n);
    for (size_t i = 0; i < cols; i++)
        row[i] -= (float)q.steps[(i / 4 * q.n + 2 * t) * 4 + i % 4] *
                  q.scales[i / GROUP_INPUTS * q.n + 2 * t];
    prepare(pass, row, cols, 2 * n, 2 * t + 1, what, pass->m->n_layers);
}

/* Logits (n, vocab_size) of tokens [from, from + n). */
static void output(const struct worker *w, size_t from, size_t n, float *logits)
{
    struct pass *pass = w->pass;
    struct smol_context *c = pass->c;
    const struct layer *outer = &c->model->outer;
    size_t hidden = pass->m->hidden_size;
    bool pairs = pass->m->dtype == DTYPE_INT8;
    const struct input normed = {c->normed, pairs ? 2 * n : n, hidden};
    const struct product head = {outer->tensor[ROLE_OUTPUT], .out = logits, .pairs = pairs};
    const float *weight = vector(pass, outer->tensor[ROLE_FINAL_NORM]);
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n);
    while (smol_pool_claim(&stage)) {
        size_t t = stage.item;
        float *out = c->normed + t * hidden;
        c->kernels->rms_norm(c->x + (from + t) * hidden, weight, hidden, pass->m->rms_norm_eps,
                             out);
        prepare_fine(pass, out, hidden, n, t);
    }
    multiply(w, &normed, &head, 1);
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
            fail_numeric(pass, "logits", pass->m->n_layers, pass->n - pass->n_logits + stage.item);
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
    each_token(&worker, start_token, 0);
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
