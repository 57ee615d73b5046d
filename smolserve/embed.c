/* Embeddings, see generator.h: an encoder's own, or the mean of the hidden states of all tokens, of
 * length 1. */
#include "smolserve/generator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 128 }; /* tokens, but for encoders, whose texts are whole */

smol_status smol_embedding_begin(struct embedding *e, struct job *job,
                                 const smol_context_params *params, smol_error *error)
{
    size_t width = job->generator->info.embedding_size;
    *e = (struct embedding){.job = job};
    e->sums = calloc(width, sizeof *e->sums);
    e->slice = calloc(SLICE * width, sizeof *e->slice);
    job->states = calloc(job->n_prompts * width, sizeof *job->states);
    if (!e->sums || !e->slice || !job->states)
        return smol_fail_memory(error, "embeddings");
    return smol_context_create(job->generator->model, params, &e->context, error);
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
    smol_context_truncate(e->context, 0);
    e->prompt++;
    e->position = 0;
}

/* Computes an encoder's embedding as its checkpoint says. */
static smol_status embed_whole(struct embedding *e, const struct prompt *prompt, size_t width,
                               bool *done, smol_error *error)
{
    float *state = e->job->states + e->prompt * width;
    smol_status status =
        smol_embed(e->context, prompt->ids, prompt->n, SMOL_POOL_MODEL, state, error);
    smol_context_truncate(e->context, 0);
    e->prompt += !status;
    *done = e->prompt == e->job->n_prompts;
    return status;
}

smol_status smol_embedding_step(struct embedding *e, bool *done, smol_error *error)
{
    const struct prompt *prompt = &e->job->prompts[e->prompt];
    size_t width = e->job->generator->info.embedding_size, n = prompt->n - e->position;
    if (e->job->generator->info.is_encoder)
        return embed_whole(e, prompt, width, done, error);
    n = n < SLICE ? n : SLICE;
    smol_status status =
        smol_embed(e->context, prompt->ids + e->position, n, SMOL_POOL_NONE, e->slice, error);
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
    smol_context_free(e->context);
    free(e->sums);
    free(e->slice);
    *e = (struct embedding){0};
}
