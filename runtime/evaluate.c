/* Evaluation of one or more sequences in passes of at most BATCH rows, for logits or hidden states,
 * see smol.h. engine/forward.c has the mathematics. */
#include <string.h>

#include "common/memory.h"
#include "runtime/context.h"
#include "runtime/engine/fpenv.h"
#include "runtime/engine/pass.h"
#include "runtime/model.h"
#include "runtime/pooling.h"
#include "runtime/prefix.h"

/* The most bytes of states that the texts embedded in one call hold, but they may always hold
 * those of one. */
enum { EMBEDDED_STATES = 256 << 20 };

/* One call. Its rows are the tokens of all parts, one part after the other. */
struct evaluation {
    const smol_model *model;
    struct engine *e;
    smol_eval_part *parts; /* (n); error.status is set in parts that failed */
    size_t n;
    size_t at;                       /* the next part */
    size_t kept;                     /* of texts to embed, those before it hold no states */
    smol_eval_part *part_of[BATCH];  /* the part of each segment of the current pass */
    struct pooling *poolings;        /* (n), of the hidden states after the final norm; or NULL */
    bool is_again;                   /* for tokens that the sequence had, for any model */
    const struct observer *observer; /* or NULL */
};

static bool failed(const smol_eval_part *part)
{
    return part->error.status != SMOL_OK;
}

/* --- before the first pass ---------------------------------------------------------------- */

/* Refuses to compute logits with a model of embeddings. */
static smol_status check_use(const struct evaluation *call, smol_error *error)
{
    const struct blob *blob = &call->model->blob;
    bool ranks = blob->embedder.header && blob->embedder.header->score != SCORE_NONE;
    if (!blob->encoder || call->poolings || call->is_again)
        return SMOL_OK;
    if (ranks)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: a reranker, which scores pairs of texts: use smol_tokenize_pair and "
                         "smol_embed, or `smolrun embed --rerank`",
                         blob->path);
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: %s, which computes embeddings and no text: use smol_embed, "
                     "`smolrun embed` or /v1/embeddings",
                     blob->path, blob_sees_ahead(blob) ? "an encoder" : "an embedding model");
}

static smol_status check_part(const struct evaluation *call, const smol_eval_part *part,
                              smol_error *error)
{
    const smol_context *c = part->context;
    smol_status status = CHECK_RESERVED(eval_part, part, error);
    if (status)
        return status;
    if (c->engine != call->e)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "parts[].context: contexts must share, see smol_context_params");
    if (c->part)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "parts[].context: two parts have the same context");
    if (part->n == 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "no tokens to evaluate: pass at least one");
    if (blob_sees_ahead(&c->model->blob) && c->length > 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "an encoder reads whole texts: truncate the context to 0 first");
    if (part->n_logits > part->n)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "n_logits is %zu: at most the number of tokens, %zu", part->n_logits,
                         part->n);
    if (call->poolings && part->n_logits > 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "n_logits is %zu: embeddings come without logits, it must be 0",
                         part->n_logits);
    return smol_check_tokens(c, part->ids, part->n, error);
}

/* Returns how many of the part's tokens are in the sequence. */
static size_t n_done(const smol_eval_part *part)
{
    return part->context->length - part->context->before;
}

/* Restores the sequence that the context had before the evaluation. */
static void go_back(smol_context *c)
{
    if (c->state.n_floats)
        smol_context_cut(c, c->before);
    else
        c->length = c->before;
}

/* Takes what is known of a part's tokens from the cache of prefixes, unless all must be seen, and
 * reserves memory for the others. */
static smol_status begin_tokens(const struct evaluation *call, const smol_eval_part *part,
                                smol_error *error)
{
    smol_context *c = part->context;
    smol_status status = SMOL_OK;
    c->before = c->length;
    c->unshared |= call->observer != NULL;
    if (part->n > 1 && !c->guesses)
        smol_context_keep_state(c);
    if (!call->poolings) { /* else begin_states does it */
        status = smol_state_reserve(&c->state, error);
        if (status)
            return status;
        prefix_extend(c, part->ids, part->n - part->n_logits);
    }
    if (n_done(part) == part->n)
        return SMOL_OK;
    status = prefix_own(c, error);
    if (!status)
        status = smol_kv_reserve(&c->kv, c->length, c->before + part->n, error);
    if (status)
        go_back(c);
    return status;
}

static smol_status evaluate(struct evaluation call, smol_error *error);

/* Evaluates again those tokens of the sequence whose keys, values or states are not there any more.
 * If that fails, they stay lost. */
static smol_status find_lost(smol_context *c, smol_error *error)
{
    size_t from = c->lost_from, length = c->length, n_ids = c->n_ids, n_reused = c->n_reused;
    c->lost_from = SIZE_MAX;
    if (from >= length)
        return SMOL_OK;
    c->length = from;
    smol_eval_part part = {.context = c, .ids = c->ids + from, .n = length - from};
    smol_status status =
        evaluate((struct evaluation){.parts = &part, .n = 1, .is_again = true}, error);
    if (status)
        c->lost_from = from < c->lost_from ? from : c->lost_from;
    c->length = length;
    c->n_ids = n_ids;
    c->n_reused = n_reused; /* what a prompt found is counted */
    return status;
}

/* Checks a part and reserves its memory. */
static smol_status begin_part(const struct evaluation *call, smol_eval_part *part,
                              smol_error *error)
{
    smol_context *c = part->context;
    smol_status status = check_part(call, part, error);
    if (!status)
        status = check_use(call, error);
    if (!status && smol_context_is_cancelled(c))
        status = smol_fail(error, SMOL_ERROR_CANCELLED, "cancelled");
    if (!status)
        status = find_lost(c, error);
    if (!status)
        status = smol_context_reserve_ids(c, c->length + part->n + 1, error);
    if (!status)
        status = begin_tokens(call, part, error);
    if (!status)
        c->part = part;
    return status;
}

/* Begins all parts and stores the errors of those that cannot begin. Errors of the whole call:
 * SMOL_ERROR_MEMORY. */
static smol_status begin_parts(struct evaluation *call, smol_error *error)
{
    size_t n_spans = 0;
    for (size_t i = 0; i < call->n; i++) {
        smol_eval_part *part = &call->parts[i];
        error_clear(&part->error);
        if (!begin_part(call, part, &part->error))
            n_spans += smol_attention_spans(part->context->before + part->n);
    }
    return smol_attention_reserve(call->e, n_spans, error);
}

/* --- passes ------------------------------------------------------------------------------- */

/* Adds the next n tokens of a part to the pass as rows. */
static void add_rows(struct pass *pass, struct evaluation *call, size_t n)
{
    smol_eval_part *from = &call->parts[call->at];
    size_t done = n_done(from);
    struct segment *segment = &pass->segments[pass->n_segments];
    call->part_of[pass->n_segments++] = from;
    smol_state_begin(&from->context->state);
    *segment = (struct segment){
        .kv = &from->context->kv,
        .state = &from->context->state,
        .cancelled = &from->context->cancelled,
        .ids = from->ids + done,
        .n = n,
        .row = pass->n,
        .position = from->context->length,
        .failed = ATOMIC_FLAG_INIT,
        .error = &from->error,
    };
    size_t first_logits = from->n - from->n_logits; /* the first token whose logits are requested */
    for (size_t i = 0; i < n; i++) {
        size_t token = done + i;
        if (token >= first_logits) {
            pass->logits_row[pass->n_logits] = pass->n;
            pass->logits[pass->n_logits++] =
                from->logits + (token - first_logits) * pass->m->vocab_size;
        }
        pass->segment_of[pass->n++] = segment;
    }
}

static void add_ids(smol_context *c, const smol_eval_part *part)
{
    memmove(c->ids + c->before, part->ids, part->n * sizeof *c->ids); /* they may overlap */
}

/* Drops the states of a text that is done. If its sequence continues, they are computed again. */
static void drop_states(const smol_eval_part *part)
{
    smol_context *c = part->context;
    if (c->part != part || c->before > 0)
        return; /* never begun, or a sequence that grows in pieces */
    if (!failed(part))
        add_ids(c, part);
    smol_state_release(&c->state);
    smol_context_cut(c, c->length);
}

/* Provides the states of the next text to embed, for which earlier texts may have to give up
 * theirs. Returns false if those are in the pass, which must end first. */
static bool begin_states(struct evaluation *call, const struct pass *pass)
{
    smol_eval_part *part = &call->parts[call->at];
    struct sequence_state *state = &part->context->state;
    size_t done = pass->n_segments ? (size_t)(call->part_of[0] - call->parts) : call->at;
    if (state->n_floats == 0)
        return true;
    size_t most = EMBEDDED_STATES / (2 * state->n_floats * sizeof(float));
    while (call->kept < done && call->at - call->kept >= most)
        drop_states(&call->parts[call->kept++]);
    if (call->kept < call->at && call->at - call->kept >= most)
        return false;
    smol_state_reserve(state, &part->error);
    return true;
}

/* Fills a pass with the next rows. Returns false if none are left. */
static bool gather_rows(struct evaluation *call, struct pass *pass)
{
    size_t most = call->e->n_rows;
    bool whole = blob_sees_ahead(&call->model->blob), ends = false;
    while (call->at < call->n && !ends && pass->n < most && pass->n_segments < BATCH) {
        smol_eval_part *part = &call->parts[call->at];
        if (call->poolings && !failed(part) && !begin_states(call, pass))
            break;
        size_t left = failed(part) ? 0 : part->n - n_done(part);
        size_t n = left < most - pass->n ? left : most - pass->n;
        ends = smol_state_pass(&part->context->state, n) < n;
        n = smol_state_pass(&part->context->state, n);
        if (whole && n < left)
            break; /* its tokens see each other: it needs one pass */
        if (n > 0)
            add_rows(pass, call, n);
        call->at += n == left;
    }
    return pass->n > 0;
}

/* Drops keys and values that windows have passed, but for those that may be needed if the
 * evaluation fails or the sequence is cut by KV_WINDOW_SPARE or to one of its marks. With states it
 * then continues from the newest ones before, or reads all again if there are none. */
static void drop_passed(smol_context *c)
{
    struct kv_lengths lengths = {.others = {c->before, c->marks[0], c->marks[1]}};
    if (!c->kv.window)
        return;
    lengths.least = c->length > KV_WINDOW_SPARE ? c->length - KV_WINDOW_SPARE : 0;
    size_t known = smol_state_known(&c->state, lengths.least);
    for (size_t i = 0; i < sizeof lengths.others / sizeof lengths.others[0]; i++)
        lengths.others[i] = smol_state_known(&c->state, lengths.others[i]);
    lengths.least = known ? known : lengths.least;
    prefix_drop(c, &lengths);
    smol_kv_drop(&c->kv, &lengths);
}

/* Takes a snapshot of the states at every interval and at the end of several tokens, but not of
 * guesses. Texts to embed are rarely cut back, so they keep only those that a cache of prefixes
 * takes. */
static void keep_state(const struct evaluation *call, const smol_eval_part *part)
{
    smol_context *c = part->context;
    bool at_interval = c->state.position % STATE_INTERVAL == 0;
    bool at_end = part->n > 1 && !c->guesses && n_done(part) == part->n;
    if (call->poolings ? at_interval && c->prefixes : at_interval || at_end)
        smol_context_keep_state(c);
}

/* Reports a part's progress. A cancelled part fails. */
static void settle_part(const struct pass *pass, smol_eval_part *part)
{
    smol_context *c = part->context;
    size_t done = n_done(part), total = part->n;
    bool cancelled = smol_context_is_cancelled(c) || atomic_load(&pass->unfinished);
    if (failed(part) || (!cancelled && done == total))
        return;
    if (cancelled || listener_cancels(&c->listener, done, total))
        smol_fail(&part->error, SMOL_ERROR_CANCELLED, "cancelled at token %zu of %zu", done, total);
}

/* Runs a pass. Restores the caller's floating-point environment before the caller's callbacks
 * run. */
static smol_status run_pass(const struct evaluation *call, struct pass *pass, smol_error *error)
{
    const struct blob *blob = &call->model->blob;
    fenv_t saved;
    atomic_flag_clear(&pass->failed);
    fpenv_enter(&saved);
    smol_status status = smol_forward(pass);
    for (size_t i = 0; call->poolings && i < pass->n_segments; i++)
        smol_pooling_add(&call->poolings[call->part_of[i] - call->parts],
                         pass->e->normed + pass->segments[i].row * pass->m->hidden_size,
                         pass->segments[i].n);
    fpenv_leave(&saved);
    status = file_settle(&blob->file, blob->path, status, error);
    for (size_t i = 0; i < pass->n_segments; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): add_rows set one for each segment */
        smol_context *c = call->part_of[i]->context;
        c->length += pass->segments[i].n;
        smol_state_advance(&c->state, pass->segments[i].n);
        if (!status && !failed(call->part_of[i]) && !atomic_load(&pass->unfinished)) {
            keep_state(call, call->part_of[i]);
            prefix_publish(c);
        }
        drop_passed(c);
        settle_part(pass, call->part_of[i]);
    }
    return status;
}

static smol_status run_passes(struct evaluation *call, smol_error *error)
{
    struct segment segments[BATCH];
    struct pass pass;
    smol_status status = SMOL_OK;
    while (!status) {
        pass.e = call->e;
        pass.m = &call->model->network.model;
        pass.segments = segments;
        pass.segment_of = call->e->segment_of;
        pass.n_segments = pass.n = pass.n_logits = 0;
        pass.observer = call->observer;
        pass.wants_states = call->poolings || (call->observer && call->observer->wants_output);
        atomic_init(&pass.unfinished, false);
        pass.status = SMOL_OK;
        pass.error = error;
        if (!gather_rows(call, &pass))
            break;
        status = run_pass(call, &pass, error);
    }
    return status;
}

/* --- after the last pass ------------------------------------------------------------------ */

/* Restores the length of parts that failed. *whole is the error of the whole call, or SMOL_OK.
 * Returns the status of the first part that failed, and its error in *error. */
static smol_status end_parts(struct evaluation *call, const smol_error *whole, smol_error *error)
{
    const smol_eval_part *first = NULL;
    for (size_t i = 0; i < call->n; i++) {
        smol_eval_part *part = &call->parts[i];
        smol_context *c = part->context;
        if (!failed(part) && whole->status)
            part->error = *whole;
        if (failed(part) && !first)
            first = part;
        c->guesses &= call->is_again; /* while the evaluation continues */
        if (c->part != part)
            continue; /* never begun */
        if (failed(part)) {
            go_back(c);
        } else {
            add_ids(c, part);
            c->n_ids = c->length;
        }
        c->part = NULL;
    }
    if (!first)
        return SMOL_OK;
    if (error)
        *error = first->error;
    return first->error.status;
}

/* Evaluates parts as smol_eval_many does. The caller sets parts, n, and poolings or observer, if
 * any. */
static smol_status evaluate(struct evaluation call, smol_error *error)
{
    smol_error whole;
    error_clear(error);
    error_clear(&whole);
    if (call.n == 0)
        return SMOL_OK;
    call.model = call.parts[0].context->model;
    call.e = call.parts[0].context->engine;
    if (!begin_parts(&call, &whole))
        run_passes(&call, &whole);
    return end_parts(&call, &whole, error);
}

smol_status smol_eval_many(smol_eval_part *parts, size_t n_parts, smol_error *error)
{
    return evaluate((struct evaluation){.parts = parts, .n = n_parts}, error);
}

smol_status smol_eval_observed(smol_context *context, const uint32_t *ids, size_t n,
                               size_t n_logits, float *logits, const struct observer *observer,
                               smol_error *error)
{
    smol_eval_part part = {
        .context = context, .ids = ids, .n = n, .n_logits = n_logits, .logits = logits};
    return evaluate((struct evaluation){.parts = &part, .n = 1, .observer = observer}, error);
}

smol_status smol_eval(smol_context *context, const uint32_t *ids, size_t n, size_t n_logits,
                      float *logits, smol_error *error)
{
    smol_eval_part part = {
        .context = context, .ids = ids, .n = n, .n_logits = n_logits, .logits = logits};
    return smol_eval_many(&part, 1, error);
}

/* --- hidden states ------------------------------------------------------------------------ */

/* Initializes the poolings of all parts, whose results go to `logits`. */
static smol_status begin_poolings(struct pooling *poolings, const smol_eval_part *parts, size_t n,
                                  smol_pooling kind, smol_error *error)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < n && !status; i++)
        status =
            smol_pooling_init(&poolings[i], parts[i].context->model, kind, parts[i].logits, error);
    return status;
}

/* Finishes the poolings of the parts that have not failed. */
static void end_poolings(struct pooling *poolings, const smol_eval_part *parts, size_t n)
{
    fenv_t saved;
    fpenv_enter(&saved);
    for (size_t i = 0; i < n; i++)
        if (!failed(&parts[i]))
            smol_pooling_finish(&poolings[i], parts[i].context->engine->kernels);
    fpenv_leave(&saved);
}

smol_status smol_embed_many(smol_eval_part *parts, size_t n_parts, smol_pooling pooling,
                            smol_error *error)
{
    smol_error whole;
    error_clear(error);
    struct pooling *poolings = smol_calloc(n_parts + 1, sizeof *poolings);
    smol_status status = poolings ? begin_poolings(poolings, parts, n_parts, pooling, &whole)
                                  : smol_fail_memory(&whole, "embeddings");
    if (!status) {
        status = evaluate((struct evaluation){.parts = parts, .n = n_parts, .poolings = poolings},
                          error);
        end_poolings(poolings, parts, n_parts);
    } else {
        for (size_t i = 0; i < n_parts; i++)
            parts[i].error = whole;
        if (error)
            *error = whole;
    }
    for (size_t i = 0; poolings && i < n_parts; i++)
        smol_pooling_free(&poolings[i]);
    smol_free(poolings);
    return status;
}

smol_status smol_embed(smol_context *context, const uint32_t *ids, size_t n, smol_pooling pooling,
                       float *states, smol_error *error)
{
    smol_eval_part part = {.context = context, .ids = ids, .n = n, .logits = states};
    return smol_embed_many(&part, 1, pooling, error);
}
