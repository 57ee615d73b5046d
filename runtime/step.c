/* A step of several generations: what each evaluates next shares one pass, see
 * smol_generation_step in smol.h. */
#include <stdbool.h>
#include <string.h>

#include "common/memory.h"
#include "runtime/generation.h"
#include "runtime/prefix.h"

enum { PROMPT_SHARE = 16 }; /* a step's least tokens of prompts for each that decodes */

/* Steps of a matcher's work on what may follow, within one step of several generations: a few
 * milliseconds. One that needs more gets no token in this step. */
enum { STEP_WORK = 1 << 16, EXTRA_WORK = STEP_WORK / 8 };

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
        smol_generation_advance(g, part->n);
        return;
    }
    lose_again(g);
    if (g->n_guessed > 0 && part->error.status != SMOL_ERROR_CANCELLED) {
        g->params.lookup = 0;
        g->n_guessed = 0;
    } else {
        smol_generation_fail(g, &part->error);
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
        if (generation_reads_prompt(others[i]) && reads_for(others[i], g))
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
            if (g->finished || !generation_knows_next(g) || generation_reads_prompt(g) != prompts ||
                room == 0)
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
        if (smol_generation_start(generations[i], &error))
            smol_generation_fail(generations[i], &error);
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
        g->has_choice = !part->error.status && part->n == 1 && !generation_reads_prompt(g) &&
                        !generation_n_waiting(g) && !shares_choice(step, g);
        if (g->has_choice)
            smol_generation_choose(g);
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
            smol_generation_look_ahead(g, &work);
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
        if (g->finished || generation_knows_next(g))
            continue;
        if (hurries && g->params.matcher)
            insert(which, view.n++, g);
        else
            smol_generation_look_ahead(g, &work);
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
                smol_generation_fail(generations[i], &error);
    }
    smol_free(parts);
    smol_free(which);
}
