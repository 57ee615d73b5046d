/* Norms and rotation of queries and keys, see mixer.h. */
#include "runtime/engine/mixer.h"

#include <math.h>
#include <string.h>

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
        float scale = m->rope_scale[i >= half];
        math_sincos(position * inv_freq[i], &sine[i], &cosine[i]);
        sine[i] *= scale;
        cosine[i] *= scale;
    }
}

/* Applies RMSNorm to heads of n channels together, to each or to all as one vector. Does nothing if
 * norm is NULL. */
static void normalize_heads(struct pass *pass, const struct blob_tensor *norm, float *x, size_t n)
{
    if (!norm)
        return;
    const float *weight = smol_pass_vector(pass, norm);
    for (size_t i = 0; i < n; i += norm->cols)
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

/* Rotates token t's heads x (n_heads, dim) by the layer's table, unless the layer has no
 * rotation. */
static void rotate_heads(const struct pass *pass, size_t layer, size_t t, float *x, size_t n_heads,
                         size_t dim)
{
    const struct engine *e = pass->e;
    unsigned bits = e->network->layers[layer].bits;
    bool neighbours = pass->m->blocks & BLOCK_ROTATE_NEIGHBOURS, second = bits & LAYER_SECOND_TABLE;
    size_t half = pass->m->rotary_dim / 2;
    size_t table = t * smol_inv_freq_count(pass->m) + (second ? half : 0);
    if (bits & LAYER_NO_ROTATION)
        return;
    if (second && model_is_varied(pass->m))
        half = dim / 2;
    for (size_t head = 0; head < n_heads; head++)
        (neighbours ? rotate_neighbours : rotate_head)(x + head * dim, half, e->cosine + table,
                                                       e->sine + table);
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
    size_t dim = smol_head_dim(pass->m, (uint32_t)layer);
    bool late = pass->m->blocks & BLOCK_QK_NORM_LATE;
    normalize_heads(pass, late ? NULL : norm, x, n_heads * dim);
    clip(pass, layer, t, x, n_heads * dim);
    rotate_heads(pass, layer, t, x, n_heads, dim);
    normalize_heads(pass, late ? norm : NULL, x, n_heads * dim);
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
    size_t dim = smol_head_dim(pass->m, (uint32_t)layer);
    const float first_infinite = 65520; /* the smallest magnitude that rounds to infinity in f16 */
    const struct blob_model *m = pass->m;
    size_t n_key = smol_kv_heads(m, (uint32_t)layer) * dim;
    if (m->attention_softcap == 0)
        return;
    smol_pass_check_finite(pass, query, m->n_heads * dim, "queries", layer, t);
    smol_pass_check_finite(pass, key, n_key, "keys", layer, t);
    if (pass->segment_of[t]->kv->type != KV_F16)
        return;
    for (size_t i = 0; i < n_key; i++)
        if (key[i] >= first_infinite || key[i] <= -first_infinite) {
            smol_pass_fail_numeric(pass, "keys", layer, t);
            return;
        }
}

/* Prepares row t's queries, in a layer that shares the keys and values of another. */
static void turn_queries(struct pass *pass, size_t layer, size_t t)
{
    const struct blob_model *m = pass->m;
    size_t dim = smol_head_dim(m, (uint32_t)layer);
    float *query = pass->e->query + t * m->n_heads * dim;
    turn_heads(pass, layer, t, pass->e->network->layers[layer].tensor[ROLE_ATTN_Q_NORM], query,
               m->n_heads);
    if (pass->segment_of[t]->kv->type == KV_INT4)
        smol_hadamard_inverse(query, m->n_heads, dim);
    if (m->attention_softcap > 0)
        smol_pass_check_finite(pass, query, m->n_heads * dim, "queries", layer, t);
}

/* Prepares row t's values, if the model's layers differ in shape. */
static void turn_values(const struct pass *pass, size_t layer, const float *key, float *value)
{
    const struct blob_model *m = pass->m;
    size_t n = smol_kv_heads(m, (uint32_t)layer), dim = smol_head_dim(m, (uint32_t)layer);
    if (!model_is_varied(m))
        return;
    if (smol_values_are_keys(m, (uint32_t)layer))
        memcpy(value, key, n * dim * sizeof *value);
    for (size_t i = 0; i < n; i++, value += dim)
        pass->e->kernels->unit_norm(value, dim, (float)dim * m->rms_norm_eps, sqrtf((float)dim),
                                    value);
}

void smol_heads_store(struct pass *pass, size_t layer, size_t t)
{
    struct engine *e = pass->e;
    const struct blob_model *m = pass->m;
    const struct blob_tensor *const *tensor = e->network->layers[layer].tensor;
    size_t dim = smol_head_dim(m, (uint32_t)layer), n = smol_kv_heads(m, (uint32_t)layer);
    float *query = e->query + t * m->n_heads * dim, *key = e->key + t * n * dim;
    float *value = e->value + t * n * dim;
    size_t latent = m->latent.kv_rank; /* the channels before those that rotate */
    const struct kv_cache *kv = pass->segment_of[t]->kv;
    if (smol_kv_source(m, (uint32_t)layer) != layer) {
        turn_queries(pass, layer, t);
        return;
    }
    if (latent > 0)
        e->kernels->rms_norm(key, smol_pass_vector(pass, tensor[ROLE_ATTN_LATENT_NORM]), latent,
                             m->latent.norm_eps, key);
    turn_values(pass, layer, key, value);
    turn_heads(pass, layer, t, tensor[ROLE_ATTN_Q_NORM], query + latent, m->n_heads);
    turn_heads(pass, layer, t, tensor[ROLE_ATTN_K_NORM], key + latent, n);
    grow_queries(pass, t, query);
    if (latent == 0)
        clip(pass, layer, t, value, n * dim);
    if (m->blocks & BLOCK_RELATIVE)
        return; /* relative.c reads them here */
    if (kv->type == KV_INT4) {
        smol_hadamard_inverse(query, m->n_heads, dim);
        smol_hadamard(key, n, dim);
        if (latent == 0)
            smol_hadamard(value, n, dim);
    }
    check_scores(pass, layer, t, query, key);
    for (size_t head = 0; head < n; head++)
        smol_kv_store(kv, e->kernels, layer, head, pass_position(pass, t), key + head * dim,
                      value + head * dim);
}
