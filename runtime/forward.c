/* The forward pass for a batch of tokens: that of a Llama model (Touvron et al., 2023: RMSNorm,
 * RoPE, grouped-query attention, SwiGLU), and what related families do otherwise (FORMAT.md, 5.1).
 *
 * All threads run the same function, a sequence of stages (common/pool.h). */
#include "runtime/forward.h"

#include "runtime/fpenv.h"

static void run(void *argument, struct pool_thread *thread)
{
    struct pass *pass = argument;
    const struct worker worker = {pass, thread};
    fenv_t saved;
    fpenv_enter(&saved);
    smol_forward_embedding(&worker);
    for (size_t layer = 0; layer < pass->m->n_layers; layer++) {
        smol_forward_attention(&worker, layer);
        smol_forward_mlp(&worker, layer);
    }
    smol_forward_output(&worker);
    fpenv_leave(&saved);
}

enum status smol_forward(struct smol_context *context, const uint32_t *ids, size_t n,
                         size_t n_logits, float *logits, struct error *error)
{
    struct pass pass = {
        .c = context,
        .m = &context->model->filled,
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
