/* Generators, see generator.h. The thread steps all running jobs together, and between two steps
 * lets jobs begin and end. */
#include "smolserve/generator.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "smolserve/server.h"

/* --- beginning and ending --------------------------------------------------------------------- */

static void stop_reply(struct generator *g, struct reply *reply)
{
    if (reply->context) {
        g->used[reply->job->client]--;
        atomic_fetch_sub(&g->n_sequences, 1);
    }
    smol_generation_free(reply->generation);
    smol_sampler_free(reply->sampler);
    smol_matcher_free(reply->matcher);
    smol_parts_close(&reply->parts);
    smol_context_free(reply->context);
    reply->generation = NULL;
    reply->sampler = NULL;
    reply->matcher = NULL;
    reply->context = NULL;
}

static smol_status start_reply(struct generator *g, struct reply *reply, uint32_t index,
                               smol_error *error)
{
    struct job *job = reply->job;
    const struct request *request = &job->request;
    smol_context_params context = g->server->settings->context;
    context.share = g->base;
    context.prefix_cache = g->cache;
    context.prefix_group = g->server->settings->share_cache ? 0 : job->client;
    smol_sampler_params sampler = request->sampler;
    const struct prompt *prompt = &job->prompts[index / job->n];
    const struct wanted_constraint *constraint = job->constraint ? &job->constraint->of : NULL;
    sampler.seed += index % job->n;
    bool all_tokens = job->echo && request->logprobs >= 0;
    if (g->cache && !all_tokens)
        reply->n_read =
            smol_prefix_cache_count(g->cache, context.prefix_group, prompt->ids, prompt->n - 1);
    reply->turn = g->n_read + prompt->n - reply->n_read;
    smol_status status = smol_context_create(g->model, &context, &reply->context, error);
    if (status)
        return status;
    g->used[job->client]++;
    atomic_fetch_add(&g->n_sequences, 1);
    status = smol_sampler_create(&sampler, &reply->sampler, error);
    if (!status && job->constraint)
        status = smol_matcher_create(job->constraint->constraint, &reply->matcher, error);
    if (!status)
        status = smol_parts_begin(&reply->parts, request, constraint, g->model, prompt->ids,
                                  prompt->n, error);
    smol_generate_params params = {
        .max_tokens = request->max_tokens,
        .prompt_only = request->max_tokens == 0,
        .stop = request->stop.items,
        .n_stop = request->stop.n,
        .on_text = smol_reply_text,
        .on_token = smol_reply_token,
        .user = reply,
        .matcher = reply->matcher,
        .slice_prompt = 1,
        .lookup = (uint64_t)g->server->settings->lookup,
        .all_tokens = all_tokens,
        .new_text = request->is_chat,
    };
    smol_parts_set(&reply->parts, &params);
    if (!status)
        status = smol_generation_create(reply->context, reply->sampler, prompt->ids, prompt->n,
                                        &params, &reply->generation, error);
    return status;
}

/* Frees what the replies of a job hold, and lets it go: a whole answer is yet to be written. */
static void end_job(struct generator *g, struct job *job, const struct refusal *refusal)
{
    for (uint32_t i = 0; i < job->n_replies; i++)
        stop_reply(g, &job->replies[i]);
    if (refusal || job->stream)
        smol_job_end(job, refusal);
    else
        smol_preparers_answer(&g->server->preparers, job);
}

static void fail_job(struct generator *g, struct job *job, const smol_error *error)
{
    struct refusal refusal = {0};
    smol_generator_note(g, error);
    smol_refuse_error(&refusal, error);
    end_job(g, job, &refusal);
}

/* --- the queue -------------------------------------------------------------------------------- */

void smol_generator_submit(struct generator *g, struct job *job)
{
    pthread_mutex_lock(&g->lock);
    job->next = NULL;
    *g->waiting_end = job;
    g->waiting_end = &job->next;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
}

/* Returns the place of the next job. An embedding goes first if none is in progress, because it
 * needs no sequence: that of the client whose last one is the longest ago. Of the others, the
 * oldest job of the clients that use the fewest sequences. */
static struct job **find_next(struct generator *g)
{
    struct job **best = NULL, **embedding = NULL;
    for (struct job **at = &g->waiting; *at; at = &(*at)->next) {
        size_t client = (*at)->client;
        if ((*at)->endpoint->work != WORK_EMBED) {
            if (!best || g->used[client] < g->used[(*best)->client])
                best = at;
        } else if (!embedding || g->embedded[client] < g->embedded[(*embedding)->client]) {
            embedding = at;
        }
    }
    return embedding && !g->embedding.job ? embedding : best;
}

static bool is_idle(const struct generator *g)
{
    return g->n_running == 0 && !g->embedding.job;
}

static struct job *take(struct generator *g, struct job **at)
{
    struct job *job = *at;
    *at = job->next;
    if (!*at)
        g->waiting_end = at;
    smol_job_stop_waiting(job);
    return job;
}

/* Takes the next job if its replies fit, otherwise returns NULL. Waits for a job if nothing is in
 * progress. Sets *stop if the thread must end once it is idle. */
static struct job *next_job(struct generator *g, bool *stop)
{
    struct job *job = NULL;
    pthread_mutex_lock(&g->lock);
    while (!g->waiting && !g->stopping && is_idle(g))
        pthread_cond_wait(&g->work, &g->lock);
    struct job **next = find_next(g);
    uint32_t n_free = g->server->settings->n_sequences - atomic_load(&g->n_sequences);
    if (next && (*next)->n_replies <= n_free)
        job = take(g, next);
    *stop = g->stopping;
    pthread_mutex_unlock(&g->lock);
    return job;
}

/* Ends the waiting jobs that nobody waits for any more, or whose time is over. */
static void sweep_waiting(struct generator *g)
{
    struct refusal refusal;
    struct job *over = NULL;
    pthread_mutex_lock(&g->lock);
    for (struct job **at = &g->waiting; *at;) {
        if (!smol_job_is_over(*at, &refusal)) {
            at = &(*at)->next;
            continue;
        }
        struct job *job = take(g, at);
        job->next = over;
        over = job;
    }
    pthread_mutex_unlock(&g->lock);
    for (struct job *next; over; over = next) {
        next = over->next;
        smol_job_is_over(over, &refusal);
        end_job(g, over, &refusal);
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

static void end_embedding(struct generator *g, const struct refusal *refusal)
{
    struct job *job = g->embedding.job;
    smol_embedding_end(&g->embedding);
    end_job(g, job, refusal);
}

static void fail_embedding(struct generator *g, const smol_error *error)
{
    struct job *job = g->embedding.job;
    smol_embedding_end(&g->embedding);
    fail_job(g, job, error);
}

static void begin_embedding(struct generator *g, struct job *job)
{
    smol_error error;
    smol_context_params params = g->server->settings->context;
    params.share = g->base;
    g->embedded[job->client] = ++g->n_embedded;
    if (smol_embedding_begin(&g->embedding, job, &params, &error))
        fail_embedding(g, &error);
}

/* Evaluates a slice of the embedding in progress. */
static void step_embedding(struct generator *g)
{
    smol_error error;
    struct refusal refusal = {0};
    bool done = false;
    if (smol_job_is_over(g->embedding.job, &refusal)) {
        end_embedding(g, &refusal);
    } else if (smol_embedding_step(&g->embedding, &done, &error)) {
        fail_embedding(g, &error);
    } else if (done) {
        end_embedding(g, NULL);
    }
}

static void begin_job(struct generator *g, struct job *job)
{
    smol_error error;
    struct refusal refusal;
    smol_status status = SMOL_OK;
    if (smol_job_is_over(job, &refusal)) {
        end_job(g, job, &refusal);
        return;
    }
    job->started = clock_seconds();
    smol_metrics_started(&g->server->metrics, job);
    if (job->endpoint->work == WORK_EMBED) {
        begin_embedding(g, job);
        return;
    }
    for (uint32_t i = 0; !status && i < job->n_replies; i++)
        status = start_reply(g, &job->replies[i], i, &error);
    if (status)
        fail_job(g, job, &error);
    else
        g->running[g->n_running++] = job;
}

/* Takes note of how far a reply has come. Errors: that with which its generation failed. */
static smol_status settle_reply(struct generator *g, struct reply *reply, smol_error *error)
{
    smol_generate_result result;
    if (!reply->generation)
        return SMOL_OK;
    bool finished = smol_generation_finished(reply->generation, &result, error);
    if (finished && error->status)
        return error->status;
    pthread_mutex_lock(&reply->job->lock);
    if (finished && !smol_parts_end(&reply->parts))
        reply->failed = true;
    bool failed = finished && (reply->failed || result.finish == SMOL_FINISH_CANCELLED);
    reply->result = result;
    reply->ended = finished && !failed;
    pthread_mutex_unlock(&reply->job->lock);
    if (failed)
        return smol_fail_memory(error, "the answer");
    if (finished)
        stop_reply(g, reply);
    return SMOL_OK;
}

/* Returns whether the job continues. */
static bool settle_job(struct generator *g, struct job *job)
{
    smol_error error;
    bool any_left = false, any_token = false;
    for (uint32_t i = 0; i < job->n_replies; i++) {
        if (settle_reply(g, &job->replies[i], &error)) {
            fail_job(g, job, &error);
            return false;
        }
        any_left |= !job->replies[i].ended;
        any_token |= job->replies[i].parts.n_tokens > 0;
    }
    if (any_token && job->first_token == 0)
        job->first_token = clock_seconds();
    if (!any_left)
        end_job(g, job, NULL);
    else if (job->stream && any_token)
        smol_job_wake(job);
    return any_left;
}

/* Runs `keeps` for each running job, and drops those for which it returns false. */
static void filter_running(struct generator *g, bool (*keeps)(struct generator *, struct job *))
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_running; i++)
        if (keeps(g, g->running[i]))
            g->running[n++] = g->running[i];
    g->n_running = n;
}

static bool continues(struct generator *g, struct job *job)
{
    struct refusal refusal;
    bool over = smol_job_is_over(job, &refusal);
    if (over)
        end_job(g, job, &refusal);
    return !over;
}

/* Puts a reply among turns[0..n), which ascend, after those of the same turn. */
static void insert(struct reply **turns, size_t n, struct reply *reply)
{
    for (; n > 0 && turns[n - 1]->turn > reply->turn; n--)
        turns[n] = turns[n - 1];
    turns[n] = reply;
}

/* Counts what a step has read of a prompt. */
static void count_read(struct generator *g, struct reply *reply)
{
    size_t length = smol_context_length(reply->context);
    if (reply->result.n_prompt > 0 || length <= reply->n_read)
        return;
    g->n_read += length - reply->n_read;
    reply->n_read = length;
}

/* Steps all replies. Prompts are read in the order of their turns. A turn is what has been read
 * when the reply begins plus what has to be read of its prompt, so that a short prompt does not
 * wait for long ones before it, and a long one waits for at most as many tokens of later ones as it
 * has itself. */
static void step(struct generator *g)
{
    struct reply *turns[SERVE_MAX_SEQUENCES];
    smol_generation *generations[SERVE_MAX_SEQUENCES];
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < g->n_running; i++)
        for (uint32_t j = 0; j < g->running[i]->n_replies; j++) {
            struct reply *reply = &g->running[i]->replies[j];
            if (!reply->generation)
                continue;
            bytes += smol_context_get_info(reply->context).kv_bytes;
            insert(turns, n++, reply);
        }
    atomic_store(&g->kv_bytes, bytes);
    for (size_t i = 0; i < n; i++)
        generations[i] = turns[i]->generation;
    if (n > 0)
        smol_generation_step(generations, n);
    for (size_t i = 0; i < n; i++)
        count_read(g, turns[i]);
}

static void *run(void *argument)
{
    enum { SWEEP_EVERY = 8 }; /* steps */
    struct generator *g = argument;
    bool stop = false;
    for (uint64_t i = 0; !stop || !is_idle(g); i++) {
        struct job *job;
        while ((job = next_job(g, &stop)))
            begin_job(g, job);
        filter_running(g, continues);
        step(g);
        filter_running(g, settle_job);
        if (g->n_running == 0)
            atomic_store(&g->kv_bytes, 0);
        if (g->embedding.job)
            step_embedding(g);
        if (i % SWEEP_EVERY == 0)
            sweep_waiting(g);
    }
    return NULL;
}

/* --- creation --------------------------------------------------------------------------------- */

/* Sets the model's name: the file's, without .smol. */
static void set_name(struct generator *g, const char *path)
{
    const char *name = smol_base_name(path);
    size_t size = strlen(name);
    if (size > 5 && strcmp(name + size - 5, ".smol") == 0)
        size -= 5;
    snprintf(g->name, sizeof g->name, "%.*s", (int)size, name);
}

static smol_status create_cache(struct generator *g, smol_error *error)
{
    const struct serve_settings *settings = g->server->settings;
    const smol_prefix_cache_params params = {.max_bytes = settings->cache_memory,
                                             .kv = settings->context.kv};
    if (!settings->cache_memory)
        return SMOL_OK;
    smol_error inner;
    smol_status status = smol_prefix_cache_create(g->model, &params, &g->cache, &inner);
    if (!status)
        return SMOL_OK;
    return smol_fail(error, status, "--cache-memory: %.300s, or 0 to do without", inner.message);
}

static smol_status start_thread(struct generator *g, smol_error *error)
{
    const struct serve_settings *settings = g->server->settings;
    g->running = calloc(settings->n_sequences, sizeof(void *));
    if (!g->running)
        return smol_fail_memory(error, "a model");
    if (pthread_create(&g->thread, NULL, run, g))
        return smol_fail_memory(error, "a thread");
    g->has_thread = true;
    return SMOL_OK;
}

/* Finds whether the chat template refuses a developer's message or leaves it out. */
static smol_status try_developer(struct generator *g, smol_error *error)
{
    static const char *const tries[] = {
        "[{\"role\":\"user\",\"content\":\"a\"}]",
        "[{\"role\":\"developer\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"a\"}]"};
    uint32_t *ids[2] = {NULL};
    size_t n[2] = {0};
    smol_error inner;
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < 2 && status != SMOL_ERROR_MEMORY; i++) {
        const smol_chat_params chat = {.messages_json = tries[i]};
        status = smol_chat_tokenize(g->model, &chat, &ids[i], &n[i], &inner);
    }
    g->drops_developer =
        status || (n[0] > 0 && n[0] == n[1] && memcmp(ids[0], ids[1], n[0] * sizeof *ids[0]) == 0);
    smol_free(ids[0]);
    smol_free(ids[1]);
    return status == SMOL_ERROR_MEMORY ? smol_fail(error, status, "%s", inner.message) : SMOL_OK;
}

static smol_status open_model(struct generator *g, const smol_model_params *params, int fd,
                              const char *path, smol_error *error)
{
    const struct serve_settings *settings = g->server->settings;
    smol_status status = smol_model_open_fd(fd, path, params, &g->model, error);
    if (status)
        return status;
    g->info = smol_model_get_info(g->model);
    g->sampler = (smol_sampler_params){.temperature = 1}; /* OpenAI's defaults */
    if (settings->model_defaults)
        g->sampler = smol_model_default_sampler(g->model);
    smol_constraints_init(&g->constraints, g->model, SMOL_JSON_SPACED, 0);
    status = smol_context_create(g->model, &settings->context, &g->base, error);
    if (status)
        return status;
    g->capacity = smol_context_capacity(g->base);
    status = try_developer(g, error);
    return status ? status : create_cache(g, error);
}

smol_status smol_generator_start(struct server *server, const smol_model_params *params, int fd,
                                 const char *path, struct generator **out, smol_error *error)
{
    struct generator *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g) {
        close(fd);
        return smol_fail_memory(error, "a model");
    }
    g->server = server;
    g->waiting_end = &g->waiting;
    g->loaded = time(NULL);
    fstat(fd, &g->file);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->work, NULL);
    set_name(g, path);
    smol_status status = open_model(g, params, fd, path, error);
    close(fd);
    if (!status)
        status = start_thread(g, error);
    if (status)
        smol_generator_stop(g);
    else
        *out = g;
    return status;
}

void smol_generator_hold(struct generator *g)
{
    atomic_fetch_add(&g->references, 1);
}

void smol_generator_release(struct generator *g)
{
    atomic_fetch_sub(&g->references, 1);
}

void smol_generator_note(struct generator *g, const smol_error *error)
{
    if (error->status == SMOL_ERROR_FILE || error->status == SMOL_ERROR_DAMAGED)
        atomic_store(&g->unreadable, true);
}

bool smol_generator_is_used(const struct generator *g)
{
    return atomic_load(&g->references) > 0;
}

void smol_generator_stop(struct generator *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->stopping = true;
    pthread_cond_signal(&g->work);
    pthread_mutex_unlock(&g->lock);
    if (g->has_thread)
        pthread_join(g->thread, NULL);
    if (g->model)
        smol_constraints_free(&g->constraints);
    smol_context_free(g->base);
    smol_prefix_cache_free(g->cache);
    smol_model_close(g->model);
    free(g->running);
    pthread_cond_destroy(&g->work);
    pthread_mutex_destroy(&g->lock);
    free(g);
}
