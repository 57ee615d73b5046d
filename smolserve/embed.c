/* Embeddings, see generator.h: an encoder's own, or the mean of the hidden states of all tokens, of
 * length 1. */
#include "smolserve/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 128 }; /* tokens; a text of an encoder may be longer, because it is read whole */

smol_status smol_embedding_begin(struct embedding *e, struct job *job,
                                 const smol_context_params *params, smol_error *error)
{
    size_t width = job->generator->info.embedding_size;
    *e = (struct embedding){.job = job, .params = *params};
    e->sums = calloc(width, sizeof *e->sums);
    e->slice = calloc(SLICE * width, sizeof *e->slice);
    job->states = calloc(job->n_prompts * width, sizeof *job->states);
    if (!e->sums || !e->slice || !job->states)
        return smol_fail_memory(error, "embeddings");
    return smol_context_create(job->generator->model, params, &e->contexts[0], error);
}

/* Divides the sums by their length: that of the mean has the same direction. */
static void finish_prompt(struct embedding *e, size_t width)
{
    float *state = e->job->states + e->prompt * width;
    double squares = 0;
    for (size_t i = 0; i < width; i++)
        squares += e->sums[i] * e->sums[i];
    double length = sqrt(squares);
    for (size_t i = 0; i < width; i++)
        state[i] = length > 0 ? (float)(e->sums[i] / length) : 0;
    memset(e->sums, 0, width * sizeof *e->sums);
    smol_context_truncate(e->contexts[0], 0);
    e->prompt++;
    e->position = 0;
}

/* Returns how many of the next texts are evaluated together: as many as a slice has room for, and
 * at least one. */
static size_t count_group(const struct embedding *e)
{
    const struct job *job = e->job;
    size_t n = 0, n_tokens = 0, left = job->n_prompts - e->prompt;
    while (n < left && n < EMBED_GROUP) {
        n_tokens += job->prompts[e->prompt + n].n;
        if (n > 0 && n_tokens > SLICE)
            break;
        n++;
    }
    return n;
}

/* Computes an encoder's embeddings of the next texts as its checkpoint says. */
static smol_status embed_group(struct embedding *e, size_t width, bool *done, smol_error *error)
{
    const struct job *job = e->job;
    smol_eval_part parts[EMBED_GROUP] = {0};
    size_t n = count_group(e);
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < n && !status; i++) {
        const struct prompt *prompt = &job->prompts[e->prompt + i];
        if (!e->contexts[i])
            status = smol_context_create(job->generator->model, &e->params, &e->contexts[i], error);
        parts[i] = (smol_eval_part){.context = e->contexts[i],
                                    .ids = prompt->ids,
                                    .n = prompt->n,
                                    .logits = job->states + (e->prompt + i) * width};
    }
    if (!status)
        status = smol_embed_many(parts, n, SMOL_POOL_MODEL, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        smol_context_truncate(e->contexts[i], 0);
    e->prompt += n;
    *done = e->prompt == job->n_prompts;
    return SMOL_OK;
}

smol_status smol_embedding_step(struct embedding *e, bool *done, smol_error *error)
{
    const struct prompt *prompt = &e->job->prompts[e->prompt];
    size_t width = e->job->generator->info.embedding_size, n = prompt->n - e->position;
    if (e->job->generator->info.is_encoder)
        return embed_group(e, width, done, error);
    n = n < SLICE ? n : SLICE;
    smol_status status =
        smol_embed(e->contexts[0], prompt->ids + e->position, n, SMOL_POOL_NONE, e->slice, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++)
            e->sums[j] += (double)e->slice[i * width + j];
    e->position += n;
    if (e->position == prompt->n)
        finish_prompt(e, width);
    *done = e->prompt == e->job->n_prompts;
    return SMOL_OK;
}

void smol_embedding_end(struct embedding *e)
{
    for (size_t i = 0; i < EMBED_GROUP; i++)
        smol_context_free(e->contexts[i]);
    free(e->sums);
    free(e->slice);
    *e = (struct embedding){0};
}
