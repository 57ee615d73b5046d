/* The generation loop, see smol.h: evaluate, sample, stream, until something ends it. */
#include <stdbool.h>
#include <string.h>

#include "common/memory.h"
#include "runtime/clock.h"
#include "runtime/context.h"
#include "runtime/report.h"
#include "runtime/stream.h"

struct generation {
    smol_context *context;
    smol_sampler *sampler;
    const smol_generate_params *params;
    smol_generate_result *result;
    struct stream *stream;
    float *logits;     /* (vocab_size): after the newest token */
    uint32_t *history; /* prompt and output */
    size_t n_history;
    bool finished; /* result->finish says why */
    double start, first_token;
};

static void finish(struct generation *g, smol_finish why)
{
    g->result->finish = why;
    g->finished = true;
}

/* --- text --------------------------------------------------------------------------------- */

/* Hands text to the caller, who may cancel. */
static void tell(struct generation *g, const struct stream_text *text, uint32_t id)
{
    const smol_generate_params *params = g->params;
    if (params->on_text && params->on_text(params->user, text->text, text->size, id))
        finish(g, SMOL_FINISH_CANCELLED);
}

static smol_status tell_token(struct generation *g, uint32_t id, smol_error *error)
{
    const struct blob *blob = &g->context->model->blob;
    struct stream_text text;
    struct error detail;
    enum status status = smol_stream_token(g->stream, &blob->tokenizer, id,
                                           g->params->show_special != 0, &text, &detail);
    status = file_settle(&blob->file, blob->path, status, &detail); /* the bytes lie in the file */
    if (status)
        return report(error, status, &detail);
    if (text.stopped)
        finish(g, SMOL_FINISH_STOP);
    tell(g, &text, id);
    return SMOL_OK;
}

/* The text that was held back in case more tokens come. */
static smol_status tell_rest(struct generation *g, smol_error *error)
{
    struct stream_text text;
    struct error detail;
    enum status status = smol_stream_finish(g->stream, &text, &detail);
    if (status)
        return report(error, status, &detail);
    if (text.size > 0)
        tell(g, &text, SMOL_NO_TOKEN);
    return SMOL_OK;
}

/* --- tokens ------------------------------------------------------------------------------- */

static smol_status evaluate_prompt(struct generation *g, const uint32_t *prompt, size_t n,
                                   smol_error *error)
{
    smol_status status = SMOL_OK;
    if (g->params->slide)
        status = smol_context_slide(g->context, g->params->n_keep, n, error);
    if (!status)
        status = smol_eval(g->context, prompt, n, 1, g->logits, error);
    if (status)
        return status;
    g->result->n_prompt = n;
    g->result->prompt_seconds = clock_seconds() - g->start;
    g->n_history = g->params->penalize_context ? g->context->length : n;
    memcpy(g->history, g->context->ids + g->context->length - g->n_history,
           g->n_history * sizeof *g->history);
    return SMOL_OK;
}

static bool is_stop_id(const struct generation *g, uint32_t id)
{
    size_t n;
    const uint32_t *stop = smol_model_stop_ids(g->context->model, &n);
    for (size_t i = 0; i < n; i++)
        if (stop[i] == id)
            return true;
    return false;
}

/* Called when a token was sampled: the first one ends the wait, the time up to the others counts
 * as decoding unless it brought a stop token. */
static void take_time(struct generation *g, bool stop)
{
    double now = clock_seconds();
    if (g->result->n_generated == 0) {
        g->first_token = now;
        g->result->first_token_seconds = now - g->start;
    }
    if (!stop)
        g->result->decode_seconds = now - g->first_token;
}

/* The context is full: it slides. The history becomes what the context holds and the newest token,
 * as it would be had it begun there. */
static smol_status slide(struct generation *g, smol_error *error)
{
    double start = clock_seconds();
    uint32_t newest = g->history[g->n_history - 1];
    smol_status status = smol_context_slide(g->context, g->params->n_keep, 1, error);
    if (status)
        return status;
    const uint32_t *ids = smol_context_ids(g->context, &g->n_history);
    memcpy(g->history, ids, g->n_history * sizeof newest);
    g->history[g->n_history++] = newest;
    g->result->n_slides++;
    g->result->slide_seconds += clock_seconds() - start;
    return SMOL_OK;
}

static smol_status next_token(struct generation *g, smol_error *error)
{
    uint32_t id;
    size_t vocab_size = g->context->model->blob.model->vocab_size;
    smol_status status =
        smol_sample(g->sampler, g->logits, vocab_size, g->history, g->n_history, &id, error);
    if (status)
        return status;
    bool stop = is_stop_id(g, id);
    take_time(g, stop);
    if (stop) {
        finish(g, SMOL_FINISH_STOP);
        return SMOL_OK;
    }
    g->history[g->n_history++] = id;
    g->context->ids[g->context->length] = id; /* room for one more is there after each smol_eval */
    g->context->n_ids = g->context->length + 1;
    g->result->n_generated++;
    status = tell_token(g, id, error);
    if (status || g->finished)
        return status;
    bool full = smol_context_length(g->context) == smol_context_capacity(g->context);
    if (g->result->n_generated == g->params->max_tokens)
        finish(g, SMOL_FINISH_LENGTH);
    else if (full && !g->params->slide)
        finish(g, SMOL_FINISH_CONTEXT_FULL);
    else if (full)
        status = slide(g, error);
    if (!status && !g->finished)
        status = smol_eval(g->context, &id, 1, 1, g->logits, error);
    return status;
}

/* --- the whole ---------------------------------------------------------------------------- */

/* Every token but the last takes a place in the context, which bounds the history. */
static enum status prepare(struct generation *g, size_t n_prompt, struct error *error)
{
    size_t capacity = smol_context_capacity(g->context);
    size_t room = capacity - smol_context_length(g->context) + 1;
    size_t most = g->params->max_tokens < room ? g->params->max_tokens : room;
    size_t before = g->params->penalize_context ? smol_context_length(g->context) : 0;
    size_t n_history = g->params->slide ? capacity + 1 : before + n_prompt + most;
    if (g->params->slide && g->params->n_keep >= capacity) {
        smol_fail(error, STATUS_USAGE, "%zu tokens to keep of a context of %zu: keep fewer",
                  g->params->n_keep, capacity);
        return STATUS_USAGE; /* as analyzers can see */
    }
    g->logits = smol_calloc(g->context->model->blob.model->vocab_size, sizeof *g->logits);
    g->history = smol_calloc(n_history, sizeof *g->history);
    if (!g->logits || !g->history)
        return smol_fail_memory(error, "generation");
    return smol_stream_create(g->params->stop, g->params->n_stop, &g->stream, error);
}

static smol_status run(struct generation *g, const uint32_t *prompt, size_t n, smol_error *error)
{
    smol_status status = evaluate_prompt(g, prompt, n, error);
    if (!status && g->params->max_tokens == 0)
        finish(g, SMOL_FINISH_LENGTH);
    while (!status && !g->finished)
        status = next_token(g, error);
    if (status == SMOL_ERROR_CANCELLED) {
        finish(g, SMOL_FINISH_CANCELLED);
        return SMOL_OK;
    }
    if (!status && g->result->finish != SMOL_FINISH_CANCELLED)
        status = tell_rest(g, error);
    return status;
}

static smol_status generate(smol_context *context, smol_sampler *sampler, const uint32_t *prompt,
                            size_t n, const smol_generate_params *params,
                            smol_generate_result *result, smol_error *error)
{
    struct generation g = {.context = context,
                           .sampler = sampler,
                           .params = params,
                           .result = result,
                           .start = clock_seconds()};
    struct error detail;
    *result = (smol_generate_result){0};
    enum status prepared = prepare(&g, n, &detail);
    smol_status status = prepared ? report(error, prepared, &detail) : run(&g, prompt, n, error);
    if (!status)
        report(error, STATUS_OK, NULL);
    smol_stream_free(g.stream);
    smol_free(g.history);
    smol_free(g.logits);
    return status;
}

/* The last id of the sequence becomes the prompt: its logits are not kept. */
static smol_status go_on(smol_context *context, smol_sampler *sampler,
                         const smol_generate_params *params, smol_generate_result *result,
                         smol_error *error)
{
    struct error detail;
    size_t length = context->length, n_ids = context->n_ids;
    *result = (smol_generate_result){0};
    if (n_ids == 0)
        return report(error,
                      smol_fail(&detail, STATUS_USAGE, "nothing to go on from: give a prompt"),
                      &detail);
    uint32_t last = context->ids[n_ids - 1];
    smol_context_truncate(context, n_ids - 1);
    smol_status status = generate(context, sampler, &last, 1, params, result, error);
    if (status && context->length == n_ids - 1) { /* nothing was changed but that */
        context->length = length;
        context->n_ids = n_ids;
    }
    return status;
}

smol_status smol_generate(smol_context *context, smol_sampler *sampler, const uint32_t *prompt,
                          size_t n, const smol_generate_params *params,
                          smol_generate_result *result, smol_error *error)
{
    if (n == 0)
        return go_on(context, sampler, params, result, error);
    return generate(context, sampler, prompt, n, params, result, error);
}
