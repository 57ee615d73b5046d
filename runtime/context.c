/* Contexts: creation, growth and evaluation in batches, see smol.h. The mathematics is in
 * forward.c. */
#include "runtime/context.h"

#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "format/model.h"
#include "runtime/fpenv.h"
#include "runtime/product.h"
#include "runtime/report.h"

/* --- creation ----------------------------------------------------------------------------- */

/* An array (tokens, bytes per token) and the pointer to it. */
struct array {
    void *pointer;
    uint64_t bytes;
};

/* The arrays that follow have room in `memory`, or only take their measure when it is NULL.
 * Returns the bytes used. Widths were checked with the model: the sum cannot overflow. */
static uint64_t place(uint8_t *memory, size_t n_tokens, const struct array *arrays, size_t n)
{
    uint64_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t *array = memory ? memory + used : NULL;
        memcpy(arrays[i].pointer, &array, sizeof array);
        used += round_up(n_tokens * arrays[i].bytes, 64);
    }
    return used;
}

/* Cuts `memory` into the activations; called once to measure, with NULL, and once to place. */
static uint64_t place_activations(smol_context *c, uint8_t *memory)
{
    const struct blob_model *m = c->model->blob.model;
    bool int8 = m->dtype == DTYPE_INT8;
    size_t query = (size_t)m->n_heads * m->head_dim, key = (size_t)m->n_kv_heads * m->head_dim;
    const struct {
        struct quantized *copy;
        size_t width;
    } copies[] = {
        {&c->normed_q, m->hidden_size},
        {&c->query_q, query},
        {&c->gated_q, m->intermediate_size},
    };
    const struct array arrays[] = {
        {&c->x, m->hidden_size * sizeof(float)},
        {&c->normed, m->hidden_size * sizeof(float)},
        {&c->query, query * sizeof(float)},
        {&c->key, key * sizeof(float)},
        {&c->value, key * sizeof(float)},
        {&c->gated, int8 ? 0 : m->intermediate_size * sizeof(float)},
        {&c->cosine, smol_inv_freq_count(m) * sizeof(float)},
        {&c->sine, smol_inv_freq_count(m) * sizeof(float)},
    };
    uint64_t used = place(memory, BATCH, arrays, sizeof arrays / sizeof arrays[0]);
    for (size_t i = 0; int8 && i < sizeof copies / sizeof copies[0]; i++) {
        size_t groups = count_groups(copies[i].width);
        const struct array parts[] = {
            {&copies[i].copy->steps, groups * GROUP_INPUTS},
            {&copies[i].copy->scales, groups * sizeof(float)},
            {&copies[i].copy->offsets, groups * sizeof(int32_t)},
        };
        used += place(memory ? memory + used : NULL, smol_quantized_stride(BATCH), parts,
                      sizeof parts / sizeof parts[0]);
    }
    return used;
}

static enum status create(smol_context *c, const smol_context_params *params, struct error *error)
{
    static const enum kv_type kv_types[] = {
        [SMOL_KV_F32] = KV_F32, [SMOL_KV_F16] = KV_F16, [SMOL_KV_INT8] = KV_INT8};
    const struct blob_model *m = c->model->blob.model;
    if (params->n_ctx > m->context_length)
        return smol_fail(error, STATUS_USAGE, "context of %u tokens: the model has at most %u",
                         params->n_ctx, m->context_length);
    if ((unsigned)params->kv >= sizeof kv_types / sizeof kv_types[0])
        return smol_fail(error, STATUS_USAGE, "kv: not one of smol_kv");
    smol_kv kv = params->kv;
    if (kv == SMOL_KV_DEFAULT)
        kv = m->dtype == DTYPE_F32 ? SMOL_KV_F32 : SMOL_KV_F16;
    c->capacity = params->n_ctx ? params->n_ctx : m->context_length;

    enum status status = smol_kernels_select(&c->kernels, error);
    if (!status)
        status = smol_kv_init(&c->kv, kv_types[kv], m->n_layers, m->n_kv_heads, m->head_dim,
                              c->capacity, error);
    if (status)
        return status;
    uint64_t memory_bytes = place_activations(c, NULL);
    if (fits_memory(memory_bytes))
        c->memory = smol_aligned_alloc(64, (size_t)memory_bytes);
    if (!c->memory)
        return smol_fail_memory(error, "activations");
    c->memory_bytes = (size_t)memory_bytes;
    place_activations(c, c->memory);
    unsigned n_threads = params->n_threads ? params->n_threads : smol_cpu_count();
    return smol_pool_create(n_threads, &c->pool, error);
}

smol_status smol_context_create(const smol_model *model, const smol_context_params *params,
                                smol_context **out, smol_error *error)
{
    const smol_context_params defaults = {0, 0, SMOL_KV_DEFAULT};
    struct error detail;
    *out = NULL;
    smol_context *context = smol_calloc(1, sizeof *context);
    if (!context)
        return report(error, smol_fail_memory(&detail, "a context"), &detail);
    context->model = model;
    enum status status = create(context, params ? params : &defaults, &detail);
    if (status) {
        smol_context_free(context);
        return report(error, status, &detail);
    }
    *out = context;
    return report(error, STATUS_OK, NULL);
}

void smol_context_free(smol_context *context)
{
    if (!context)
        return;
    smol_pool_destroy(context->pool);
    smol_kv_free(&context->kv);
    smol_attention_free(&context->attention);
    smol_free(context->ids);
    smol_free(context->memory);
    smol_free(context);
}

/* --- evaluation --------------------------------------------------------------------------- */

static enum status check_arguments(const smol_context *c, const uint32_t *ids, size_t n,
                                   size_t n_logits, struct error *error)
{
    uint32_t vocab_size = c->model->blob.model->vocab_size;
    if (n == 0 || n_logits > n)
        return smol_fail(error, STATUS_USAGE, "%zu tokens, logits of %zu: ask for 0 to n", n,
                         n_logits);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocab_size)
            return smol_fail(error, STATUS_USAGE, "token id %u: the vocabulary has %u", ids[i],
                             vocab_size);
    if (n > c->capacity - c->length)
        return smol_fail(error, STATUS_CONTEXT_FULL,
                         "context is full (%zu of %zu tokens used, %zu more wanted): use a longer "
                         "context or a shorter text",
                         c->length, c->capacity, n);
    return STATUS_OK;
}

enum status smol_context_reserve_ids(smol_context *c, size_t n, struct error *error)
{
    if (n <= c->ids_room)
        return STATUS_OK;
    size_t room = n < c->capacity / 2 ? 2 * n : c->capacity + 1;
    uint32_t *ids = smol_realloc(c->ids, room * sizeof *ids);
    if (!ids)
        return smol_fail_memory(error, "the token ids");
    c->ids = ids;
    c->ids_room = room;
    return STATUS_OK;
}

static enum status evaluate(smol_context *c, const uint32_t *ids, size_t n, size_t n_logits,
                            float *logits, struct error *error)
{
    const struct blob *blob = &c->model->blob;
    uint32_t vocab_size = blob->model->vocab_size;
    enum status status = smol_context_reserve_ids(c, c->length + n + 1, error);
    if (!status)
        status = smol_kv_reserve(&c->kv, c->length + n, error);
    if (!status)
        status = smol_attention_reserve(c, c->length + n, error);
    for (size_t done = 0; !status && done < n;) {
        size_t rest = n - done;
        size_t batch = rest < BATCH ? rest : BATCH;
        size_t behind = rest - batch; /* tokens after this batch */
        size_t wanted = n_logits > behind ? n_logits - behind : 0;
        wanted = wanted < batch ? wanted : batch;
        status = smol_forward(c, ids + done, batch, wanted, logits, error);
        status = file_settle(&blob->file, blob->path, status, error);
        c->length += batch;
        done += batch;
        logits = wanted ? logits + wanted * vocab_size : logits; /* NULL when none are wanted */
    }
    return status;
}

smol_status smol_eval(smol_context *context, const uint32_t *ids, size_t n, size_t n_logits,
                      float *logits, smol_error *error)
{
    struct error detail;
    enum status status = check_arguments(context, ids, n, n_logits, &detail);
    if (status)
        return report(error, status, &detail);
    size_t length = context->length;
    fenv_t saved;
    fpenv_enter(&saved);
    status = evaluate(context, ids, n, n_logits, logits, &detail);
    fpenv_leave(&saved);
    if (status) {
        context->length = length;
        return report(error, status, &detail);
    }
    memmove(context->ids + length, ids, n * sizeof *ids); /* may be the context's own */
    context->n_ids = context->length;
    return report(error, STATUS_OK, NULL);
}

/* --- state -------------------------------------------------------------------------------- */

size_t smol_context_length(const smol_context *context)
{
    return context->length;
}

const uint32_t *smol_context_ids(const smol_context *context, size_t *n)
{
    *n = context->length;
    return context->ids;
}

size_t smol_context_capacity(const smol_context *context)
{
    return context->capacity;
}

void smol_context_truncate(smol_context *context, size_t n)
{
    if (n < context->length)
        context->length = n;
    if (n < context->n_ids)
        context->n_ids = n;
}

uint32_t smol_context_pending(const smol_context *context)
{
    return context->n_ids > context->length ? context->ids[context->length] : SMOL_NO_TOKEN;
}

/* Of `rest` tokens the newest half, or half of that, until it is no more than `most`. */
static size_t newest_part(size_t rest, size_t most)
{
    do
        rest /= 2;
    while (rest > most);
    return rest;
}

smol_status smol_context_slide(smol_context *context, size_t n_keep, size_t n_room,
                               smol_error *error)
{
    struct error detail;
    size_t length = context->length, capacity = context->capacity;
    size_t kept = n_keep < length ? n_keep : length;
    if (n_room <= capacity - length)
        return report(error, STATUS_OK, NULL);
    if (n_room > capacity - kept)
        return report(error,
                      smol_fail(&detail, STATUS_CONTEXT_FULL,
                                "context of %zu tokens: no room for %zu behind the %zu that are "
                                "kept: use a longer context or a shorter text, or keep less",
                                capacity, n_room, kept),
                      &detail);
    size_t n = newest_part(length - kept, capacity - kept - n_room);
    smol_context_truncate(context, kept);
    return n ? smol_eval(context, context->ids + length - n, n, 0, NULL, error)
             : report(error, STATUS_OK, NULL);
}

smol_context_info smol_context_get_info(const smol_context *context)
{
    static const char *const kv_names[KV_TYPES] = {"f32", "f16", "int8"};
    return (smol_context_info){
        .n_threads = smol_pool_size(context->pool),
        .kv = kv_names[context->kv.type],
        .isa = context->kernels->name,
        .kv_bytes = smol_kv_bytes(&context->kv),
        .state_bytes = context->memory_bytes + smol_attention_bytes(context) +
                       context->ids_room * sizeof *context->ids + sizeof *context,
    };
}
