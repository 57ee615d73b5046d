/* Generation, see smol.h: evaluates, samples and streams one sequence, or several in step, until a
 * stop condition ends each. */
#include <stdbool.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "runtime/context.h"
#include "runtime/lookup.h"
#include "runtime/matcher.h"
#include "runtime/model.h"
#include "runtime/prefix.h"
#include "runtime/reasoning.h"
#include "runtime/sampler.h"
#include "runtime/tokenizer/stream.h"
#include "runtime/tokenizer/tokenizer.h"

enum { FORCED_TOKENS = BATCH / 4 }; /* tokens, so that several generations share a pass */
enum { PROMPT_SHARE = 2 };          /* a step's least tokens of prompts for each that decodes */
enum { MOST_LOGITS = 1 + LOOKUP_TOKENS };

/* Steps of a matcher's work on what may follow, within one step of several generations: a few
 * milliseconds. One that needs more gets no token in this step. */
enum { STEP_WORK = 1 << 16, EXTRA_WORK = STEP_WORK / 8 };

struct smol_generation {
    smol_context *context;
    smol_sampler *sampler;
    smol_generate_params params; /* its stop strings belong to the stream */
    smol_generate_result result;
    smol_error error; /* error that ended the generation, or SMOL_OK */
    struct stream *stream;
    float *logits;     /* (1 or, with lookup or all_tokens, MOST_LOGITS, vocab_size) */
    uint32_t *history; /* prompt and output */
    size_t n_history;
    bool started, finished; /* finished: result.finish or error has the reason */
    uint32_t *prompt;       /* (n_prompt) */
    size_t n_prompt, n_read;
    size_t n_reused;                /* by the context, before the prompt */
    uint32_t newest;                /* token to evaluate next, once the prompt is read */
    uint32_t forced[FORCED_TOKENS]; /* tokens that must follow the newest one */
    size_t n_forced, at_forced;     /* those before at_forced are in the history */
    /* what may follow, if has_next, or why it could not be found */
    bool has_next, may_end;
    uint64_t *mask; /* (vocab_size bits), with a matcher */
    smol_error next_error;
    uint64_t extra_work; /* for what may follow a further token of the step */
    int64_t rank; /* falls to 0; one more after work that was not enough, one less after none */
    struct lookup lookup;
    /* tokens to evaluate together: the last n_again of the sequence, the newest, those that must
     * follow it, n_guessed guesses */
    uint32_t next[1 + LOOKUP_TOKENS + 1 + FORCED_TOKENS + LOOKUP_TOKENS];
    size_t n_again, n_guessed;
    /* the token after the newest one, if it was chosen before its turn, or why it could not be */
    bool has_choice;
    uint32_t choice;
    smol_error choice_error;
    /* state of the context before the prompt */
    size_t length, n_ids;
    uint32_t last; /* id number n_ids - 1 */
    double start, first_token;
};

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
    if (text.stopped)
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

/* Runs before the first token of the prompt is read: records the context's state and checks that
 * the whole prompt fits. */
static smol_status start(smol_generation *g, smol_error *error)
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

static size_t n_waiting(const smol_generation *g)
{
    return g->n_forced - g->at_forced;
}

static bool knows_next(const smol_generation *g)
{
    return g->has_next || n_waiting(g) > 0;
}

/* Finds what may follow the newest token, with about *work steps of work, unless it is known. Sets
 * *work to those it took. Returns whether they were enough. */
static bool look_ahead(smol_generation *g, uint64_t *work)
{
    smol_matcher *matcher = g->params.matcher;
    smol_reasoning_limit *limit = g->params.reasoning_limit;
    smol_status status = SMOL_OK;
    const uint64_t most = *work;
    *work = 0;
    if (knows_next(g))
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
    if (n_waiting(g) > 0) {
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
    bool forced = n_waiting(g) > 0;
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
            !look_ahead(g, &work))
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

/* --- steps -------------------------------------------------------------------------------- */

static bool reads_prompt(const smol_generation *g)
{
    return g->n_read < g->n_prompt;
}

static void fail(smol_generation *g, const smol_error *error)
{
    if (g->started && reads_prompt(g))
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

/* Continues after n of its tokens have been evaluated. */
static void advance(smol_generation *g, size_t n)
{
    smol_error error;
    smol_status status = SMOL_OK;
    if (reads_prompt(g)) {
        g->n_read += n;
        if (g->params.all_tokens)
            tell_prompt(g, n);
        if (reads_prompt(g))
            return;
        end_prompt(g);
        n = 1; /* logits of the last token */
    }
    if (!g->finished)
        status = next_tokens(g, n, &error);
    if (!status && g->finished && g->result.finish != SMOL_FINISH_CANCELLED)
        status = tell_rest(g, &error);
    if (status)
        fail(g, &error);
}

/* Takes the last tokens of the sequence whose states are lost, because a guess after them was
 * wrong, into the next pass: smol_eval would read them in one of their own. */
static void take_again(smol_generation *g, size_t room)
{
    smol_context *c = g->context;
    size_t n = c->lost_from < c->length ? c->length - c->lost_from : 0;
    g->n_again = n <= 1 + LOOKUP_TOKENS && n < room ? n : 0;
    if (g->n_again == 0)
        return;
    c->length = c->lost_from;
    c->lost_from = SIZE_MAX;
    memcpy(g->next, c->ids + c->length, n * sizeof *g->next);
}

/* Restores what take_again has changed, after the pass has failed. */
static void lose_again(smol_generation *g)
{
    smol_context *c = g->context;
    if (g->n_again > 0 && c->lost_from > c->length)
        c->lost_from = c->length;
    c->length += g->n_again;
    g->n_again = 0;
}

/* Continues after the evaluation of a part. A wrong guess may have caused an error that the output
 * does not have: then the next step does without. */
static void settle(smol_generation *g, const smol_eval_part *part)
{
    if (!part->error.status) {
        advance(g, part->n);
        return;
    }
    lose_again(g);
    if (g->n_guessed > 0 && part->error.status != SMOL_ERROR_CANCELLED) {
        g->params.lookup = 0;
        g->n_guessed = 0;
    } else {
        fail(g, &part->error);
    }
}

/* Takes what is known of the rest of the prompt, but for its last token, from the cache of
 * prefixes.
 */
static void reuse(smol_generation *g)
{
    smol_context *c = g->context;
    const uint32_t *rest = g->prompt + g->n_read;
    size_t n = g->n_prompt - g->n_read, before = c->length;
    smol_error ignored; /* the evaluation needs the same memory and reports the error */
    if (!c->prefixes || smol_context_reserve_ids(c, c->length + n + 1, &ignored))
        return;
    prefix_extend(c, rest, n - 1);
    size_t n_found = c->length - before;
    if (n_found == 0)
        return;
    memcpy(c->ids + before, rest, n_found * sizeof *rest);
    c->n_ids = c->length;
    g->n_read += n_found;
}

/* Returns whether `other`, whose prompt is read in this step too, reads a block of the prompt of g
 * and will share it, or a part of it. With states, only whole intervals are shared. */
static bool reads_for(const smol_generation *other, const smol_generation *g)
{
    const smol_context *c = g->context, *o = other->context;
    const bool states = c->state.n_floats > 0;
    const size_t size = states ? STATE_INTERVAL : KV_BLOCK;
    size_t at = g->n_read > other->n_read ? g->n_read : other->n_read;
    size_t start = at / size * size, end = start + size, last = g->n_prompt - 1;
    size_t common = end < last ? end : last;
    return c->prefixes && c->prefixes == o->prefixes && c->prefix_group == o->prefix_group &&
           g->length == 0 && other->length == 0 && g->n_read % KV_BLOCK == 0 && start < last &&
           end <= other->n_prompt && common > g->n_read && (!states || common == end) &&
           memcmp(g->prompt, other->prompt, common * sizeof *g->prompt) == 0;
}

/* Returns whether g should wait for one of the other prompts of a step, rather than evaluate the
 * same. It takes what that one has read in the next step. */
static bool should_wait(const smol_generation *g, smol_generation *const *others, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (reads_prompt(others[i]) && reads_for(others[i], g))
            return true;
    return false;
}

/* Adds at most `most` guesses to the n tokens in g->next. Returns how many. */
static size_t guess(smol_generation *g, size_t n, size_t most)
{
    smol_context *c = g->context;
    smol_error ignored; /* without memory, there is no guess */
    if (smol_context_reserve_ids(c, c->length + n, &ignored))
        return 0;
    memcpy(c->ids + c->length, g->next, n * sizeof *g->next);
    return smol_lookup_guess(&g->lookup, c->ids, c->length + n, g->next + n, most);
}

/* Returns the next tokens of the prompt as a part, at most `room`. */
static smol_eval_part prompt_part(smol_generation *g, size_t room)
{
    size_t left = g->n_prompt - g->n_read, n = left < room ? left : room;
    if (g->params.all_tokens && n > MOST_LOGITS)
        n = MOST_LOGITS;
    return (smol_eval_part){.context = g->context,
                            .ids = g->prompt + g->n_read,
                            .n = n,
                            .n_logits = g->params.all_tokens ? n : n == left,
                            .logits = g->logits};
}

/* Returns the next tokens after the prompt as a part: the newest one, those that must follow it and
 * at most n_guesses guesses. Tokens to be evaluated again come first, and leave room for fewer
 * guesses. At most `room`, and as many as fit into the context with one more to come; guesses stay
 * within a pass, from which states can go back. */
static smol_eval_part next_part(smol_generation *g, size_t room, size_t n_guesses)
{
    smol_context *c = g->context;
    take_again(g, room);
    size_t n = g->n_again, space = smol_context_capacity(c) - c->length;
    size_t more = g->params.max_tokens - g->result.n_generated; /* max_tokens 0: very many */
    room = room < space ? room : space;
    room = room - n < more ? room : n + more;
    n_guesses = n < n_guesses ? n_guesses - n : 0;
    g->next[n++] = g->newest;
    for (size_t i = g->at_forced; i < g->n_forced && n < room; i++)
        g->next[n++] = g->forced[i];
    room = smol_state_pass(&c->state, room);
    room = n < room ? room - n : 0;
    room = room < n_guesses ? room : n_guesses;
    g->n_guessed = g->params.lookup && room > 0 ? guess(g, n, room) : 0;
    c->guesses = g->n_guessed > 0 || g->n_again > 0;
    return (smol_eval_part){.context = c,
                            .ids = g->next,
                            .n = n + g->n_guessed,
                            .n_logits = 1 + g->n_guessed,
                            .logits = g->logits};
}

static size_t count_left(smol_generation *const *generations, size_t n)
{
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++)
        n_left += !generations[i]->finished;
    return n_left;
}

/* Returns whether nobody waits for a step: a single generation remains, and others need not join
 * soon. */
static bool is_alone(smol_generation *const *generations, size_t n)
{
    bool slices = false;
    for (size_t i = 0; i < n; i++)
        slices |= !generations[i]->finished && generations[i]->params.slice_prompt;
    return count_left(generations, n) == 1 && !slices;
}

/* Fills `parts` with the next tokens of all unfinished generations that know what may follow, and
 * which[i] with the generation of part i. Each decoding generation contributes one token. Prompts
 * fill the rest of the last pass, and another one if that is less than their share, so that new
 * requests do not wait for those that decode; a single remaining generation gets its whole prompt,
 * unless it asks for slices. Returns the number of parts. */
static size_t plan(smol_generation *const *generations, size_t n, smol_eval_part *parts,
                   smol_generation **which)
{
    size_t n_parts = 0, n_left = count_left(generations, n);
    size_t room = is_alone(generations, n) ? SIZE_MAX : BATCH;
    size_t n_guesses = n_left ? (LOOKUP_TOKENS + 1) / n_left : 0; /* and newest tokens */
    for (int prompts = 0; prompts < 2; prompts++) {
        while (prompts && room < PROMPT_SHARE * n_parts)
            room += BATCH; /* a whole pass: each takes long, however few tokens it has */
        for (size_t i = 0; i < n; i++) {
            smol_generation *g = generations[i];
            if (g->finished || !knows_next(g) || reads_prompt(g) != prompts || room == 0)
                continue;
            bool shares = prompts && !g->params.all_tokens;
            if (shares && should_wait(g, which, n_parts))
                continue; /* before it takes a part of a block, after which it could share none */
            if (shares)
                reuse(g);
            which[n_parts] = g;
            parts[n_parts] = prompts ? prompt_part(g, room)
                                     : next_part(g, room, n_guesses > 0 ? n_guesses - 1 : 0);
            room -= parts[n_parts++].n;
            room = room || prompts ? room : BATCH; /* each one decodes in every step */
        }
    }
    return n_parts;
}

static void start_all(smol_generation *const *generations, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        smol_error error;
        if (generations[i]->started || generations[i]->finished)
            continue;
        if (start(generations[i], &error))
            fail(generations[i], &error);
    }
}

/* A step's parts, and the generation of each. */
struct step {
    smol_eval_part *parts;
    smol_generation **which;
    size_t n;
};

/* Returns whether another generation of the step has the same sampler, which is for one thread at a
 * time and then chooses in order. */
static bool shares_choice(const struct step *step, const smol_generation *g)
{
    bool shares = false;
    for (size_t i = 0; i < step->n; i++)
        shares |= step->which[i] != g && step->which[i]->sampler == g->sampler;
    return shares;
}

/* Chooses the tokens that follow a single one. */
static void choose_each(void *argument, struct pool_thread *thread)
{
    const struct step *step = argument;
    struct pool_stage stage = pool_stage(thread, (uint32_t)step->n);
    while (smol_pool_claim(&stage)) {
        const smol_eval_part *part = &step->parts[stage.item];
        smol_generation *g = step->which[stage.item];
        g->has_choice = !part->error.status && part->n == 1 && !reads_prompt(g) && !n_waiting(g) &&
                        !shares_choice(step, g);
        if (g->has_choice)
            g->choice_error.status = choose(g, g->logits, &g->choice, &g->choice_error);
    }
}

/* Evaluates the parts of a step and takes the tokens that follow. Threads share the choices, which
 * are independent and, from a large vocabulary, slow. Callers are told of them one by one. */
static void take_step(struct step step)
{
    smol_eval_many(step.parts, step.n, NULL);
    if (step.n > 1)
        smol_pool_run(step.which[0]->context->engine->pool, choose_each, &step);
    for (size_t i = 0; i < step.n; i++)
        settle(step.which[i], &step.parts[i]);
}

/* Generations that look ahead. */
struct view {
    smol_generation **which; /* (n), by rank */
    size_t n;
    atomic_uint work; /* that is left for them */
};

static void look_each(void *argument, struct pool_thread *thread)
{
    struct view *view = argument;
    struct pool_stage stage = pool_stage(thread, (uint32_t)view->n);
    while (smol_pool_claim(&stage)) {
        smol_generation *g = view->which[stage.item];
        unsigned left = atomic_load(&view->work);
        uint64_t work = left;
        if (left > 0)
            look_ahead(g, &work);
        else
            g->rank--;
        while (!atomic_compare_exchange_weak(&view->work, &left, left > work ? left - work : 0))
            continue;
    }
}

/* Puts a generation among which[0..n), after those of the same rank. */
static void insert(smol_generation **which, size_t n, smol_generation *g)
{
    for (; n > 0 && which[n - 1]->rank > g->rank; n--)
        which[n] = which[n - 1];
    which[n] = g;
}

/* Lets all generations find what may follow. If others must not wait for that, they share an amount
 * of work, which is given first to those that needed the least so far. */
static void look_all(smol_generation *const *generations, size_t n, smol_generation **which)
{
    struct view view = {.which = which, .work = STEP_WORK};
    bool hurries = !is_alone(generations, n);
    for (size_t i = 0; i < n; i++) {
        smol_generation *g = generations[i];
        uint64_t work = UINT64_MAX;
        g->extra_work = hurries ? EXTRA_WORK : UINT64_MAX;
        if (g->finished || knows_next(g))
            continue;
        if (hurries && g->params.matcher)
            insert(which, view.n++, g);
        else
            look_ahead(g, &work);
    }
    if (view.n > 0)
        smol_pool_run(which[0]->context->engine->pool, look_each, &view);
}

void smol_generation_step(smol_generation *const *generations, size_t n)
{
    start_all(generations, n);
    smol_eval_part *parts = smol_reallocarray(NULL, n, sizeof *parts);
    smol_generation **which = smol_reallocarray(NULL, n, sizeof(void *));
    if (parts && which) {
        look_all(generations, n, which);
        take_step((struct step){parts, which, plan(generations, n, parts, which)});
    } else {
        smol_error error;
        smol_fail_memory(&error, "a step of generation");
        for (size_t i = 0; i < n; i++)
            if (!generations[i]->finished)
                fail(generations[i], &error);
    }
    smol_free(parts);
    smol_free(which);
}

/* --- the public functions ------------------------------------------------------------------ */

/* Checks the parameters and reserves memory. Every token except the last occupies a position of the
 * context, whose capacity therefore bounds the history. */
static smol_status prepare(smol_generation *g, const uint32_t *prompt, smol_error *error)
{
    size_t capacity = smol_context_capacity(g->context);
    smol_status status = CHECK_RESERVED(generate_params, &g->params, error);
    if (status)
        return status;
    if (g->n_prompt == 0) {
        smol_fail(error, SMOL_ERROR_USAGE, "the prompt is empty: pass at least one token");
        return SMOL_ERROR_USAGE; /* a constant, for static analyzers */
    }
    if (g->params.slide && g->params.n_keep >= capacity) {
        smol_fail(error, SMOL_ERROR_USAGE,
                  "n_keep is %zu, but the context has room for %zu tokens: keep fewer",
                  g->params.n_keep, capacity);
        return SMOL_ERROR_USAGE;
    }
    size_t rows = g->params.lookup || g->params.all_tokens ? MOST_LOGITS : 1;
    size_t vocab_size = g->context->model->blob.model->vocab_size;
    g->logits = smol_calloc(rows * vocab_size, sizeof *g->logits);
    g->history = smol_calloc(capacity + 1, sizeof *g->history);
    g->prompt = smol_reallocarray(NULL, g->n_prompt, sizeof *g->prompt);
    smol_lookup_init(&g->lookup, g->context->state.n_floats > 0);
    if (!g->logits || !g->history || !g->prompt)
        return smol_fail_memory(error, "generation");
    memcpy(g->prompt, prompt, g->n_prompt * sizeof *prompt);
    if (g->params.matcher) {
        if (matcher_head(g->params.matcher)->model != g->context->model)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "the matcher's constraint was compiled for another model");
        g->mask = smol_calloc((vocab_size + 63) / 64, sizeof *g->mask);
        if (!g->mask)
            return smol_fail_memory(error, "generation");
    }
    return smol_stream_create(g->params.stop, g->params.n_stop, &g->stream, error);
}

smol_status smol_generation_create(smol_context *context, smol_sampler *sampler,
                                   const uint32_t *prompt, size_t n,
                                   const smol_generate_params *params, smol_generation **out,
                                   smol_error *error)
{
    error_clear(error);
    *out = NULL;
    smol_generation *g = smol_calloc(1, sizeof *g);
    if (!g)
        return smol_fail_memory(error, "generation");
    g->context = context;
    g->sampler = sampler;
    if (params)
        g->params = *params;
    g->n_prompt = n;
    g->start = clock_seconds();
    smol_status status = prepare(g, prompt, error);
    if (status)
        smol_generation_free(g);
    else
        *out = g;
    return status;
}

int smol_generation_finished(const smol_generation *generation, smol_generate_result *result,
                             smol_error *error)
{
    if (result)
        *result = generation->result;
    if (error)
        *error = generation->error;
    return generation->finished;
}

void smol_generation_free(smol_generation *generation)
{
    if (!generation)
        return;
    smol_stream_free(generation->stream);
    smol_free(generation->prompt);
    smol_free(generation->history);
    smol_free(generation->logits);
    smol_free(generation->mask);
    smol_free(generation);
}

static smol_status generate(smol_context *context, smol_sampler *sampler, const uint32_t *prompt,
                            size_t n, const smol_generate_params *params,
                            smol_generate_result *result, smol_error *error)
{
    smol_generation *g;
    smol_status status = smol_generation_create(context, sampler, prompt, n, params, &g, error);
    if (status)
        return status;
    while (!smol_generation_finished(g, result, error))
        smol_generation_step(&g, 1);
    status = g->error.status;
    smol_generation_free(g);
    return status;
}

/* The state of a context before a generation without a prompt. */
struct end {
    size_t length, n_ids, lost_from;
    bool unshared;
};

/* Puts back the last id, which was taken as the prompt and has not been read. Its keys and values
 * are there if they were. */
static void put_back(smol_context *c, const struct end *end)
{
    size_t known = smol_state_known(&c->state, end->length);
    if (end->lost_from < end->n_ids && known == end->n_ids)
        known = end->n_ids - 1; /* those before it may have been found */
    c->length = end->length;
    c->n_ids = end->n_ids;
    c->unshared |= end->unshared;
    if (known < c->length && known < c->lost_from)
        c->lost_from = known;
}

/* Generates without a prompt. The last id of the sequence becomes the prompt, because its logits
 * are not kept. */
static smol_status resume(smol_context *c, smol_sampler *sampler,
                          const smol_generate_params *params, smol_generate_result *result,
                          smol_error *error)
{
    const struct end end = {c->length, c->n_ids, c->lost_from, c->unshared};
    if (end.n_ids == 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the context and the prompt are empty: pass at least one token");
    smol_status status = prefix_own(c, error); /* a borrowed block could go with the last id */
    if (status)
        return status;
    uint32_t last = c->ids[end.n_ids - 1];
    smol_generate_params continued = params ? *params : (smol_generate_params){0};
    continued.new_text = 0;
    smol_context_truncate(c, end.n_ids - 1);
    status = generate(c, sampler, &last, 1, &continued, result, error);
    bool unread = status || (result->finish == SMOL_FINISH_CANCELLED && result->n_prompt == 0);
    if (unread && c->length == end.n_ids - 1) /* nothing else was changed */
        put_back(c, &end);
    return status;
}

smol_status smol_generate(smol_context *context, smol_sampler *sampler, const uint32_t *prompt,
                          size_t n, const smol_generate_params *params,
                          smol_generate_result *result, smol_error *error)
{
    smol_generate_result unused;
    if (!result)
        result = &unused;
    error_clear(error);
    *result = (smol_generate_result){0};
    if (n == 0)
        return resume(context, sampler, params, result, error);
    return generate(context, sampler, prompt, n, params, result, error);
}
