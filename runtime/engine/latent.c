/* Attention to latent vectors, see mixer.h. */
#include "runtime/engine/mixer.h"

#include <string.h>

#include "format/model.h"
#include "runtime/engine/attention.h"

/* A product for each head, whose matrix has as many rows for each: inputs and outputs (n, n_heads,
 * step) of which each head's first channels count. */
struct by_head {
    const struct blob_tensor *weight;
    const float *in;
    size_t in_step;
    float *out;
    size_t out_step;
};

/* Returns the product that turns the heads' queries into those of latent vectors. */
static struct by_head queries_of(const struct pass *pass, size_t layer)
{
    const struct engine *e = pass->e;
    return (struct by_head){
        .weight = e->network->layers[layer].tensor[ROLE_ATTN_K_UP],
        .in = e->value,
        .in_step = smol_query_width(pass->m, 0) / pass->m->n_heads,
        .out = e->query,
        .out_step = pass->m->head_dim,
    };
}

/* Returns the product that turns attention's outputs into the heads' values. */
static struct by_head values_of(const struct pass *pass, size_t layer)
{
    const struct engine *e = pass->e;
    return (struct by_head){
        .weight = e->network->layers[layer].tensor[ROLE_ATTN_V_UP],
        .in = e->query,
        .in_step = pass->m->head_dim,
        .out = e->value,
        .out_step = pass->m->latent.value_dim,
    };
}

/* Returns a head's input. Its quantized copy has a place of its own. */
static struct product_input head_input(const struct pass *pass, const struct by_head *b,
                                       size_t head)
{
    const struct quantized q = smol_quantized_part(pass->e->heads_q, count_groups(b->weight->cols),
                                                   head * smol_quantized_stride(pass->n));
    return smol_input(b->in + head * b->in_step, pass->n, pass->m->n_heads * b->in_step, q);
}

/* Prepares row t of all heads' inputs. */
static void prepare_heads(struct pass *pass, const struct by_head *b, const char *what,
                          size_t layer, size_t t)
{
    for (size_t head = 0; pass->m->dtype == DTYPE_INT8 && head < pass->m->n_heads; head++) {
        const struct product_input input = head_input(pass, b, head);
        if (!pass->e->kernels->quantize(input.x + t * input.width, b->weight->cols,
                                        &input.quantized, t))
            smol_pass_fail_numeric(pass, what, layer, t);
    }
}

/* Computes row blocks [begin, end) of the matrix, which are of one or more heads. */
static void multiply_heads(struct pass *pass, const void *argument, size_t begin, size_t end)
{
    const struct by_head *b = argument;
    size_t n_heads = pass->m->n_heads, per_head = count_blocks(b->weight->rows) / n_heads;
    size_t step = smol_blocks_at_once(b->weight, pass->n);
    for (size_t next, block = begin; block < end; block = next) {
        size_t head = block / per_head, rest = (head + 1) * per_head;
        const struct product_input input = head_input(pass, b, head);
        next = block + step < rest ? block + step : rest;
        next = next < end ? next : end;
        smol_multiply_blocks(pass, b->weight, NULL, &input, block, next,
                             b->out + head * b->out_step + block % per_head * TILE_ROWS,
                             n_heads * b->out_step);
    }
}

static void multiply(const struct worker *w, const struct by_head *b)
{
    smol_pass_each_range(w, count_blocks(b->weight->rows), 8, multiply_heads, b);
}

/* Observes the inputs of all heads. */
static void observe_heads(const struct worker *w, const struct by_head *b, enum stats_input input,
                          size_t layer)
{
    for (uint32_t head = 0; w->pass->observer && head < w->pass->m->n_heads; head++) {
        const struct product_input part = head_input(w->pass, b, head);
        smol_input_observe(w, (struct stats_place){input, (uint32_t)layer, head}, &part);
    }
}

/* --- queries ---------------------------------------------------------------------------------- */

/* Returns the input of the queries' last matrix, where it is not the layer's. */
static struct product_input down_input(const struct pass *pass)
{
    const struct engine *e = pass->e;
    return smol_input(e->query_down, pass->n, pass->m->latent.q_rank, e->query_down_q);
}

static void normalize_down(struct pass *pass, size_t layer, size_t t)
{
    const struct product_input input = down_input(pass);
    const struct blob_tensor *norm = pass->e->network->layers[layer].tensor[ROLE_ATTN_Q_DOWN_NORM];
    float *row = pass->e->query_down + t * input.width;
    pass->e->kernels->rms_norm(row, smol_pass_vector(pass, norm), input.width,
                               pass->m->latent.norm_eps, row);
    smol_input_prepare(pass, &input, t, "queries", layer);
}

/* Prepares the parts of row t's queries that do not rotate, and copies the others to their place
 * after the latent ones. */
static void divide_queries(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_model *m = pass->m;
    const struct by_head b = queries_of(pass, layer);
    for (size_t head = 0; head < m->n_heads; head++) {
        size_t row = t * m->n_heads + head;
        memcpy(b.out + row * b.out_step + m->latent.kv_rank,
               b.in + row * b.in_step + m->latent.query_dim, m->rotary_dim * sizeof *b.out);
    }
    prepare_heads(pass, &b, "queries", layer, t);
}

void smol_latent_read(const struct worker *w, size_t layer, const struct product_input *input)
{
    struct engine *e = w->pass->e;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    const struct by_head queries = queries_of(w->pass, layer);
    bool down = tensor[ROLE_ATTN_Q_DOWN];
    const struct product first[] = {
        {tensor[down ? ROLE_ATTN_Q_DOWN : ROLE_ATTN_Q], NULL,
         .out = down ? e->query_down : e->value},
        {tensor[ROLE_ATTN_K], NULL, .out = e->key},
    };
    const struct product query = {tensor[ROLE_ATTN_Q], NULL, .out = e->value};
    smol_multiply(w, input, first, 2);
    if (down) {
        const struct product_input from = down_input(w->pass);
        smol_pass_each_token(w, normalize_down, layer);
        smol_input_observe(w, (struct stats_place){STATS_QUERY, (uint32_t)layer, 0}, &from);
        smol_multiply(w, &from, &query, 1);
    }
    smol_pass_each_token(w, divide_queries, layer);
    observe_heads(w, &queries, STATS_HEAD_QUERY, layer);
    multiply(w, &queries);
}

/* --- values ----------------------------------------------------------------------------------- */

static void finish_attended(struct pass *pass, size_t layer, size_t t)
{
    const struct by_head b = values_of(pass, layer);
    smol_attention_finish(pass, layer, t);
    prepare_heads(pass, &b, "attention output", layer, t);
}

void smol_latent_attended(const struct worker *w, size_t layer)
{
    const struct by_head values = values_of(w->pass, layer);
    smol_pass_each_token(w, finish_attended, layer);
    observe_heads(w, &values, STATS_HEAD_LATENT, layer);
    multiply(w, &values);
}
