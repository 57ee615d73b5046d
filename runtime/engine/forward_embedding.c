/* Where a forward pass begins: embeddings, and RoPE's angles. */
#include "common/number.h"
#include "format/model.h"
#include "runtime/engine/forward.h"
#include "runtime/kernels/math.h"

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

/* Row `id` of the embedding, scaled: a strided gather from its tile. */
static void embed(struct pass *pass, uint32_t id, float *x)
{
    const struct blob_tensor *weight = pass->e->model->outer.tensor[ROLE_EMBED];
    uint64_t bytes = smol_block_bytes(weight->dtype, weight->cols);
    float scale = pass->m->embedding_scale;
    const void *block = smol_pass_bytes(pass, weight, id / TILE_ROWS * bytes, bytes);
    for (size_t col = 0; col < weight->cols; col++)
        x[col] = tile_element(block, weight->dtype, id % TILE_ROWS, col) * scale;
}

/* Cosine and sine of every table at a position. */
static void fill_rope(const struct pass *pass, size_t position, float *cosine, float *sine)
{
    const struct blob_model *m = pass->m;
    size_t half = m->rotary_dim / 2, n = smol_inv_freq_count(m);
    const float *inv_freq = pass->e->model->blob.inv_freq;
    for (size_t i = 0; i < n; i++) {
        float scale = m->rope_scale[i / half];
        math_sincos((float)position * inv_freq[i], &sine[i], &cosine[i]); /* below 2^24: exact */
        sine[i] *= scale;
        cosine[i] *= scale;
    }
}

static void start_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    struct engine *e = pass->e;
    size_t n = smol_inv_freq_count(pass->m);
    const struct part *part = pass->part_of[t];
    embed(pass, part->ids[t - part->row], e->x + t * pass->m->hidden_size);
    fill_rope(pass, pass_position(pass, t), e->cosine + t * n, e->sine + t * n);
}

void smol_forward_embedding(const struct worker *w)
{
    smol_pass_each_token(w, start_token, 0);
}
