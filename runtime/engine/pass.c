/* Stages, tensors and errors of a pass, see pass.h. */
#include "runtime/engine/pass.h"

#include "common/number.h"

/* Records an error of the whole pass. Errors do not stop a pass, whose reads and writes stay in
 * bounds for any bytes; the first error becomes its result. */
static void note_error(struct pass *pass, const smol_error *error)
{
    if (atomic_flag_test_and_set(&pass->failed))
        return;
    *pass->error = *error;
    pass->status = error->status;
}

void smol_pass_fail_numeric(struct pass *pass, const char *what, size_t layer, size_t t)
{
    struct segment *segment = pass->segment_of[t];
    if (atomic_flag_test_and_set(&segment->failed))
        return;
    smol_fail(
        segment->error, SMOL_ERROR_NUMERIC,
        "%s: NaN or infinity in the %s (layer %zu, position %zu): the model's numbers are out "
        "of range",
        pass->e->network->blob->path, what, layer, pass_position(pass, t));
}

void smol_pass_check_finite(struct pass *pass, const float *x, size_t n, const char *what,
                            size_t layer, size_t t)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = f32_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= 0x7f800000u)
        smol_pass_fail_numeric(pass, what, layer, t);
}

const void *smol_pass_bytes(struct pass *pass, const struct blob_tensor *tensor, uint64_t offset,
                            uint64_t size)
{
    const struct blob *blob = pass->e->network->blob;
    const struct observer *observer = pass->observer;
    smol_error error;
    if (observer && observer->replaced && observer->replaced->role == tensor->role &&
        observer->replaced->layer == tensor->layer)
        return (const uint8_t *)observer->replacement + tensor->expert * tensor->size + offset;
    if (smol_blob_check(blob, tensor->offset + offset, size, &error))
        note_error(pass, &error);
    return blob->file.data + tensor->offset + offset;
}

const float *smol_pass_vector(struct pass *pass, const struct blob_tensor *tensor)
{
    return tensor ? smol_pass_bytes(pass, tensor, 0, tensor->size) : NULL;
}

void smol_pass_each_token(const struct worker *w, token_work *work, size_t layer)
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

void smol_pass_each_range(const struct worker *w, size_t total, size_t per_thread, range_work *work,
                          const void *argument)
{
    size_t n = w->thread->n_threads * per_thread;
    n = n < total ? n : total;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n);
    while (smol_pool_claim(&stage)) {
        size_t begin, end;
        pool_share(total, stage.item, n, &begin, &end);
        work(w->pass, argument, begin, end);
    }
}
