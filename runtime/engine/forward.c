/* The forward pass of a Llama model (Touvron et al., 2023: RMSNorm, RoPE, grouped-query attention,
 * SwiGLU) and of related families (FORMAT.md, 5.1), from top to bottom: embedding, the two blocks
 * of each layer (mixer.h, mlp.h), output.
 *
 * All threads run the same function, a sequence of stages (common/pool.h). A stage splits its work
 * by token, by attention head or by block of output rows, never within a sum, so the number of
 * threads cannot change a bit of the result. */
#include "runtime/engine/pass.h"

#include <string.h>

#include "common/number.h"
#include "runtime/engine/attention.h"
#include "runtime/engine/fpenv.h"
#include "runtime/engine/inputs.h"
#include "runtime/engine/mixer.h"
#include "runtime/engine/mlp.h"
#include "runtime/engine/residual.h"

/* --- output ---------------------------------------------------------------------------------- */

/* Quantizes row t of the output layer's n rows in two steps: to row t the row, and to row n + t the
 * remainder, which the rounding left. Returns false if it has a NaN or infinity. Every bit of this
 * row affects the logits, and the time of the product depends on the weights' bytes, which are read
 * once for both (docs/decisions.md has the measurements). */
static bool quantize_twice(const struct pass *pass, const struct product_input *input, size_t t,
                           float *row)
{
    const struct kernels *kernels = pass->e->kernels;
    const struct quantized *q = &input->quantized;
    bool finite = kernels->quantize(row, input->width, q, t);
    for (size_t i = 0; i < input->width; i++) {
        size_t at = i / GROUP_INPUTS * q->stride + t;
        int8_t step = q->steps[at * GROUP_INPUTS + i % GROUP_INPUTS];
        row[i] -= (float)step * q->scales[at];
    }
    return finite && kernels->quantize(row, input->width, q, input->n / 2 + t);
}

/* Computes the requested logits [from, from + n). */
static void compute_logits(const struct worker *w, size_t from, size_t n)
{
    struct pass *pass = w->pass;
    struct engine *e = pass->e;
    const struct layer *outer = &e->network->outer;
    size_t hidden = pass->m->hidden_size;
    bool remainders = pass->m->dtype == DTYPE_INT8;
    const struct product_input normed =
        smol_input(e->normed, remainders ? 2 * n : n, hidden, e->normed_q);
    const struct product head = {outer->tensor[ROLE_OUTPUT], .out_rows = pass->logits + from,
                                 .remainders = remainders};
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n);
    while (smol_pool_claim(&stage)) {
        size_t t = stage.item;
        float *row = e->normed + t * hidden;
        smol_normalize(pass, outer, ROLE_FINAL_NORM, e->x + pass->logits_row[from + t] * hidden,
                       row);
        if (remainders && !quantize_twice(pass, &normed, t, row))
            smol_pass_fail_numeric(pass, "output layer's input", pass->m->n_layers,
                                   pass->logits_row[from + t]);
    }
    smol_multiply(w, &normed, &head, 1);
}

/* Adds the bias, if any, to the logits, divides and caps them. A NaN or infinity among them is an
 * error, checked before the cap, which would turn it into an ordinary number. */
static void finish_logits(const struct worker *w)
{
    struct pass *pass = w->pass;
    const struct blob_model *m = pass->m;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)pass->n_logits);
    while (smol_pool_claim(&stage)) {
        float *logits = pass->logits[stage.item];
        const float *bias =
            smol_pass_vector(pass, pass->e->network->outer.tensor[ROLE_OUTPUT_BIAS]);
        for (size_t i = 0; bias && i < m->vocab_size; i++)
            logits[i] += bias[i];
        for (size_t i = 0; m->logit_divisor != 1 && i < m->vocab_size; i++)
            logits[i] /= m->logit_divisor;
        smol_pass_check_finite(pass, logits, m->vocab_size, "logits", m->n_layers,
                               pass->logits_row[stage.item]);
        if (m->logit_softcap > 0)
            pass->e->kernels->softcap(logits, m->vocab_size, m->logit_softcap);
    }
}

/* Computes a row's hidden state after the final norm. */
static void finish_state(struct pass *pass, size_t layer, size_t t)
{
    const struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    float *state = e->normed + t * hidden;
    smol_normalize(pass, &e->network->outer, ROLE_FINAL_NORM, e->x + t * hidden, state);
    smol_pass_check_finite(pass, state, hidden, "hidden state", layer, t);
}

/* Computes the requested hidden states and logits. Logits are computed for at most BATCH / 2 rows
 * at a time, which with their remainders are at most BATCH. */
static void finish_pass(const struct worker *w)
{
    struct pass *pass = w->pass;
    if (pass->wants_states) {
        const struct engine *e = pass->e;
        const struct product_input states =
            smol_input(e->normed, pass->n, pass->m->hidden_size, e->normed_q);
        smol_pass_each_token(w, finish_state, pass->m->n_layers);
        smol_input_observe(w, (struct stats_place){STATS_OUTPUT, pass->m->n_layers, 0}, &states);
    }
    for (size_t done = 0; done < pass->n_logits; done += BATCH / 2) {
        size_t rest = pass->n_logits - done;
        compute_logits(w, done, rest < BATCH / 2 ? rest : BATCH / 2);
    }
    finish_logits(w);
}

/* Hands row t of the residual stream to the observer. */
static void keep_token(struct pass *pass, size_t layer, size_t t)
{
    (void)layer;
    size_t hidden = pass->m->hidden_size;
    memcpy(pass->observer->after + t * hidden, pass->e->x + t * hidden, hidden * sizeof(float));
}

/* --- the pass -------------------------------------------------------------------------------- */

/* Returns whether all sequences are cancelled. A thread that finds this leaves the pass between two
 * layers; the others do its share until they find it too. */
static bool is_cancelled(struct pass *pass)
{
    for (size_t i = 0; i < pass->n_segments; i++)
        if (!atomic_load_explicit(pass->segments[i].cancelled, memory_order_relaxed))
            return false;
    atomic_store(&pass->unfinished, true);
    return true;
}

/* Runs a layer. In a parallel one the MLP reads the residual stream before attention adds to it. A
 * block that the layer lacks does nothing. */
static void run_layer(const struct worker *w, size_t layer)
{
    bool parallel = w->pass->m->blocks & BLOCK_PARALLEL;
    bool has_mlp = layer_has_mlp(w->pass->m, (uint32_t)layer);
    smol_mixer_read(w, layer);
    if (parallel)
        smol_mlp_read(w, layer);
    smol_mixer_write(w, layer);
    if (!parallel && has_mlp)
        smol_mlp_read(w, layer);
    if (has_mlp)
        smol_mlp_write(w, layer);
    smol_inputs_add(w, layer);
}

static void run_layers(void *argument, struct pool_thread *thread)
{
    struct pass *pass = argument;
    const struct worker worker = {pass, thread};
    const struct observer *observer = pass->observer;
    size_t first = observer ? observer->first_layer : 0;
    size_t end = observer ? observer->n_layers : pass->m->n_layers;
    bool cancelled = false;
    fenv_t saved;
    fpenv_enter(&saved);
    smol_inputs_start(&worker, first);
    for (size_t layer = first; layer < end && !cancelled; layer++) {
        run_layer(&worker, layer);
        cancelled = is_cancelled(pass);
    }
    if (observer && observer->after)
        smol_pass_each_token(&worker, keep_token, end);
    if (!cancelled)
        finish_pass(&worker);
    fpenv_leave(&saved);
}

smol_status smol_forward(struct pass *pass)
{
    smol_attention_place(pass);
    smol_pool_run(pass->e->pool, run_layers, pass);
    return pass->status;
}
