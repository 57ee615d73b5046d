/* A layer's attention, as part of a forward pass: norms, products and rotation around
 * attention.c. */
#include "format/model.h"
#include "runtime/engine/attention.h"
#include "runtime/engine/forward.h"
#include "runtime/engine/residual.h"

/* --- queries, keys and values ------------------------------------------------------------- */

/* RMSNorm of heads x (n_heads, head_dim), of each or of all as one vector; norm NULL: none. */
static void normalize(struct pass *pass, const struct blob_tensor *norm, float *x, size_t n_heads)
{
    if (!norm)
        return;
    const float *weight = smol_pass_vector(pass, norm);
    for (size_t i = 0; i < n_heads * pass->m->head_dim; i += norm->cols)
        pass->e->kernels->rms_norm(x + i, weight, norm->cols, pass->m->rms_norm_eps, x + i);
}

/* RoPE on one head (Su et al., 2021) in the half-split pairing of Hugging Face's checkpoints:
 * channel i turns with channel i + half; those from 2 * half on stay. */
static void rotate_head(float *head, size_t half, const float *cosine, const float *sine)
{
    for (size_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = a * cosine[i] - b * sine[i];
        head[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* Rotates token t's heads x (n_heads, head_dim) by the layer's table, if it has one. */
static void rotate(const struct pass *pass, size_t layer, size_t t, float *x, size_t n_heads)
{
    const struct engine *e = pass->e;
    unsigned bits = e->model->layers[layer].bits;
    size_t half = pass->m->rotary_dim / 2;
    size_t table = t * smol_inv_freq_count(pass->m) + (bits & LAYER_SECOND_TABLE ? half : 0);
    if (bits & LAYER_NO_ROTATION)
        return;
    for (size_t head = 0; head < n_heads; head++)
        rotate_head(x + head * pass->m->head_dim, half, e->cosine + table, e->sine + table);
}

/* A soft-cap would make a number of a score that is none: what scores are made of must be finite,
 * keys also in the cache. */
static void check_scores(struct pass *pass, size_t layer, size_t t, const float *query,
                         const float *key)
{
    const float first_infinite = 65520; /* as f16 */
    const struct blob_model *m = pass->m;
    size_t n_key = (size_t)m->n_kv_heads * m->head_dim;
    if (m->attention_softcap == 0)
        return;
    smol_pass_check_finite(pass, query, (size_t)m->n_heads * m->head_dim, "queries", layer, t);
    smol_pass_check_finite(pass, key, n_key, "keys", layer, t);
    if (pass->part_of[t]->context->kv.type != KV_F16)
        return;
    for (size_t i = 0; i < n_key; i++)
        if (key[i] >= first_infinite || key[i] <= -first_infinite) {
            smol_pass_fail_numeric(pass, "keys", layer, t);
            return;
        }
}

/* Makes a token's queries and keys ready, and puts its keys and values into the cache. */
static void rotate_and_store(struct pass *pass, size_t layer, size_t t)
{
    struct engine *e = pass->e;
    const struct blob_model *m = pass->m;
    const struct blob_tensor *const *tensor = e->model->layers[layer].tensor;
    size_t dim = m->head_dim;
    float *query = e->query + t * m->n_heads * dim, *key = e->key + t * m->n_kv_heads * dim;
    const float *value = e->value + t * m->n_kv_heads * dim;
    const struct kv_cache *kv = &pass->part_of[t]->context->kv;
    normalize(pass, tensor[ROLE_ATTN_Q_NORM], query, m->n_heads);
    normalize(pass, tensor[ROLE_ATTN_K_NORM], key, m->n_kv_heads);
    rotate(pass, layer, t, query, m->n_heads);
    rotate(pass, layer, t, key, m->n_kv_heads);
    check_scores(pass, layer, t, query, key);
    for (size_t head = 0; head < m->n_kv_heads; head++)
        smol_kv_store(kv, e->kernels, layer, head, pass_position(pass, t), key + head * dim,
                      value + head * dim);
}

/* --- stages ------------------------------------------------------------------------------- */

/* Attention's output, which replaces the queries. */
static struct input attended_input(const struct pass *pass)
{
    size_t width = (size_t)pass->m->n_heads * pass->m->head_dim;
    return smol_input(pass->e->query, pass->n, width, pass->e->query_q);
}

static void read_residual(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_tensor *norm = pass->e->model->layers[layer].tensor[ROLE_ATTN_NORM];
    smol_residual_read(pass, norm, t, "attention input", layer);
}

/* In a windowed layer a value that is not finite is noticed where it comes in: positions that do
 * not see it any more might or might not, as kernels may multiply what is not seen by 0. */
static void finish(struct pass *pass, size_t layer, size_t t)
{
    const struct input input = attended_input(pass);
    smol_attention_finish(pass, layer, t);
    if (pass->e->model->layers[layer].bits & LAYER_WINDOWED)
        smol_pass_check_finite(pass, input.x + t * input.width, input.width, "attention output",
                               layer, t);
    smol_input_prepare(pass, &input, t, "attention output", layer);
}

static void add_output(struct pass *pass, size_t layer, size_t t)
{
    smol_residual_add(pass, pass->e->model->layers[layer].tensor[ROLE_ATTN_OUT_NORM], t);
}

void smol_forward_attention(const struct worker *w, size_t layer)
{
    struct engine *e = w->pass->e;
    const struct blob_tensor *const *tensor = e->model->layers[layer].tensor;
    const struct input input = smol_residual_input(w->pass), attended = attended_input(w->pass);
    const struct product qkv[] = {
        {tensor[ROLE_ATTN_Q], tensor[ROLE_ATTN_Q_BIAS], .out = e->query},
        {tensor[ROLE_ATTN_K], tensor[ROLE_ATTN_K_BIAS], .out = e->key},
        {tensor[ROLE_ATTN_V], tensor[ROLE_ATTN_V_BIAS], .out = e->value},
    };
    const struct product output =
        smol_residual_product(w->pass, tensor[ROLE_ATTN_O], tensor[ROLE_ATTN_O_BIAS]);
    smol_pass_each_token(w, read_residual, layer);
    smol_multiply(w, &input, qkv, 3);
    smol_pass_each_token(w, rotate_and_store, layer);
    smol_attend(w, layer);
    smol_pass_each_token(w, finish, layer);
    smol_multiply(w, &attended, &output, 1);
    if (!output.add)
        smol_pass_each_token(w, add_output, layer);
}
