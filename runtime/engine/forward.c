/* The forward pass: that of a Llama model (Touvron et al., 2023: RMSNorm,
 * RoPE, grouped-query attention, SwiGLU), and what related families do otherwise (FORMAT.md, 5.1).
 *
 * All threads run the same function, a sequence of stages (common/pool.h). */
#include "runtime/engine/forward.h"

#include "runtime/engine/attention.h"
#include "runtime/engine/fpenv.h"

/* Whether nobody waits for the pass any more. A thread that finds so leaves it between two stages,
 * of which the others, until they find so too, do its share. */
static bool is_cancelled(struct pass *pass)
{
    for (size_t i = 0; i < pass->n_parts; i++)
        if (!smol_context_is_cancelled(pass->parts[i].context))
            return false;
    atomic_store(&pass->unfinished, true);
    return true;
}

static void run(void *argument, struct pool_thread *thread)
{
    struct pass *pass = argument;
    const struct worker worker = {pass, thread};
    fenv_t saved;
    fpenv_enter(&saved);
    smol_forward_embedding(&worker);
    bool cancelled = false;
    for (size_t layer = 0; layer < pass->m->n_layers && !cancelled; layer++) {
        smol_forward_attention(&worker, layer);
        smol_forward_mlp(&worker, layer);
        cancelled = is_cancelled(pass);
    }
    if (!cancelled)
        smol_forward_output(&worker);
    fpenv_leave(&saved);
}

smol_status smol_forward(struct pass *pass)
{
    smol_attention_place(pass);
    smol_pool_run(pass->e->pool, run, pass);
    return pass->status;
}
