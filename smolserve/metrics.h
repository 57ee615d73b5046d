/* Counters for GET /metrics, in the text format of Prometheus. */
#ifndef SMOL_SMOLSERVE_METRICS_H
#define SMOL_SMOLSERVE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

struct job;
struct server;

enum { N_BOUNDS = 12 };

/* A histogram of seconds. */
struct histogram {
    atomic_uint_fast64_t buckets[N_BOUNDS + 1], microseconds;
};

enum { LEAST_STATUS = 200, N_STATUSES = 400 }; /* 200 to 599 */

struct metrics {
    atomic_uint_fast64_t requests[N_STATUSES]; /* by HTTP status */
    atomic_uint_fast64_t prompt_tokens, cached_tokens, completion_tokens, cancelled, lost_lines;
    struct histogram first_token, each_token, queue;
};

/* Counts an answer that was sent. */
void smol_metrics_status(struct metrics *metrics, unsigned http);

/* Counts a job that a generator has taken. */
void smol_metrics_started(struct metrics *metrics, const struct job *job);

/* Counts a job that has ended, taken or not. */
void smol_metrics_ended(struct metrics *metrics, const struct job *job);

void smol_metrics_write(struct server *server, FILE *out);

#endif
