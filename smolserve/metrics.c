/* Counters, see metrics.h. */
#include "smolserve/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "smolserve/server.h"

static const double bounds[N_BOUNDS] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};

static void add(struct histogram *histogram, double seconds)
{
    size_t i = 0;
    while (i < N_BOUNDS && seconds > bounds[i])
        i++;
    atomic_fetch_add(&histogram->buckets[i], 1);
    atomic_fetch_add(&histogram->microseconds, (uint_fast64_t)(seconds * 1e6));
}

void smol_metrics_status(struct metrics *metrics, unsigned http)
{
    if (http >= LEAST_STATUS && http < LEAST_STATUS + N_STATUSES)
        atomic_fetch_add(&metrics->requests[http - LEAST_STATUS], 1);
}

void smol_metrics_started(struct metrics *metrics, const struct job *job)
{
    add(&metrics->queue, job->started - job->arrived);
    atomic_fetch_add(&metrics->prompt_tokens, smol_job_count(job));
}

void smol_metrics_ended(struct metrics *metrics, const struct job *job)
{
    size_t n_tokens = 0, n_cached = 0;
    for (uint32_t i = 0; i < job->n_replies; i++) {
        const smol_generate_result *result = &job->replies[i].result;
        n_tokens += result->n_generated;
        n_cached += result->n_reused;
        if (result->n_generated > 1)
            add(&metrics->each_token, result->decode_seconds / (double)(result->n_generated - 1));
    }
    if (job->first_token > 0)
        add(&metrics->first_token, job->first_token - job->arrived);
    atomic_fetch_add(&metrics->completion_tokens, n_tokens);
    atomic_fetch_add(&metrics->cached_tokens, n_cached);
    if (atomic_load(&job->gone))
        atomic_fetch_add(&metrics->cancelled, 1);
}

/* --- output ----------------------------------------------------------------------------------- */

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
    head(out, name, type, help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void write_histogram(FILE *out, const char *name, const char *help,
                            const struct histogram *histogram)
{
    uint64_t sum = 0;
    head(out, name, "histogram", help);
    for (size_t i = 0; i <= N_BOUNDS; i++) {
        sum += atomic_load(&histogram->buckets[i]);
        if (i < N_BOUNDS)
            fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], sum);
        else
            fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, sum);
    }
    fprintf(out, "%s_sum %.6f\n", name, (double)atomic_load(&histogram->microseconds) * 1e-6);
    fprintf(out, "%s_count %" PRIu64 "\n", name, sum);
}

static void write_requests(FILE *out, const struct metrics *metrics)
{
    static const char name[] = "smolserve_requests_total";
    head(out, name, "counter", "Answers sent, by HTTP status.");
    for (unsigned i = 0; i < N_STATUSES; i++) {
        uint64_t n = atomic_load(&metrics->requests[i]);
        if (n > 0)
            fprintf(out, "%s{status=\"%u\"} %" PRIu64 "\n", name, LEAST_STATUS + i, n);
    }
}

/* Returns the resident memory in bytes from a file of the kernel's, open since the start; 0 if it
 * cannot be read. */
static uint64_t resident_bytes(int statm)
{
    char text[128] = "", *second = text;
    if (statm < 0 || pread(statm, text, sizeof text - 1, 0) <= 0)
        return 0;
    (void)strtoull(text, &second, 10); /* of all memory */
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Sums over generators. */
struct sums {
    uint64_t n_sequences, kv_bytes, cache_bytes, n_evicted;
};

static void add_generator(struct sums *sums, const struct generator *generator)
{
    sums->n_sequences += atomic_load(&generator->n_sequences);
    sums->kv_bytes += atomic_load(&generator->kv_bytes);
    if (!generator->cache)
        return;
    const smol_prefix_cache_info info = smol_prefix_cache_get_info(generator->cache);
    sums->cache_bytes += info.bytes;
    sums->n_evicted += info.n_evicted;
}

static void write_gauges(struct server *server, FILE *out)
{
    struct sums sums = {0};
    struct models *models = &server->models;
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->n; i++)
        add_generator(&sums, models->items[i]);
    sums.n_evicted += models->n_evicted;
    uint64_t n_evicted = sums.n_evicted;
    for (const struct generator *g = models->retired; g; g = g->next_retired)
        add_generator(&sums, g);
    uint64_t n_replaced = models->n_replaced, n_refused = models->n_refused;
    pthread_mutex_unlock(&models->lock);
    one(out, "smolserve_sequences", "gauge", "Sequences that are being generated.",
        sums.n_sequences);
    one(out, "smolserve_waiting", "gauge",
        "Requests whose answer has not begun: being tokenized, or waiting for a sequence.",
        atomic_load(&server->n_waiting));
    one(out, "smolserve_connections", "gauge", "Open connections.",
        smol_connections_count(&server->connections));
    one(out, "smolserve_kv_bytes", "gauge", "Keys and values of the sequences.", sums.kv_bytes);
    one(out, "smolserve_cache_bytes", "gauge",
        "Keys and values in the caches of prefixes, some of which sequences use.",
        sums.cache_bytes);
    one(out, "smolserve_cache_evictions_total", "counter",
        "Blocks of 64 tokens that were removed from the caches.", n_evicted);
    one(out, "smolserve_replaced_total", "counter", "Blobs that were replaced in use.", n_replaced);
    one(out, "smolserve_replacements_refused_total", "counter",
        "Replacement blobs that were refused because they are damaged or not supported.",
        n_refused);
    one(out, "smolserve_resident_bytes", "gauge",
        "Resident memory, the mapped blob's part included.", resident_bytes(server->statm));
}

void smol_metrics_write(struct server *server, FILE *out)
{
    const struct metrics *metrics = &server->metrics;
    write_requests(out, metrics);
    one(out, "smolserve_prompt_tokens_total", "counter", "Tokens of prompts.",
        atomic_load(&metrics->prompt_tokens));
    one(out, "smolserve_cached_tokens_total", "counter",
        "Tokens of prompts that were found in a cache, for each answer.",
        atomic_load(&metrics->cached_tokens));
    one(out, "smolserve_completion_tokens_total", "counter", "Tokens generated.",
        atomic_load(&metrics->completion_tokens));
    one(out, "smolserve_cancelled_total", "counter", "Requests whose clients disconnected.",
        atomic_load(&metrics->cancelled));
    one(out, "smolserve_log_lines_lost_total", "counter",
        "Lines on standard error that could not be written.", atomic_load(&metrics->lost_lines));
    write_histogram(out, "smolserve_queue_seconds",
                    "Time from a request's arrival until its generation began.", &metrics->queue);
    write_histogram(out, "smolserve_first_token_seconds",
                    "Time from a request's arrival to its first token.", &metrics->first_token);
    write_histogram(out, "smolserve_token_seconds",
                    "Time of each later token, averaged over a reply.", &metrics->each_token);
    write_gauges(server, out);
}
