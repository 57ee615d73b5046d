/* Preparers, see prepare.h. */
#include "smolserve/prepare.h"

#include "cli/request/reasoning.h"
#include "smolserve/body.h"
#include "smolserve/server.h"

/* Returns how many sequences of the job's model are free for it. */
static unsigned count_free(const struct job *job)
{
    unsigned n_used = atomic_load(&job->generator->n_sequences);
    return job->endpoint->work == WORK_GENERATE ? job->server->settings->n_sequences - n_used : 0;
}

/* Counts the job among those that wait, unless there are too many. Jobs that free sequences will
 * take do not count. */
static bool admit(struct job *job, struct refusal *refusal)
{
    unsigned most = job->server->settings->n_queued + count_free(job);
    job->waits = true;
    if (atomic_fetch_add(&job->server->n_waiting, 1) < most)
        return true;
    smol_job_stop_waiting(job);
    smol_refuse(refusal, 429, "queue_full", "too many requests are waiting: try again later");
    return false;
}

/* Reads the request. Returns false if the job ends by that. */
static bool receive(struct job *job)
{
    struct refusal refusal;
    bool goes_on =
        !smol_job_is_over(job, &refusal) && smol_body_read(job, &refusal) && admit(job, &refusal);
    if (!goes_on)
        smol_job_end(job, &refusal);
    return goes_on;
}

/* Checks that the prompts fit. */
static smol_status check_length(const struct job *job, smol_error *error)
{
    size_t capacity = job->generator->capacity;
    for (size_t i = 0; i < job->n_prompts; i++)
        if (job->prompts[i].n > capacity)
            return smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                             "the prompt has %zu tokens, but the context has room for %zu: shorten "
                             "it",
                             job->prompts[i].n, capacity);
    return SMOL_OK;
}

static smol_status prepare(struct job *job, smol_error *error)
{
    struct request *request = &job->request;
    smol_status status = job->endpoint->prepare(job, error);
    if (!status && job->endpoint->work != WORK_TOKENS)
        status = check_length(job, error);
    if (!status && job->endpoint->work == WORK_GENERATE && !smol_job_make_replies(job))
        status = smol_fail_memory(error, "the answer");
    if (!status && request->format.text)
        status = smol_request_reasoning(request, job->generator->model, job->prompts[0].ids,
                                        job->prompts[0].n, &request->format, error);
    smol_request_drop_text(request);
    return status;
}

/* --- queues ----------------------------------------------------------------------------------- */

/* A job overtakes those with longer bodies, each of which lets at most as many bytes pass as it has
 * itself. Jobs without bodies keep their order. Clients take turns: see take. */
static void add(struct job_queue *queue, struct job *job)
{
    size_t size = job->body.size;
    struct job **place = &queue->first;
    pthread_mutex_lock(&queue->preparers->lock);
    for (struct job **at = place; *at; at = &(*at)->next)
        if (size >= (*at)->body.size || size > (*at)->patience)
            place = &(*at)->next;
    for (struct job *later = *place; later; later = later->next)
        later->patience -= size;
    job->patience = size;
    job->next = *place;
    *place = job;
    pthread_cond_signal(&queue->work);
    pthread_mutex_unlock(&queue->preparers->lock);
}

/* Waits for a job: the first one of the client whose last one is the longest ago. NULL: there will
 * be none. */
static struct job *take(struct job_queue *queue)
{
    struct preparers *p = queue->preparers;
    pthread_mutex_lock(&p->lock);
    while (!queue->first && !p->stopping)
        pthread_cond_wait(&queue->work, &p->lock);
    struct job **next = &queue->first;
    for (struct job **at = next; *at; at = &(*at)->next)
        if (queue->turns[(*at)->client] < queue->turns[(*next)->client])
            next = at;
    struct job *job = *next;
    if (job) {
        *next = job->next;
        queue->turns[job->client] = ++queue->n_taken;
    }
    pthread_mutex_unlock(&p->lock);
    return job;
}

/* --- what is done with their jobs ------------------------------------------------------------- */

/* Runs a step of a job, unless its time is over. Returns false if the job ends by that. */
static bool advance(struct job *job, smol_status step(struct job *job, smol_error *error))
{
    smol_error error;
    struct refusal refusal;
    bool ends = smol_job_is_over(job, &refusal);
    if (!ends && step(job, &error)) {
        smol_generator_note(job->generator, &error);
        smol_refuse_error(&refusal, &error);
        if (error.status == SMOL_ERROR_CONTEXT_FULL)
            smol_refusal_param(&refusal, job->endpoint->members[0].name);
        ends = true;
    }
    if (ends)
        smol_job_end(job, &refusal);
    return !ends;
}

static void answer(struct job *job)
{
    if (advance(job, smol_job_write))
        smol_job_end(job, NULL);
}

static void make_tokens(struct job *job)
{
    const struct wanted_constraint *format = &job->request.format;
    if (!receive(job) || !advance(job, prepare))
        return;
    if (format->text)
        job->constraint = smol_constraints_find(&job->generator->constraints, format);
    if (job->endpoint->work == WORK_TOKENS)
        answer(job);
    else if (format->text && !job->constraint)
        add(&job->server->preparers.queues[CONSTRAINTS], job);
    else
        smol_generator_submit(job->generator, job);
}

static smol_status get_constraint(struct job *job, smol_error *error)
{
    return smol_constraints_get(&job->generator->constraints, &job->request.format,
                                &job->constraint, error);
}

static void constrain(struct job *job)
{
    if (advance(job, get_constraint))
        smol_generator_submit(job->generator, job);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void *handle_jobs(void *argument)
{
    struct job_queue *queue = argument;
    struct job *job;
    while ((job = take(queue)))
        queue->handle(job);
    return NULL;
}

smol_status smol_preparers_start(struct preparers *p, smol_error *error)
{
    static void (*const handlers[N_QUEUES])(struct job * job) = {
        [SHORT_REQUESTS] = make_tokens,
        [ANSWERS] = answer,
        [LONG_REQUESTS] = make_tokens,
        [CONSTRAINTS] = constrain,
    };
    pthread_mutex_init(&p->lock, NULL);
    for (size_t i = 0; i < N_QUEUES; i++) {
        p->queues[i] = (struct job_queue){.preparers = p, .handle = handlers[i]};
        pthread_cond_init(&p->queues[i].work, NULL);
    }
    for (; p->n < N_PREPARERS; p->n++)
        if (pthread_create(&p->threads[p->n], NULL, handle_jobs, &p->queues[p->n % N_QUEUES]))
            return smol_fail_memory(error, "a thread");
    return SMOL_OK;
}

void smol_preparers_submit(struct preparers *p, struct job *job)
{
    add(&p->queues[job->body.size < LONG_REQUEST ? SHORT_REQUESTS : LONG_REQUESTS], job);
}

void smol_preparers_answer(struct preparers *p, struct job *job)
{
    add(&p->queues[ANSWERS], job);
}

void smol_preparers_stop(struct preparers *p)
{
    if (!p->queues[0].preparers)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    for (size_t i = 0; i < N_QUEUES; i++)
        pthread_cond_broadcast(&p->queues[i].work);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->n; i++)
        pthread_join(p->threads[i], NULL);
    for (size_t i = 0; i < N_QUEUES; i++)
        pthread_cond_destroy(&p->queues[i].work);
    pthread_mutex_destroy(&p->lock);
}
