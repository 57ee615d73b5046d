/* Preparers, see prepare.h. */
#include "smolserve/prepare.h"

#include "smolserve/server.h"

/* Checks that the prompts fit. */
static smol_status check_length(const struct job *job, smol_error *error)
{
    size_t capacity = job->generator->capacity;
    for (size_t i = 0; i < job->n_prompts; i++)
        if (job->prompts[i].n > capacity)
            return smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                             "the prompt has %zu tokens, but the context has room for %zu: send "
                             "less",
                             job->prompts[i].n, capacity);
    return SMOL_OK;
}

static smol_status prepare(struct job *job, smol_error *error)
{
    const struct request *request = &job->request;
    smol_status status = job->endpoint->prepare(job, error);
    if (!status && job->endpoint->work != WORK_TOKENS)
        status = check_length(job, error);
    if (!status && request->format.text)
        status = smol_constraints_get(&job->generator->constraints, &request->format,
                                      &job->constraint, error);
    if (!status && job->endpoint->work == WORK_GENERATE && !smol_job_make_replies(job))
        status = smol_fail_memory(error, "the answer");
    smol_request_drop_text(&job->request);
    return status;
}

static struct job *next_job(struct preparers *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->first && !p->stopping)
        pthread_cond_wait(&p->work, &p->lock);
    struct job *job = p->first;
    if (job)
        p->first = job->next;
    if (!p->first)
        p->end = &p->first;
    pthread_mutex_unlock(&p->lock);
    return job;
}

static void *run(void *argument)
{
    struct preparers *p = argument;
    struct job *job;
    while ((job = next_job(p))) {
        smol_error error;
        struct refusal refusal;
        bool ends = smol_job_is_over(job, &refusal);
        if (!ends && prepare(job, &error)) {
            smol_generator_note(job->generator, &error);
            smol_refuse_error(&refusal, &error);
            ends = true;
        }
        if (!ends && job->endpoint->work != WORK_TOKENS) {
            smol_generator_submit(job->generator, job);
            continue;
        }
        atomic_fetch_sub(&p->server->n_waiting, 1);
        smol_metrics_job(&p->server->metrics, job);
        smol_job_end(job, ends ? &refusal : NULL);
        smol_job_release(job);
    }
    return NULL;
}

smol_status smol_preparers_start(struct preparers *p, struct server *server, smol_error *error)
{
    p->server = server;
    p->end = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    for (; p->n < N_PREPARERS; p->n++)
        if (pthread_create(&p->threads[p->n], NULL, run, p))
            return smol_fail_memory(error, "a thread");
    return SMOL_OK;
}

void smol_preparers_submit(struct preparers *p, struct job *job)
{
    pthread_mutex_lock(&p->lock);
    job->next = NULL;
    *p->end = job;
    p->end = &job->next;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

void smol_preparers_stop(struct preparers *p)
{
    if (!p->server)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->n; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
}
