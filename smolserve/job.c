/* Jobs, see job.h. */
#include "smolserve/job.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cli/request/reasoning.h"
#include "cli/standard.h"
#include "common/clock.h"
#include "common/memory.h"
#include "smolserve/generator.h"
#include "smolserve/server.h"

/* Draws the job's id, such as chatcmpl-0123456789abcdef01234567, and the seed of a request that
 * states none. */
static bool draw(struct job *job)
{
    unsigned char bytes[12];
    uint64_t seed;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes ||
        getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return false;
    job->request.sampler.seed = seed >> 11; /* exact in a JSON number of any client */
    int length = snprintf(job->id, sizeof job->id, "%s", job->endpoint->id_prefix);
    for (size_t i = 0; i < sizeof bytes; i++)
        length += snprintf(job->id + length, sizeof job->id - (size_t)length, "%02x", bytes[i]);
    return true;
}

struct job *smol_job_new(struct server *server, const struct endpoint *endpoint)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->server = server;
    job->endpoint = endpoint;
    job->n = 1;
    job->fd = -1;
    job->request = (struct request){.max_tokens = SIZE_MAX,
                                    .logprobs = -1,
                                    .raw_reasoning = server->settings->reasoning == REASONING_NONE,
                                    .reasoning_budget = server->settings->reasoning_budget};
    atomic_init(&job->references, 1);
    if (!draw(job) || pthread_mutex_init(&job->lock, NULL)) {
        free(job);
        return NULL;
    }
    job->created = time(NULL);
    job->arrived = clock_seconds();
    job->deadline = job->arrived + server->settings->timeout;
    atomic_fetch_add(&server->n_jobs, 1);
    return job;
}

struct prompt *smol_job_add_prompt(struct job *job)
{
    if (!RESIZE(job->prompts, job->n_prompts + 1))
        return NULL;
    job->prompts[job->n_prompts] = (struct prompt){0};
    return &job->prompts[job->n_prompts++];
}

size_t smol_job_count(const struct job *job)
{
    size_t n = 0;
    for (size_t i = 0; i < job->n_prompts; i++)
        n += job->prompts[i].n;
    return n;
}

size_t smol_job_count_cached(struct job *job)
{
    size_t n = 0;
    pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < job->n_replies; i += job->n)
        n += job->replies[i].result.n_reused;
    pthread_mutex_unlock(&job->lock);
    return n;
}

bool smol_job_make_replies(struct job *job)
{
    uint32_t n = job->n * (uint32_t)job->n_prompts;
    job->replies = calloc(n, sizeof *job->replies);
    if (!job->replies)
        return false;
    job->n_replies = n;
    bool failed = false;
    for (uint32_t i = 0; i < n; i++) {
        const struct prompt *prompt = &job->prompts[i / job->n];
        struct reply *reply = &job->replies[i];
        reply->job = job;
        if (job->echo)
            smol_buffer_add(&reply->parts.text, prompt->text, prompt->size);
        failed |= reply->parts.text.failed;
    }
    return !failed;
}

struct job *smol_job_hold(struct job *job)
{
    atomic_fetch_add(&job->references, 1);
    return job;
}

void smol_job_release(struct job *job)
{
    if (!job || atomic_fetch_sub(&job->references, 1) != 1)
        return;
    for (uint32_t i = 0; i < job->n_replies; i++) {
        smol_parts_free(&job->replies[i].parts);
        free(job->replies[i].sent_reasoning.text);
        free(job->replies[i].sent.text);
        free(job->replies[i].sent_logprobs.text);
        smol_calls_free(&job->replies[i].sent_calls);
    }
    free(job->replies);
    for (size_t i = 0; i < job->n_prompts; i++) {
        free(job->prompts[i].text);
        smol_free(job->prompts[i].ids);
    }
    free(job->prompts);
    free(job->body.text);
    free(job->answer.text);
    free(job->states);
    free(job->prompt_name);
    free(job->query);
    free(job->ranking);
    free(job->instructions);
    free(job->tools);
    free(job->text);
    smol_request_free(&job->request);
    if (job->generator) {
        smol_constraints_release(&job->generator->constraints, job->constraint);
        smol_generator_release(job->generator);
    }
    pthread_mutex_destroy(&job->lock);
    atomic_fetch_sub(&job->server->n_jobs, 1);
    free(job);
}

/* With the lock held. */
static void wake(struct job *job)
{
    job->news = true;
    if (!job->suspended)
        return;
    job->suspended = false;
    MHD_resume_connection(job->connection);
}

void smol_job_wake(struct job *job)
{
    pthread_mutex_lock(&job->lock);
    wake(job);
    pthread_mutex_unlock(&job->lock);
}

smol_status smol_job_write(struct job *job, smol_error *error)
{
    struct held_output held;
    smol_status status = smol_held_start(&held, error);
    if (status)
        return status;
    struct json_out json = {.file = held.file};
    job->endpoint->write(job, &json);
    fputc('\n', held.file);
    for (uint32_t i = 0; i < job->n_replies; i++)
        if (job->replies[i].sent.failed) {
            smol_held_drop(&held);
            return smol_fail_memory(error, "the answer");
        }
    return smol_held_take(&held, &job->answer, error);
}

void smol_job_stop_waiting(struct job *job)
{
    if (job->waits)
        atomic_fetch_sub(&job->server->n_waiting, 1);
    job->waits = false;
}

/* With the lock held, after each of two events: the job has ended, its connection was taken. The
 * second one ends the request for its key. The last reference may be released later, when the
 * client, which has its answer, has already sent the next request. */
static void leave_key(struct job *job)
{
    if (job->client && job->ended && !job->connection)
        atomic_fetch_sub(&job->server->keys.items[job->client - 1].n_jobs, 1);
}

void smol_job_end(struct job *job, const struct refusal *refusal)
{
    smol_job_stop_waiting(job);
    smol_metrics_ended(&job->server->metrics, job); /* before the client can ask for them */
    pthread_mutex_lock(&job->lock);
    job->ended = true;
    if (refusal)
        job->refusal = *refusal;
    leave_key(job);
    wake(job);
    pthread_mutex_unlock(&job->lock);
    smol_job_release(job);
}

void smol_job_disconnect(struct job *job)
{
    pthread_mutex_lock(&job->lock);
    job->connection = NULL;
    job->fd = -1;
    job->suspended = false;
    if (!job->ended)
        atomic_store(&job->gone, true);
    leave_key(job);
    pthread_mutex_unlock(&job->lock);
    smol_job_release(job);
}

/* Returns whether the client has closed the connection. A suspended one is not watched by the HTTP
 * library. */
static bool is_abandoned(struct job *job)
{
    if (atomic_load(&job->gone))
        return true;
    pthread_mutex_lock(&job->lock);
    struct pollfd watched = {.fd = job->fd, .events = POLLRDHUP};
    bool closed = job->fd >= 0 && poll(&watched, 1, 0) > 0;
    pthread_mutex_unlock(&job->lock);
    if (closed)
        atomic_store(&job->gone, true);
    return closed;
}

bool smol_job_is_over(struct job *job, struct refusal *refusal)
{
    *refusal = (struct refusal){0};
    if (is_abandoned(job))
        smol_refuse(refusal, 499, "client_closed_request", "the client closed the connection");
    else if (clock_seconds() > job->deadline)
        smol_refuse(refusal, 504, "timeout", "the request took longer than %u seconds",
                    job->server->settings->timeout);
    return refusal->http != 0;
}

/* --- replies ------------------------------------------------------------------------------ */

/* With the lock held. A client that reads slowly lets many log-probabilities of a stream wait. */
static void take_logprobs(struct reply *reply, struct buffer *logprobs)
{
    enum { PIECE = 256 }; /* tokens of all replies */
    const struct job *job = reply->job;
    size_t each = sizeof(struct ranked) * (size_t)(1 + job->request.logprobs);
    size_t most = (1 + PIECE / job->n_replies) * each;
    struct buffer *found = &reply->parts.logprobs;
    size_t n = found->size - reply->n_taken;
    if (!job->stream || (n <= most && reply->n_taken == 0)) {
        *logprobs = *found;
        *found = (struct buffer){0};
        return;
    }
    n = n < most ? n : most;
    *logprobs = (struct buffer){0};
    smol_buffer_add(logprobs, found->text + reply->n_taken, n);
    reply->n_taken += n;
    if (reply->n_taken == found->size) {
        buffer_clear(found);
        reply->n_taken = 0;
    }
}

bool smol_reply_take(struct reply *reply, struct buffer *text, struct buffer *logprobs)
{
    struct job *job = reply->job;
    pthread_mutex_lock(&job->lock);
    take_logprobs(reply, logprobs);
    bool more = reply->parts.logprobs.size > 0;
    *text = reply->parts.text;
    reply->thought = reply->parts.reasoning;
    reply->parts.text = reply->parts.reasoning = (struct buffer){0};
    if (!more) {
        reply->news = reply->parts.calls;
        reply->parts.calls = (struct calls){0};
    }
    job->news |= more;
    bool ended = reply->ended && !more;
    pthread_mutex_unlock(&job->lock);
    for (size_t i = 0; i < reply->news.n; i++)
        reply->n_calls += reply->news.items[i].name.size > 0;
    return ended;
}

void smol_reply_drop_news(struct reply *reply)
{
    free(reply->thought.text);
    reply->thought = (struct buffer){0};
    smol_calls_free(&reply->news);
}

int smol_reply_text(void *user, const char *text, size_t size, uint32_t id)
{
    struct reply *reply = user;
    pthread_mutex_lock(&reply->job->lock);
    bool failed = reply->failed |= !smol_parts_add(&reply->parts, text, size, id);
    pthread_mutex_unlock(&reply->job->lock);
    return failed;
}

void smol_reply_token(void *user, uint32_t id, const float *logits, size_t n)
{
    struct reply *reply = user;
    int n_alternatives = reply->job->request.logprobs;
    if (n_alternatives < 0)
        return;
    struct buffer found = {0};
    smol_logprobs_add(&found, (size_t)n_alternatives, id, logits, n);
    pthread_mutex_lock(&reply->job->lock);
    struct answer_parts *parts = &reply->parts;
    smol_buffer_add(reply->job->request.is_chat ? &parts->waiting : &parts->logprobs, found.text,
                    found.size);
    reply->failed |= found.failed || parts->waiting.failed || parts->logprobs.failed;
    pthread_mutex_unlock(&reply->job->lock);
    free(found.text);
}
