/* Creation and memory of engines, see engine.h. */
#include "runtime/engine/engine.h"

#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "format/model.h"
#include "runtime/engine/product.h"
#include "runtime/engine/relative.h"

/* An array (tokens, bytes per token) and the address of the pointer to it. */
struct array {
    void *pointer;
    uint64_t bytes;
};

/* Places the arrays one after the other in `memory`, or only measures them if it is NULL. Returns
 * the bytes used. The model's widths have been checked, so the sum cannot overflow. */
static uint64_t place_arrays(uint8_t *memory, size_t n_tokens, const struct array *arrays, size_t n)
{
    uint64_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t *array = memory ? memory + used : NULL;
        memcpy(arrays[i].pointer, &array, sizeof array);
        used += round_up(n_tokens * arrays[i].bytes, 64);
    }
    return used;
}

/* Places a quantized copy of `width` numbers for each token likewise. Embedding models have wide
 * steps. */
static uint64_t place_copy(const struct engine *e, uint8_t *memory, size_t n_tokens,
                           struct quantized *copy, size_t width)
{
    copy->wide = e->network->blob->encoder;
    size_t groups = count_groups(width), planes = copy->wide ? 2 : 1;
    const struct array parts[] = {
        {&copy->steps, planes * groups * GROUP_INPUTS},
        {&copy->scales, groups * sizeof(float)},
        {&copy->offsets, groups * sizeof(int32_t)},
    };
    return place_arrays(memory, n_tokens, parts, sizeof parts / sizeof parts[0]);
}

/* Places the memory of layers with experts likewise. */
static uint64_t place_experts(struct engine *e, uint8_t *memory)
{
    const struct blob_model *m = &e->network->model;
    const struct blob_experts *experts = &m->experts;
    struct expert_memory *x = &e->experts;
    bool int8 = m->dtype == DTYPE_INT8;
    size_t used = experts->n_used;
    const struct array arrays[] = {
        {&x->scores, experts->n_experts * sizeof *x->scores},
        {&x->chosen, used * sizeof *x->chosen},
        {&x->weights, used * sizeof *x->weights},
        {&x->rows, used * sizeof *x->rows},
        {&x->row_weights, used * sizeof *x->row_weights},
        {&x->shared_gate, experts->shared_gate * sizeof *x->shared_gate},
        {&x->shared_out, experts->own_norms * m->hidden_size * sizeof *x->shared_out},
        {&x->input, int8 ? 0 : used * m->hidden_size * sizeof *x->input},
        {&x->gated, int8 ? 0 : used * experts->width * sizeof *x->gated},
    };
    const struct array uses = {&x->uses, sizeof *x->uses};
    if (experts->n_experts == 0)
        return 0;
    uint64_t bytes = place_arrays(memory, e->n_rows, arrays, sizeof arrays / sizeof arrays[0]);
    bytes += place_arrays(memory ? memory + bytes : NULL, experts->n_experts, &uses, 1);
    if (!int8)
        return bytes;
    size_t columns = 3 * e->n_rows * used; /* smol_quantized_stride(n) is at most 3 * n */
    bytes += place_copy(e, memory ? memory + bytes : NULL, columns, &x->input_q, m->hidden_size);
    return bytes +
           place_copy(e, memory ? memory + bytes : NULL, columns, &x->gated_q, experts->width);
}

/* Places the memory of attention to latent vectors likewise. */
static uint64_t place_latent(struct engine *e, uint8_t *memory)
{
    const struct blob_latent *latent = &e->network->model.latent;
    const struct array down = {&e->query_down, latent->q_rank * sizeof(float)};
    size_t widest = latent->query_dim > latent->kv_rank ? latent->query_dim : latent->kv_rank;
    size_t columns = smol_quantized_stride(e->n_rows);
    uint64_t bytes = place_arrays(memory, e->n_rows, &down, 1);
    if (e->network->model.dtype != DTYPE_INT8 || latent->kv_rank == 0)
        return bytes;
    bytes +=
        place_copy(e, memory ? memory + bytes : NULL, columns, &e->query_down_q, latent->q_rank);
    return bytes + place_copy(e, memory ? memory + bytes : NULL,
                              columns * e->network->model.n_heads, &e->heads_q, widest);
}

/* Divides `memory` into the activations. The first call measures, with NULL; the second places. */
static uint64_t place_activations(struct engine *e, uint8_t *memory)
{
    const struct blob_model *m = &e->network->model;
    bool int8 = m->dtype == DTYPE_INT8;
    bool has_states = m->states.kind;
    size_t mixed = has_states ? smol_states_inputs(m) : 0;
    size_t convolved = has_states ? smol_states_width(m) : 0;
    size_t query = (size_t)m->n_heads * smol_most_head_dim(m), key = smol_most_key_width(m);
    size_t attended = model_has_latent(m) ? smol_attended_width(m, 0) : query, value = key;
    if (model_has_latent(m))
        value = smol_query_width(m, 0) > attended ? smol_query_width(m, 0) : attended;
    const struct {
        struct quantized *copy;
        size_t width;
    } copies[] = {
        {&e->normed_q, m->hidden_size},       {&e->query_q, attended},
        {&e->gated_q, e->mlp_width},          {&e->convolved_q, convolved},
        {&e->input_q, m->varied.input_width},
    };
    const struct array arrays[] = {
        {&e->segment_of, sizeof *e->segment_of},
        {&e->x, m->hidden_size * sizeof(float)},
        {&e->normed, m->hidden_size * sizeof(float)},
        {&e->query, query * sizeof(float)},
        {&e->key, key * sizeof(float)},
        {&e->value, value * sizeof(float)},
        {&e->attention_gate, gate_width(m) * sizeof(float)},
        {&e->mixed, mixed * sizeof(float)},
        {&e->convolved, convolved * sizeof(float)},
        {&e->gated, int8 ? 0 : e->mlp_width * sizeof(float)},
        {&e->mixer_step, m->states.n_heads * sizeof(float)},
        {&e->mixer_decay, m->states.n_heads * sizeof(float)},
        {&e->cosine, smol_inv_freq_count(m) * sizeof(float)},
        {&e->sine, smol_inv_freq_count(m) * sizeof(float)},
        {&e->inputs, (size_t)m->n_layers * m->varied.input_width * sizeof(float)},
        {&e->input_gate, m->varied.input_width * sizeof(float)},
    };
    uint64_t used = place_arrays(memory, e->n_rows, arrays, sizeof arrays / sizeof arrays[0]);
    for (size_t i = 0; int8 && i < sizeof copies / sizeof copies[0]; i++)
        used += place_copy(e, memory ? memory + used : NULL, smol_quantized_stride(e->n_rows),
                           copies[i].copy, copies[i].width);
    used += place_experts(e, memory ? memory + used : NULL);
    used += place_latent(e, memory ? memory + used : NULL);
    return used;
}

static smol_status init_engine(struct engine *e, unsigned n_threads, smol_error *error)
{
    smol_status status = smol_kernels_select(&e->kernels, error);
    if (status)
        return status;
    uint64_t memory_bytes = place_activations(e, NULL);
    if (fits_memory(memory_bytes))
        e->memory = smol_aligned_alloc(64, (size_t)memory_bytes);
    if (!e->memory)
        return smol_fail_memory(error, "activations");
    e->memory_bytes = (size_t)memory_bytes;
    place_activations(e, e->memory);
    status = smol_pool_create(n_threads ? n_threads : smol_cpu_count(), &e->pool, error);
    return status ? status : smol_relative_init(e, error);
}

smol_status smol_engine_create(const struct network *network, unsigned n_threads,
                               struct engine **out, smol_error *error)
{
    *out = NULL;
    struct engine *engine = smol_calloc(1, sizeof *engine);
    if (!engine)
        return smol_fail_memory(error, "an engine");
    engine->network = network;
    for (uint32_t i = 0; i < network->model.n_layers; i++) {
        uint32_t width = smol_mlp_width(&network->model, i);
        engine->mlp_width = width > engine->mlp_width ? width : engine->mlp_width;
    }
    engine->n_contexts = 1;
    engine->n_rows = BATCH;
    if (blob_sees_ahead(network->blob) && network->model.context_length > BATCH)
        engine->n_rows = network->model.context_length;
    smol_status status = init_engine(engine, n_threads, error);
    if (status)
        smol_engine_release(engine);
    else
        *out = engine;
    return status;
}

void smol_engine_release(struct engine *engine)
{
    if (!engine || --engine->n_contexts > 0)
        return;
    smol_pool_destroy(engine->pool);
    smol_attention_free(&engine->attention);
    smol_free(engine->relative);
    smol_free(engine->memory);
    smol_free(engine);
}

size_t smol_engine_bytes(const struct engine *engine)
{
    return engine->memory_bytes + smol_attention_bytes(engine) + smol_relative_bytes(engine) +
           sizeof *engine;
}
