/* Norms and rotation of queries and keys, see mixer.h. */
#include "runtime/engine/mixer.h"

#include "format/model.h"
#include "runtime/engine/hadamard.h"
#include "runtime/kernels/math.h"

void smol_heads_angles(const struct pass *pass, size_t t)
{
    const struct blob_model *m = pass->m;
    size_t half = m->rotary_dim / 2, n = smol_inv_freq_count(m);
    const float *inv_freq = pass->e->network->blob->inv_freq;
    float *cosine = pass->e->cosine + t * n, *sine = pass->e->sine + t * n;
    float position = (float)pass_position(pass, t); /* exact below 2^24 */
    for (size_t i = 0; i < n; i++) {
        float scale = m->rope_scale[i / half];
        math_sincos(position * inv_freq[i], &sine[i], &cosine[i]);
        sine[i] *= scale;
        cosine[i] *= scale;
    }
}

/* Applies RMSNorm to the heads x (n_heads, head_dim), to each or to all as one vector. Does nothing
 * if norm is NULL. */
static void normalize_heads(struct pass *pass, const struct blob_tensor *norm, float *x,
                            size_t n_heads)
{
    if (!norm)
        return;
    const float *weight = smol_pass_vector(pass, norm);
    for (size_t i = 0; i < n_heads * pass->m->head_dim; i += norm->cols)
        pass->e->kernels->rms_norm(x + i, weight, norm->cols, pass->m->rms_norm_eps, x + i);
}

/* Applies RoPE (Su et al., 2021) to one head, in the half-split pairing of most of Hugging Face's
 * checkpoints: channel i turns with channel i + half; channels from 2 * half on do not change. */
static void rotate_head(float *head, size_t half, const float *cosine, const float *sine)
{
    for (size_t i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = a * cosine[i] - b * sine[i];
        head[i + half] = b * cosine[i] + a * sine[i];
    }
}

/* Applies RoPE in the pairing of the paper: channel 2i turns with channel 2i + 1. */
static void rotate_neighbours(float *head, size_t half, const float *cosine, const float *sine)
{
    for (size_t i = 0; i < half; i++) {
        float a = head[2 * i], b = head[2 * i + 1];
        head[2 * i] = a * cosine[i] - b * sine[i];
        head[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}

/* Rotates token t's heads x (n_heads, head_dim) by the layer's table, unless the layer has no
 * rotation. */
static void rotate_heads(const struct pass *pass, size_t layer, size_t t, float *x, size_t n_heads)
{
    const struct engine *e = pass->e;
    unsigned bits = e->network->layers[layer].bits;
    bool neighbours = pass->m->blocks & BLOCK_ROTATE_NEIGHBOURS;
    size_t half = pass->m->rotary_dim / 2;
    size_t table = t * smol_inv_freq_count(pass->m) + (bits & LAYER_SECOND_TABLE ? half : 0);
    if (bits & LAYER_NO_ROTATION)
        return;
    for (size_t head = 0; head < n_heads; head++)
        (neighbours ? rotate_neighbours : rotate_head)(x + head * pass->m->head_dim, half,
                                                       e->cosine + table, e->sine + table);
}

/* Brings n numbers x of token t within the model's limit, if it has one, after a check that they
 * are finite, which it would hide. */
static void clip(struct pass *pass, size_t layer, size_t t, float *x, size_t n)
{
    float limit = pass->m->experts.qkv_clip;
    if (limit == 0)
        return;
    smol_pass_check_finite(pass, x, n, "queries, keys or values", layer, t);
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
}

/* Normalizes and rotates token t's heads, in the model's order. */
static void turn_heads(struct pass *pass, size_t layer, size_t t, const struct blob_tensor *norm,
                       float *x, size_t n_heads)
{
    bool late = pass->m->blocks & BLOCK_QK_NORM_LATE;
    normalize_heads(pass, late ? NULL : norm, x, n_heads);
    clip(pass, layer, t, x, n_heads * pass->m->head_dim);
    rotate_heads(pass, layer, t, x, n_heads);
    normalize_heads(pass, late ? norm : NULL, x, n_heads);
}

/* Multiplies token t's queries by the factor that grows with its position. */
static void grow_queries(const struct pass *pass, size_t t, float *query)
{
    const struct blob_model *m = pass->m;
    size_t periods = m->query_period ? pass_position(pass, t) / m->query_period : 0;
    if (periods == 0)
        return;
    float factor = 1.0f + m->query_growth * math_log(1.0f + (float)periods);
    for (size_t i = 0; i < (size_t)m->n_heads * m->head_dim; i++)
        query[i] *= factor;
}

/* Checks that queries and keys are finite, and that keys are finite in the cache's type. A soft-cap
 * would turn a NaN or infinite score into an ordinary number and hide the error. */
static void check_scores(struct pass *pass, size_t layer, size_t t, const float *query,
                         const float *key)
{
    const float first_infinite = 65520; /* the smallest magnitude that rounds to infinity in f16 */
    const struct blob_model *m = pass->m;
    size_t n_key = (size_t)m->n_kv_heads * m->head_dim;
    if (m->attention_softcap == 0)
        return;
    smol_pass_check_finite(pass, query, (size_t)m->n_heads * m->head_dim, "queries", layer, t);
    smol_pass_check_finite(pass, key, n_key, "keys", layer, t);
    if (pass->segment_of[t]->kv->type != KV_F16)
        return;
    for (size_t i = 0; i < n_key; i++)
        if (key[i] >= first_infinite || key[i] <= -first_infinite) {
            smol_pass_fail_numeric(pass, "keys", layer, t);
            return;
        }
}

void smol_heads_store(struct pass *pass, size_t layer, size_t t)
{
    struct engine *e = pass->e;
    const struct blob_model *m = pass->m;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    size_t dim = m->head_dim;
    float *query = e->query + t * m->n_heads * dim, *key = e->key + t * m->n_kv_heads * dim;
    float *value = e->value + t * m->n_kv_heads * dim;
    size_t latent = m->latent.kv_rank; /* the channels before those that rotate */
    const struct kv_cache *kv = pass->segment_of[t]->kv;
    if (latent > 0)
        e->kernels->rms_norm(key, smol_pass_vector(pass, tensor[ROLE_ATTN_LATENT_NORM]), latent,
                             m->latent.norm_eps, key);
    turn_heads(pass, layer, t, tensor[ROLE_ATTN_Q_NORM], query + latent, m->n_heads);
    turn_heads(pass, layer, t, tensor[ROLE_ATTN_K_NORM], key + latent, m->n_kv_heads);
    grow_queries(pass, t, query);
    if (latent == 0)
        clip(pass, layer, t, value, m->n_kv_heads * dim);
    if (m->blocks & BLOCK_RELATIVE)
        return; /* relative.c reads them here */
    if (kv->type == KV_INT4) {
        smol_hadamard_inverse(query, m->n_heads, dim);
        smol_hadamard(key, m->n_kv_heads, dim);
        if (latent == 0)
            smol_hadamard(value, m->n_kv_heads, dim);
    }
    check_scores(pass, layer, t, query, key);
    for (size_t head = 0; head < m->n_kv_heads; head++)
        smol_kv_store(kv, e->kernels, layer, head, pass_position(pass, t), key + head * dim,
                      value + head * dim);
}
