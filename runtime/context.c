/* Creation and state of contexts, see smol.h. evaluate.c evaluates them. */
#include "runtime/context.h"

#include "common/memory.h"
#include "runtime/model.h"
#include "runtime/prefix.h"

/* --- creation ----------------------------------------------------------------------------- */

static smol_status take_engine(smol_context *c, const smol_context_params *params,
                               smol_error *error)
{
    if (!params->share)
        return smol_engine_create(&c->model->network, params->n_threads, &c->engine, error);
    struct engine *engine = params->share->engine;
    if (engine->network != &c->model->network)
        return smol_fail(error, SMOL_ERROR_USAGE, "share: a context of another model");
    if (params->n_threads && params->n_threads != smol_pool_size(engine->pool))
        return smol_fail(error, SMOL_ERROR_USAGE, "%u threads: the context to share with has %u",
                         params->n_threads, smol_pool_size(engine->pool));
    engine->n_contexts++;
    c->engine = engine;
    return SMOL_OK;
}

smol_status smol_context_kv_type(const smol_model *model, smol_kv kv, enum kv_type *type,
                                 smol_error *error)
{
    static const enum kv_type kv_types[] = {
        [SMOL_KV_F32] = KV_F32,
        [SMOL_KV_F16] = KV_F16,
        [SMOL_KV_INT8] = KV_INT8,
        [SMOL_KV_INT4] = KV_INT4,
    };
    if ((unsigned)kv >= sizeof kv_types / sizeof kv_types[0])
        return smol_fail(error, SMOL_ERROR_USAGE, "kv: %d is not a value of smol_kv", (int)kv);
    if (kv == SMOL_KV_DEFAULT)
        kv = model->blob.model->dtype == DTYPE_F32 ? SMOL_KV_F32 : SMOL_KV_F16;
    *type = kv_types[kv];
    return SMOL_OK;
}

static smol_status init_context(smol_context *c, const smol_context_params *params,
                                smol_error *error)
{
    const struct blob_model *m = c->model->blob.model;
    smol_prefix_cache *prefixes = params->prefix_cache;
    enum kv_type type = KV_F32; /* for the compiler */
    if (params->n_ctx > m->context_length)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "context of %u tokens: the model has at most %u: use a shorter one",
                         params->n_ctx, m->context_length);
    c->capacity = params->n_ctx ? params->n_ctx : m->context_length;
    c->lost_from = SIZE_MAX;
    smol_status status = smol_context_kv_type(c->model, params->kv, &type, error);
    if (!status && prefixes)
        status = prefix_calls(prefixes)->check(prefixes, c->model, type, error);
    if (!status)
        status = smol_kv_init(&c->kv, type, m, c->model->blob.layers, c->capacity, prefixes != NULL,
                              error);
    if (status)
        return status;
    status = smol_state_init(&c->state, m, error);
    if (status)
        return status;
    c->prefixes = prefixes;
    c->prefix_group = params->prefix_group;
    return take_engine(c, params, error);
}

smol_status smol_context_create(const smol_model *model, const smol_context_params *params,
                                smol_context **out, smol_error *error)
{
    static const smol_context_params defaults = {0};
    error_clear(error);
    *out = NULL;
    if (!params)
        params = &defaults;
    smol_status status = CHECK_RESERVED(context_params, params, error);
    if (status)
        return status;
    smol_context *context = smol_calloc(1, sizeof *context);
    if (!context)
        return smol_fail_memory(error, "a context");
    context->model = model;
    context->listener = (struct listener){params->on_progress, params->user};
    status = init_context(context, params, error);
    if (status) {
        smol_context_free(context);
        return status;
    }
    const smol_context_info info = smol_context_get_info(context);
    smol_log(model, SMOL_LOG_INFO,
             "context of %zu tokens: %u thread%s%s, %s kernels, KV cache of %s", context->capacity,
             info.n_threads, info.n_threads == 1 ? "" : "s", params->share ? ", shared" : "",
             info.isa, info.kv);
    *out = context;
    return SMOL_OK;
}

void smol_context_free(smol_context *context)
{
    if (!context)
        return;
    smol_engine_release(context->engine);
    prefix_give_back(context, 0);
    smol_kv_free(&context->kv);
    smol_state_free(&context->state);
    smol_free(context->ids);
    smol_free(context);
}

smol_status smol_context_reserve_ids(smol_context *c, size_t n, smol_error *error)
{
    if (n <= c->ids_room)
        return SMOL_OK;
    size_t room = n < c->capacity / 2 ? 2 * n : c->capacity + 1;
    if (!RESIZE(c->ids, room))
        return smol_fail_memory(error, "the token ids");
    c->ids_room = room;
    return SMOL_OK;
}

smol_status smol_check_tokens(const smol_context *c, const uint32_t *ids, size_t n,
                              smol_error *error)
{
    smol_status status = smol_check_ids(c->model, ids, n, error);
    if (status)
        return status;
    if (n > c->capacity - c->length)
        return smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                         "context is full (%zu of %zu tokens used, %zu more needed): use a longer "
                         "context or a shorter text",
                         c->length, c->capacity, n);
    return SMOL_OK;
}

/* --- cancellation ------------------------------------------------------------------------- */

void smol_context_cancel(smol_context *context, int cancel)
{
    atomic_store_explicit(&context->cancelled, cancel != 0, memory_order_relaxed);
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

void smol_context_cut(smol_context *c, size_t n)
{
    size_t known = n < c->lost_from ? n : c->lost_from, before;
    c->length = n;
    do {
        before = known;
        known = smol_state_cut(&c->state, smol_kv_cut(&c->kv, known));
    } while (known < before);
    c->lost_from = known < n ? known : SIZE_MAX;
}

void smol_context_keep_state(smol_context *c)
{
    const size_t kept[] = {c->before, c->marks[0], c->marks[1]};
    smol_state_keep(&c->state, kept, sizeof kept / sizeof kept[0]);
}

void smol_context_truncate(smol_context *context, size_t n)
{
    if (n < context->length)
        smol_context_cut(context, n);
    if (n < context->n_ids)
        context->n_ids = n;
    prefix_give_back(context, n);
    context->unshared &= n > 0;
}

uint32_t smol_context_pending(const smol_context *context)
{
    return context->n_ids > context->length ? context->ids[context->length] : SMOL_NO_TOKEN;
}

/* Halves `rest` at least once, until it is at most `most`, and returns it. */
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
    error_clear(error);
    size_t length = context->length, capacity = context->capacity;
    size_t kept = n_keep < length ? n_keep : length;
    if (n_room <= capacity - length)
        return SMOL_OK;
    if (n_room > capacity - kept)
        return smol_fail(
            error, SMOL_ERROR_CONTEXT_FULL,
            "context of %zu tokens: no room for %zu after the %zu that are kept: use a "
            "longer context or a shorter text, or keep fewer",
            capacity, n_room, kept);
    if (smol_context_is_cancelled(context)) /* before any token is removed */
        return smol_fail(error, SMOL_ERROR_CANCELLED, "cancelled");
    size_t n = newest_part(length - kept, capacity - kept - n_room);
    smol_log(context->model, SMOL_LOG_INFO,
             "context slides: of %zu tokens it keeps %zu and evaluates the newest %zu anew", length,
             kept, n);
    smol_context_truncate(context, kept);
    return n ? smol_eval(context, context->ids + length - n, n, 0, NULL, error) : SMOL_OK;
}

smol_context_info smol_context_get_info(const smol_context *context)
{
    static const char *const kv_names[KV_TYPES] = {"f32", "f16", "int8", "int4"};
    const struct engine *engine = context->engine;
    return (smol_context_info){
        .n_threads = smol_pool_size(engine->pool),
        .kv = kv_names[context->kv.type],
        .isa = engine->kernels->name,
        .kv_bytes = smol_kv_bytes(&context->kv),
        .state_bytes = smol_engine_bytes(engine) + smol_state_bytes(&context->state) +
                       context->ids_room * sizeof *context->ids + sizeof *context,
    };
}
