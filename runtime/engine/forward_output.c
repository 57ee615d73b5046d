/* Where a forward pass ends: the last norm, then the output layer and the logits. */
#include "runtime/engine/forward.h"

/* The output layer's input takes two int8 rows: the quantized row, then, quantized again, what the
 * first left over; false: there is a NaN or infinity. The logits see every bit of this row, and the
 * product is bound by the weights' bytes, which are read once for both (docs/decisions.md has
 * the figures). */
static bool prepare_fine(const struct pass *pass, const struct input *input, size_t t, float *row)
{
    const struct kernels *kernels = pass->e->kernels;
    const struct quantized *q = &input->quantized;
    bool finite = kernels->quantize(row, input->width, q, 2 * t);
    for (size_t i = 0; i < input->width; i++) {
        size_t quad = i / 4, group = i / GROUP_INPUTS;
        int8_t step = q->steps[(quad * q->stride + 2 * t) * 4 + i % 4];
        row[i] -= (float)step * q->scales[group * q->stride + 2 * t];
    }
    return finite && kernels->quantize(row, input->width, q, 2 * t + 1);
}

/* Logits [from, from + n) of those that are wanted. */
static void output(const struct worker *w, size_t from, size_t n)
{
    struct pass *pass = w->pass;
    struct engine *e = pass->e;
    const struct layer *outer = &e->model->outer;
    size_t hidden = pass->m->hidden_size;
    bool pairs = pass->m->dtype == DTYPE_INT8;
    const struct input normed = smol_input(e->normed, pairs ? 2 * n : n, hidden, e->normed_q);
    const struct product head = {outer->tensor[ROLE_OUTPUT], .out_rows = pass->logits + from,
                                 .pairs = pairs};
    const float *weight = smol_pass_vector(pass, outer->tensor[ROLE_FINAL_NORM]);
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)n);
    while (smol_pool_claim(&stage)) {
        size_t t = stage.item;
        float *row = e->normed + t * hidden;
        e->kernels->rms_norm(e->x + pass->logits_row[from + t] * hidden, weight, hidden,
                             pass->m->rms_norm_eps, row);
        if (pairs && !prepare_fine(pass, &normed, t, row))
            smol_pass_fail_numeric(pass, "output layer's input", pass->m->n_layers,
                                   pass->logits_row[from + t]);
    }
    smol_multiply(w, &normed, &head, 1);
}

/* Divides and caps the logits. A NaN or infinity among them is an error; it must not look like an
 * answer, as it would behind a cap. */
static void finish_logits(const struct worker *w)
{
    struct pass *pass = w->pass;
    const struct blob_model *m = pass->m;
    struct pool_stage stage = pool_stage(w->thread, (uint32_t)pass->n_logits);
    while (smol_pool_claim(&stage)) {
        float *logits = pass->logits[stage.item];
        for (size_t i = 0; m->logit_divisor != 1 && i < m->vocab_size; i++)
            logits[i] /= m->logit_divisor;
        smol_pass_check_finite(pass, logits, m->vocab_size, "logits", m->n_layers,
                               pass->logits_row[stage.item]);
        if (m->logit_softcap > 0)
            pass->e->kernels->softcap(logits, m->vocab_size, m->logit_softcap);
    }
}

/* A row's hidden state behind the final norm. */
static void finish_state(struct pass *pass, size_t layer, size_t t)
{
    const struct engine *e = pass->e;
    size_t hidden = pass->m->hidden_size;
    const float *weight = smol_pass_vector(pass, e->model->outer.tensor[ROLE_FINAL_NORM]);
    float *state = e->normed + t * hidden;
    e->kernels->rms_norm(e->x + t * hidden, weight, hidden, pass->m->rms_norm_eps, state);
    smol_pass_check_finite(pass, state, hidden, "hidden state", layer, t);
}

/* In parts small enough for their pairs of rows. */
void smol_forward_output(const struct worker *w)
{
    struct pass *pass = w->pass;
    if (pass->wants_states)
        smol_pass_each_token(w, finish_state, pass->m->n_layers);
    for (size_t done = 0; done < pass->n_logits; done += BATCH / 2) {
        size_t rest = pass->n_logits - done;
        output(w, done, rest < BATCH / 2 ? rest : BATCH / 2);
    }
    finish_logits(w);
}
