/* A generation in progress: one sequence, whose tokens are evaluated in steps (step.c). */
#ifndef SMOL_RUNTIME_GENERATION_H
#define SMOL_RUNTIME_GENERATION_H

#include <stdbool.h>

#include "runtime/context.h"
#include "runtime/lookup.h"
#include "runtime/tokenizer/stream.h"
#include "smol.h"

enum { FORCED_TOKENS = BATCH / 4 }; /* tokens, so that several generations share a pass */
enum { MOST_LOGITS = 1 + LOOKUP_TOKENS };

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

/* Returns the number of tokens that must follow the newest one and wait for their turn. */
static inline size_t generation_n_waiting(const smol_generation *g)
{
    return g->n_forced - g->at_forced;
}

static inline bool generation_knows_next(const smol_generation *g)
{
    return g->has_next || generation_n_waiting(g) > 0;
}

static inline bool generation_reads_prompt(const smol_generation *g)
{
    return g->n_read < g->n_prompt;
}

/* Runs before the first token of the prompt is read: records the context's state and checks that
 * the whole prompt fits. */
smol_status smol_generation_start(smol_generation *g, smol_error *error);

/* Finds what may follow the newest token, with about *work steps of work, unless it is known. Sets
 * *work to those it took. Returns whether they were enough. */
bool smol_generation_look_ahead(smol_generation *g, uint64_t *work);

/* Chooses the token that follows the newest one before its turn: sets g->choice or
 * g->choice_error. What may follow must be known. */
void smol_generation_choose(smol_generation *g);

/* Continues after n of its tokens have been evaluated. */
void smol_generation_advance(smol_generation *g, size_t n);

/* Ends with an error, or as cancelled. */
void smol_generation_fail(smol_generation *g, const smol_error *error);

#endif
