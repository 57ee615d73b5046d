/* Results of generations, see collector.h. */
#include "python/collector.h"

#include <time.h>

#include "common/hash.h"

/* --- an answer ----------------------------------------------------------------------------------
 */

static void add_parts(struct collector *c, const smol_reasoning_parts *parts)
{
    smol_buffer_add(&c->reasoning, parts->reasoning, parts->n_reasoning);
    smol_buffer_add(&c->text, parts->reply, parts->n_reply);
    c->n_reasoning_tokens = parts->n_tokens;
}

int smol_collect_text(void *user, const char *text, size_t size, uint32_t id)
{
    struct collector *c = user;
    smol_reasoning_parts parts = {.reply = text, .n_reply = size};
    if (c->reader && smol_reasoning_reader_add(c->reader, text, size, id, &parts, NULL))
        c->reasoning.failed = true;
    add_parts(c, &parts);
    if (id != SMOL_NO_TOKEN)
        smol_buffer_add(&c->ids, (const char *)&id, sizeof id);
    return c->text.failed || c->reasoning.failed || c->ids.failed || c->logprobs.failed;
}

void smol_collect_end(struct collector *collector)
{
    smol_reasoning_parts parts;
    if (!collector->reader)
        return;
    if (smol_reasoning_reader_end(collector->reader, &parts, NULL))
        collector->reasoning.failed = true;
    add_parts(collector, &parts);
}

void smol_collect_token(void *user, uint32_t id, const float *logits, size_t n)
{
    struct collector *c = user;
    if (c->wants_logprobs)
        smol_logprobs_add(&c->logprobs, c->n_logprobs, id, logits, n);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static size_t count_finished(smol_generation *const *generations, size_t n)
{
    size_t n_finished = 0;
    for (size_t i = 0; i < n; i++)
        n_finished += smol_generation_finished(generations[i], NULL, NULL) != 0;
    return n_finished;
}

static int have_text(struct collector *const *collectors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (collectors[i]->text.size > 0 || collectors[i]->reasoning.size > 0)
            return 1;
    return 0;
}

void smol_collect_run(smol_generation *const *generations, struct collector *const *collectors,
                      size_t n, uint64_t nanoseconds, int until_text)
{
    uint64_t start = now();
    size_t n_finished = count_finished(generations, n);
    do {
        smol_generation_step(generations, n);
    } while (count_finished(generations, n) == n_finished && now() - start < nanoseconds &&
             !(until_text && have_text(collectors, n)));
}

/* --- other results ------------------------------------------------------------------------------
 */

int smol_collect_part(void *user, smol_tool_part part, const char *text, size_t size)
{
    struct part_collector *c = user;
    const struct collected_part collected = {(uint32_t)part, (uint32_t)size};
    smol_buffer_add(&c->text, text, size);
    smol_buffer_add(&c->parts, (const char *)&collected, sizeof collected);
    return c->text.failed || c->parts.failed;
}

int smol_collect_progress(void *user, uint64_t done, uint64_t total)
{
    struct progress *progress = user;
    __atomic_store_n(&progress->total, total, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->done, done, __ATOMIC_RELAXED);
    return __atomic_load_n(&progress->cancel, __ATOMIC_RELAXED);
}

void smol_collect_choices(const float *logits, size_t n, size_t vocab_size, const uint32_t *next,
                          double *log_probs, struct choice *choices)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = logits + i * vocab_size;
        log_probs[i] = (double)row[next[i]] - smol_log_sum_exp(row, vocab_size);
        if (choices)
            choices[i] = smol_choice(row, vocab_size, next[i]);
    }
}

double smol_collect_exp(double x)
{
    return smol_exp(x);
}

uint64_t smol_collect_digest(const void *data, size_t size)
{
    return smol_digest(data, size);
}
