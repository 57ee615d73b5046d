/* One generation: takes the tokens that follow the evaluated ones and streams their text, until
 * something ends it. */
#include "runtime/generation.h"

#include <string.h>

#include "common/clock.h"
#include "runtime/matcher.h"
#include "runtime/model.h"
#include "runtime/reasoning.h"
#include "runtime/sampler.h"
#include "runtime/tokenizer/tokenizer.h"

static void finish(smol_generation *g, smol_finish why)
{
    g->result.finish = why;
    g->finished = true;
}

/* --- text --------------------------------------------------------------------------------- */

/* Passes text to the caller, who may cancel. */
static void tell(smol_generation *g, const struct stream_text *text, uint32_t id)
{
    const smol_generate_params *params = &g->params;
    if (params->on_text && params->on_text(params->user, text->text, text->size, id))
        finish(g, SMOL_FINISH_CANCELLED);
}

/* Tells the text of a token. Under a matcher it is the token's bytes, which the matcher has
 * accepted: a decoder may omit a blank at the start. */
static smol_status tell_token(smol_generation *g, uint32_t id, smol_error *error)
{
    const struct blob *blob = &g->context->model->blob;
    struct stream_text text;
    struct token_text token = smol_tokenizer_text(&blob->tokenizer, id);
    bool show_special = g->params.show_special == 2 ? smol_reasoning_begins_marker(&token)
                                                    : g->params.show_special != 0;
    size_t shown = token.special && !show_special ? 0 : token.length;
    smol_status status =
        g->params.matcher
            ? smol_stream_push(g->stream, token.bytes, shown, &text, error)
            : smol_stream_token(g->stream, &blob->tokenizer, id, show_special, &text, error);
    status = file_settle(&blob->file, blob->path, status, error); /* it has the bytes */
    if (status)
        return status;
    g->result.stop_text = text.stop;
    if (text.stop > 0)
        finish(g, SMOL_FINISH_STOP);
    tell(g, &text, id);
    return SMOL_OK;
}

/* Passes a token to the caller, with the logits it follows or NULL. */
static void tell_id(const smol_generation *g, uint32_t id, const float *logits)
{
    size_t n = logits ? g->context->model->blob.model->vocab_size : 0;
    if (g->params.on_token)
        g->params.on_token(g->params.user, id, logits, n);
}

/* Passes on the text that was held back in case more tokens follow. */
static smol_status tell_rest(smol_generation *g, smol_error *error)
{
    struct stream_text text;
    smol_status status = smol_stream_finish(g->stream, &text, error);
    if (status)
        return status;
    if (text.stop > 0 && g->result.finish != SMOL_FINISH_CANCELLED) {
        g->result.stop_text = text.stop;
        finish(g, SMOL_FINISH_STOP);
    }
    if (text.size > 0)
        tell(g, &text, SMOL_NO_TOKEN);
    return SMOL_OK;
}

/* --- tokens ------------------------------------------------------------------------------- */

/* Lets the text continue that of the sequence, if there is any: special tokens have none. */
static smol_status join_text(smol_generation *g, smol_error *error)
{
    const smol_context *c = g->context;
    const struct blob *blob = &c->model->blob;
    bool any = false;
    for (size_t i = 0; i < c->n_ids + g->n_prompt && !any; i++) {
        uint32_t id = i < c->n_ids ? c->ids[i] : g->prompt[i - c->n_ids];
        struct token_text token = smol_tokenizer_text(&blob->tokenizer, id);
        any = token.exists && !token.special;
    }
    if (any)
        smol_stream_continue(g->stream);
    return file_settle(&blob->file, blob->path, SMOL_OK, error);
}

smol_status smol_generation_start(smol_generation *g, smol_error *error)
{
    smol_context *c = g->context;
    smol_status status =
        g->params.slide ? smol_context_slide(c, g->params.n_keep, g->n_prompt, error) : SMOL_OK;
    if (status)
        return status;
    g->length = c->marks[0] = c->length;
    g->n_ids = c->n_ids;
    g->n_reused = c->n_reused;
    g->last = c->n_ids ? c->ids[c->n_ids - 1] : 0;
    g->started = true;
    status = smol_check_tokens(c, g->prompt, g->n_prompt, error);
    return status || g->params.new_text ? status : join_text(g, error);
}

/* Restores the context to its state before the prompt. */
static void take_back(smol_generation *g)
{
    smol_context_cut(g->context, g->length);
    g->context->n_ids = g->n_ids;
    if (g->n_ids > 0)
        g->context->ids[g->n_ids - 1] = g->last;
}

static void end_prompt(smol_generation *g)
{
    g->context->marks[1] = g->context->length;
    g->result.n_prompt = g->n_prompt;
    g->result.n_reused = g->context->n_reused - g->n_reused;
    g->result.prompt_seconds = clock_seconds() - g->start;
    g->n_history = g->params.penalize_context ? g->context->length : g->n_prompt;
    memcpy(g->history, g->context->ids + g->context->length - g->n_history,
           g->n_history * sizeof *g->history);
    if (g->params.prompt_only)
        finish(g, SMOL_FINISH_LENGTH);
}

/* Updates the times after a token is sampled. The first token ends the wait; the time until each
 * later one counts as decoding, unless it is a stop token. */
static void take_time(smol_generation *g, bool stop)
{
    double now = clock_seconds();
    if (g->result.n_generated == 0) {
        g->first_token = now;
        g->result.first_token_seconds = now - g->start;
    }
    if (!stop)
        g->result.decode_seconds = now - g->first_token;
}

/* Stores the newest token after the sequence. smol_eval always leaves room for one more id. */
static void put_newest(smol_generation *g, uint32_t id)
{
    g->context->ids[g->context->length] = id;
    g->context->n_ids = g->context->length + 1;
    g->newest = id;
}

/* Slides the full context. The history becomes the context's tokens and the newest token, as if the
 * sequence had started there. */
static smol_status slide(smol_generation *g, smol_error *error)
{
    double start = clock_seconds();
    uint32_t newest = g->history[g->n_history - 1];
    smol_status status = smol_context_slide(g->context, g->params.n_keep, 1, error);
    put_newest(g, newest); /* the token is next even if the slide failed */
    if (status)
        return status;
    const uint32_t *ids = smol_context_ids(g->context, &g->n_history);
    memcpy(g->history, ids, g->n_history * sizeof newest);
    g->history[g->n_history++] = newest;
    g->result.n_slides++;
    g->result.slide_seconds += clock_seconds() - start;
    return SMOL_OK;
}

bool smol_generation_look_ahead(smol_generation *g, uint64_t *work)
{
    smol_matcher *matcher = g->params.matcher;
    smol_reasoning_limit *limit = g->params.reasoning_limit;
    smol_status status = SMOL_OK;
    const uint64_t most = *work;
    *work = 0;
    if (generation_knows_next(g))
        return true;
    g->at_forced = g->n_forced = 0;
    g->next_error.status = SMOL_OK;
    g->has_next = true;
    if (limit)
        status = limit->end(limit, g->forced, FORCED_TOKENS, &g->n_forced, &g->next_error);
    if (status || !matcher || g->n_forced > 0)
        return true;
    struct matcher_next next = {.forced = g->forced, .capacity = FORCED_TOKENS, .mask = g->mask};
    *work = most;
    matcher_calls(matcher)->next(matcher, work, &g->has_next, &next, &g->next_error);
    g->n_forced = g->has_next ? next.n_forced : 0;
    g->may_end = next.complete;
    g->rank += g->has_next ? (g->rank < 0) - (g->rank > 0) : 1;
    return g->has_next;
}

/* Returns whether the matcher's text is complete, and the mask has no token that could follow: a
 * model may have no stop token. */
static bool is_over(const smol_generation *g)
{
    uint64_t any = 0;
    for (size_t i = 0; i < (g->context->model->blob.model->vocab_size + 63) / 64; i++)
        any |= g->mask[i];
    return any == 0 && g->may_end;
}

/* Returns how many tokens at the end of the history have been generated. */
static size_t n_output(const smol_generation *g)
{
    size_t kept = g->result.n_slides > 0 ? g->params.n_keep : 0;
    size_t most = g->n_history > kept ? g->n_history - kept : 0;
    return g->result.n_generated < most ? g->result.n_generated : most;
}

/* Sets *id to the token that must follow, or to a sampled one, or to SMOL_NO_TOKEN at the end, once
 * it is known what may follow. */
static smol_status choose(smol_generation *g, float *logits, uint32_t *id, smol_error *error)
{
    size_t vocab_size = g->context->model->blob.model->vocab_size;
    g->has_next = false;
    if (g->next_error.status) {
        *error = g->next_error;
        return error->status;
    }
    if (generation_n_waiting(g) > 0) {
        *id = g->forced[g->at_forced++];
        return SMOL_OK;
    }
    if (g->params.matcher && is_over(g)) {
        *id = SMOL_NO_TOKEN;
        return SMOL_OK;
    }
    return smol_sampler_choose(g->sampler, logits, vocab_size, g->mask, g->history, g->n_history,
                               n_output(g), id, error);
}

static smol_status accept(smol_generation *g, uint32_t id, smol_error *error)
{
    smol_matcher *matcher = g->params.matcher;
    return matcher ? matcher_calls(matcher)->accept(matcher, id, error) : SMOL_OK;
}

/* Adds an accepted token to the output. `logits` are those that it was chosen from, or NULL. */
static smol_status take_token(smol_generation *g, uint32_t id, const float *logits,
                              smol_error *error)
{
    smol_reasoning_limit *limit = g->params.reasoning_limit;
    g->history[g->n_history++] = id;
    g->result.n_generated++;
    tell_id(g, id, logits);
    smol_status status = tell_token(g, id, error);
    if (!status && limit) {
        struct token_text token = smol_tokenizer_text(&g->context->model->blob.tokenizer, id);
        status = limit->take(limit, &token, error);
    }
    if (!status && !g->finished && g->result.n_generated == g->params.max_tokens)
        finish(g, SMOL_FINISH_LENGTH);
    return status;
}

void smol_generation_choose(smol_generation *g)
{
    g->choice_error.status = choose(g, g->logits, &g->choice, &g->choice_error);
}

/* Does what choose does, or returns what it did before. */
static smol_status take_choice(smol_generation *g, float *logits, uint32_t *id, smol_error *error)
{
    if (!g->has_choice)
        return choose(g, logits, id, error);
    g->has_choice = false;
    *id = g->choice;
    *error = g->choice_error;
    return error->status;
}

/* Does what next_token does, with errors that may only follow from the loss of the blob's bytes. */
static smol_status take_next(smol_generation *g, float *logits, smol_error *error)
{
    uint32_t id;
    bool forced = generation_n_waiting(g) > 0;
    smol_status status = take_choice(g, logits, &id, error);
    if (status)
        return status;
    bool stop = id == SMOL_NO_TOKEN || (!forced && smol_model_is_stop_id(g->context->model, id));
    take_time(g, stop);
    if (stop) {
        if (g->params.all_tokens && id != SMOL_NO_TOKEN)
            tell_id(g, id, logits);
        finish(g, SMOL_FINISH_STOP);
        return SMOL_OK;
    }
    status = accept(g, id, error);
    if (status)
        return status;
    put_newest(g, id);
    status = take_token(g, id, forced ? NULL : logits, error);
    if (status || g->finished)
        return status;
    bool full = smol_context_length(g->context) == smol_context_capacity(g->context);
    if (full && !g->params.slide)
        finish(g, SMOL_FINISH_CONTEXT_FULL);
    else if (full)
        status = slide(g, error);
    return status;
}

/* Takes the token that follows the evaluated ones. `logits` are those after them, and are not read
 * if the token had to follow. */
static smol_status next_token(smol_generation *g, float *logits, smol_error *error)
{
    const struct blob *blob = &g->context->model->blob;
    smol_status status = take_next(g, logits, error);
    return status ? file_settle(&blob->file, blob->path, status, error) : SMOL_OK;
}

/* Takes what follows the n tokens in g->next, which have been evaluated, as far as they are what
 * really follows; nothing is new before the newest one. While a token is reported, the context ends
 * with it, as if the others were still to come; there it stays at the first wrong guess, at a token
 * after which it takes long to find what may follow, or if the generation ends. */
static smol_status next_tokens(smol_generation *g, size_t n, smol_error *error)
{
    smol_context *c = g->context;
    size_t begin = c->length - n, first_guess = n - g->n_guessed, n_right = 0;
    smol_status status = SMOL_OK;
    for (size_t i = g->n_again + 1; i <= n; i++) {
        size_t row = i < first_guess ? 0 : i - first_guess;
        c->length = c->n_ids = begin + i;
        status = next_token(g, g->logits + row * c->model->blob.model->vocab_size, error);
        uint64_t work = g->extra_work;
        bool right = i < n && g->newest == g->next[i];
        if (status || g->finished || !right || smol_context_is_cancelled(c) ||
            !smol_generation_look_ahead(g, &work))
            break;
        n_right += i >= first_guess;
    }
    if (c->length < begin + n)
        smol_context_cut(c, c->length);
    smol_lookup_learn(&g->lookup, g->n_guessed, n_right);
    g->result.n_guessed += g->n_guessed;
    g->result.n_guessed_right += n_right;
    return status;
}
void smol_generation_fail(smol_generation *g, const smol_error *error)
{
    if (g->started && generation_reads_prompt(g))
        take_back(g);
    g->finished = true;
    if (error->status == SMOL_ERROR_CANCELLED)
        g->result.finish = SMOL_FINISH_CANCELLED;
    else
        g->error = *error;
}

/* Passes on the tokens of the prompt that follow the n newest ones, and keeps the logits after the
 * last of these, in case it ends the prompt. */
static void tell_prompt(smol_generation *g, size_t n)
{
    size_t vocab_size = g->context->model->blob.model->vocab_size, first = g->n_read - n;
    if (first == 0)
        tell_id(g, g->prompt[0], NULL);
    for (size_t i = 0; i < n && first + i + 1 < g->n_prompt; i++)
        tell_id(g, g->prompt[first + i + 1], g->logits + i * vocab_size);
    memmove(g->logits, g->logits + (n - 1) * vocab_size, vocab_size * sizeof *g->logits);
}

void smol_generation_advance(smol_generation *g, size_t n)
{
    smol_error error;
    smol_status status = SMOL_OK;
    if (generation_reads_prompt(g)) {
        g->n_read += n;
        if (g->params.all_tokens)
            tell_prompt(g, n);
        if (generation_reads_prompt(g))
            return;
        end_prompt(g);
        n = 1; /* logits of the last token */
    }
    if (!g->finished)
        status = next_tokens(g, n, &error);
    if (!status && g->finished && g->result.finish != SMOL_FINISH_CANCELLED)
        status = tell_rest(g, &error);
    if (status)
        smol_generation_fail(g, &error);
}
