/* Many answers from one model handle for a long time: questions at random, asked again and again
 * under other circumstances, each of which must bring the same bits and leave no memory behind.
 *
 *     soak BLOB SECONDS [SEED]
 *
 * What a question is (text, KV type, sampling, length, a context too short for it) follows from its
 * number. What it is asked under is drawn anew each time: threads, batches, a new context or a used
 * one, cancellations from the callback. Several workers ask at once. After each epoch they end, and
 * the memory in use is compared with that of the first epochs. It uses smol.h alone. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/smol.h"
#include "tests/unit/sanitized.h"

enum {
    N_QUESTIONS = 8192,
    N_WORKERS = 3,
    ASKED_PER_EPOCH = SANITIZED ? 10 : 100, /* by each worker */
    WARM_EPOCHS = 5,
    MAX_PROMPT = 300, /* more than two batches of the library */
    MAX_ANSWER = 24,
    MAX_TEXT = 1200,
    CEILING = 384 << 20, /* address space, beside the blob's */
    HEAP_SLACK = 64 << 10,
    RESIDENT_SLACK = 8 << 20,
};

struct soak {
    smol_model *model;
    smol_model_info info;
    uint64_t seed;
    _Atomic uint64_t answers[N_QUESTIONS]; /* digests; 0: not asked yet */
    atomic_ulong n_asked, n_again, n_cancelled, n_reused;
    atomic_bool failed;
};

struct worker {
    struct soak *soak;
    pthread_t thread;
    uint64_t random;       /* of the circumstances */
    smol_context *context; /* used before, or NULL */
    float *logits;         /* (vocab_size) */
};

struct question {
    smol_kv kv;
    smol_sampler_params sampler;
    size_t max_tokens;
    size_t n_prompt;
    uint32_t prompt[MAX_PROMPT];
    uint32_t n_ctx; /* too short for the answer; 0: any that is long enough */
};

/* What has come so far, and the token at which to cancel. */
struct answer {
    uint32_t ids[MAX_PROMPT + MAX_ANSWER]; /* prompt and generated */
    size_t n;
    size_t cancel_at; /* of all ids */
};

/* --- small things ------------------------------------------------------------------------- */

static void fail(struct soak *soak, const char *what, const char *detail)
{
    if (!atomic_exchange(&soak->failed, 1))
        fprintf(stderr, "soak: %s: %s\n", what, detail);
}

/* SplitMix64. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* 0..n-1 */
static size_t pick(uint64_t *state, size_t n)
{
    return (size_t)(next(state) % n);
}

/* FNV-1a, never 0. */
static uint64_t digest(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash ? hash : 1;
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* --- questions ---------------------------------------------------------------------------- */

/* Text of random tokens with stray bytes between, which the tokenizer cuts anew. */
static size_t make_text(const struct soak *soak, uint64_t *random, char text[MAX_TEXT])
{
    size_t size = 0, wanted = 1 + pick(random, pick(random, 4) ? 120 : MAX_TEXT - 1);
    while (size < wanted) {
        size_t n;
        const char *token =
            smol_token_text(soak->model, (uint32_t)pick(random, soak->info.vocab_size), &n, NULL);
        n = n < wanted - size ? n : wanted - size;
        memcpy(text + size, token, n);
        size += n;
        if (size < wanted && pick(random, 8) == 0)
            text[size++] = (char)next(random);
    }
    return size;
}

static int make_question(struct soak *soak, size_t number, struct question *question)
{
    uint64_t random = soak->seed + number;
    char text[MAX_TEXT];
    uint32_t *ids;
    size_t size = make_text(soak, &random, text), n;
    smol_error error;
    if (smol_tokenize(soak->model, text, size, (int)pick(&random, 2), &ids, &n, &error)) {
        fail(soak, "tokenize", error.message);
        return 0;
    }
    *question = (struct question){
        .kv = (smol_kv)pick(&random, 4),
        .max_tokens = 1 + pick(&random, MAX_ANSWER),
        .n_prompt = n < MAX_PROMPT ? n : MAX_PROMPT,
    };
    memcpy(question->prompt, ids, question->n_prompt * sizeof *ids);
    smol_free(ids);
    if (pick(&random, 3))
        question->sampler = (smol_sampler_params){
            .temperature = 0.5f + (float)pick(&random, 10) / 10,
            .top_k = (uint32_t)pick(&random, 60),
            .top_p = pick(&random, 2) ? 0.9f : 0,
            .min_p = pick(&random, 2) ? 0.05f : 0,
            .repetition_penalty = pick(&random, 2) ? 1.2f : 0,
            .seed = next(&random),
        };
    if (pick(&random, 6) == 0)
        question->n_ctx = (uint32_t)(question->n_prompt + pick(&random, question->max_tokens));
    return 1;
}

/* --- asking ------------------------------------------------------------------------------- */

/* A context for the question: the one at hand, when it will do, or a new one. */
static int take_context(struct worker *w, const struct question *question)
{
    struct soak *soak = w->soak;
    size_t needed = question->n_prompt + question->max_tokens;
    static const char *const kv_names[] = {NULL, "f32", "f16", "int8"};
    if (w->context && question->n_ctx == 0 && pick(&w->random, 3) &&
        smol_context_capacity(w->context) >= needed && question->kv != SMOL_KV_DEFAULT &&
        strcmp(smol_context_get_info(w->context).kv, kv_names[question->kv]) == 0) {
        smol_context_truncate(w->context, 0);
        soak->n_reused++;
        return 1;
    }
    smol_error error;
    smol_context_params params = {
        .kv = question->kv,
        .n_threads = (uint32_t)(1 + pick(&w->random, 4)),
        .n_ctx = question->n_ctx,
    };
    if (params.n_ctx == 0 && pick(&w->random, 2)) /* otherwise the model's */
        params.n_ctx = (uint32_t)(needed + pick(&w->random, 100));
    smol_context_free(w->context);
    w->context = NULL;
    if (!smol_context_create(soak->model, &params, &w->context, &error))
        return 1;
    fail(soak, "context", error.message);
    return 0;
}

/* Evaluates the prompt in random parts; *hash takes the logits after it. */
static int read_prompt(struct worker *w, const struct question *question, uint64_t *hash)
{
    smol_error error;
    for (size_t done = 0; done < question->n_prompt;) {
        size_t left = question->n_prompt - done, n = 1 + pick(&w->random, left);
        if (smol_eval(w->context, question->prompt + done, n, n == left, w->logits, &error)) {
            fail(w->soak, "eval", error.message);
            return 0;
        }
        done += n;
    }
    *hash = digest(*hash, w->logits, w->soak->info.vocab_size * sizeof *w->logits);
    return 1;
}

static int take_token(void *user, const char *text, size_t size, uint32_t id)
{
    (void)text;
    (void)size;
    struct answer *answer = user;
    if (id != SMOL_NO_TOKEN)
        answer->ids[answer->n++] = id;
    return answer->n >= answer->cancel_at;
}

/* Generates, cancels now and then, and goes on as if nothing had happened: behind the same
 * context, with the same history, and the sampler where it was. */
static int generate(struct worker *w, const struct question *question, smol_sampler *sampler,
                    uint64_t *hash)
{
    struct answer answer = {.n = question->n_prompt};
    smol_generate_params params = {.on_text = take_token, .user = &answer};
    smol_generate_result result = {.finish = SMOL_FINISH_CANCELLED};
    smol_error error;
    size_t n_prompt = question->n_prompt;
    memcpy(answer.ids, question->prompt, n_prompt * sizeof *answer.ids);
    /* the last token that a full context brings takes no place in it */
    size_t end = n_prompt + question->max_tokens, most = smol_context_capacity(w->context) + 1;
    while (result.finish == SMOL_FINISH_CANCELLED && answer.n < (end < most ? end : most)) {
        params.max_tokens = end - answer.n;
        answer.cancel_at = pick(&w->random, 2) ? SIZE_MAX : answer.n + 1 + pick(&w->random, 8);
        smol_context_truncate(w->context, n_prompt - 1);
        if (smol_generate(w->context, sampler, answer.ids + n_prompt - 1, answer.n - n_prompt + 1,
                          &params, &result, &error)) {
            fail(w->soak, "generate", error.message);
            return 0;
        }
        w->soak->n_cancelled += result.finish == SMOL_FINISH_CANCELLED;
    }
    *hash = digest(*hash, answer.ids, answer.n * sizeof *answer.ids);
    return 1;
}

static int ask(struct worker *w, const struct question *question, uint64_t *hash)
{
    smol_error error;
    smol_sampler *sampler;
    *hash = 0xcbf29ce484222325;
    if (!take_context(w, question) || !read_prompt(w, question, hash))
        return 0;
    if (smol_sampler_create(&question->sampler, &sampler, &error)) {
        fail(w->soak, "sampler", error.message);
        return 0;
    }
    int good = generate(w, question, sampler, hash);
    smol_sampler_free(sampler);
    return good;
}

/* The first answer to a question is kept, all others must equal it. */
static void compare(struct soak *soak, size_t number, uint64_t hash)
{
    uint64_t expected = 0;
    soak->n_asked++;
    if (atomic_compare_exchange_strong(&soak->answers[number], &expected, hash))
        return;
    soak->n_again++;
    char detail[80];
    snprintf(detail, sizeof detail, "question %zu of seed %llu", number,
             (unsigned long long)soak->seed);
    if (expected != hash)
        fail(soak, "another answer than before", detail);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct soak *soak = w->soak;
    w->logits = calloc(soak->info.vocab_size, sizeof *w->logits);
    if (!w->logits)
        fail(soak, "logits", "out of memory");
    for (int i = 0; i < ASKED_PER_EPOCH && !soak->failed; i++) {
        /* half of the questions from a few: soon asked again */
        size_t number = pick(&w->random, pick(&w->random, 2) ? N_QUESTIONS : 64);
        struct question question;
        uint64_t hash;
        if (make_question(soak, number, &question) && ask(w, &question, &hash))
            compare(soak, number, hash);
    }
    smol_context_free(w->context);
    free(w->logits);
    return NULL;
}

/* --- memory ------------------------------------------------------------------------------- */

struct memory {
    size_t heap;     /* bytes that are allocated */
    size_t resident; /* anonymous memory */
};

static struct memory measure(void)
{
    struct mallinfo2 info = mallinfo2();
    struct memory memory = {.heap = info.uordblks + info.hblkhd};
    size_t size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%zu %zu %zu", &size, &resident, &shared) == 3)
        memory.resident = (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
    if (file)
        fclose(file);
    return memory;
}

static void check_growth(struct soak *soak, struct memory before, struct memory now)
{
    char detail[120];
    snprintf(detail, sizeof detail, "heap %zu -> %zu bytes, resident %zu -> %zu", before.heap,
             now.heap, before.resident, now.resident);
    if (now.heap > before.heap + HEAP_SLACK)
        fail(soak, "the heap grows", detail);
    if (!SANITIZED && now.resident > before.resident + RESIDENT_SLACK)
        fail(soak, "memory grows", detail);
}

/* Sanitizers reserve address space without end. */
static int limit_memory(uint64_t blob_bytes)
{
    struct rlimit limit = {CEILING + blob_bytes, CEILING + blob_bytes};
    return SANITIZED || setrlimit(RLIMIT_AS, &limit) == 0;
}

/* --- the whole ---------------------------------------------------------------------------- */

static void run_epoch(struct soak *soak, uint64_t epoch)
{
    struct worker workers[N_WORKERS] = {{0}};
    int n = 0;
    for (; n < N_WORKERS; n++) {
        workers[n].soak = soak;
        workers[n].random = soak->seed ^ (epoch * N_WORKERS + (uint64_t)n + 1) << 20;
        if (pthread_create(&workers[n].thread, NULL, work, &workers[n])) {
            fail(soak, "thread", "cannot start");
            break;
        }
    }
    while (n-- > 0)
        pthread_join(workers[n].thread, NULL);
}

static void report(const struct soak *soak, double elapsed, struct memory memory)
{
    printf("soak: %.0f s: %lu questions, %lu of them again, %lu cancellations, %lu contexts used "
           "again; heap %.1f KB, resident %.1f MB\n",
           elapsed, soak->n_asked, soak->n_again, soak->n_cancelled, soak->n_reused,
           (double)memory.heap / 1e3, (double)memory.resident / 1e6);
    fflush(stdout);
}

static void soak_for(struct soak *soak, double duration)
{
    double start = seconds(), told = start;
    struct memory before = {0}, now = {0};
    for (uint64_t epoch = 0; !soak->failed; epoch++) {
        run_epoch(soak, epoch);
        now = measure();
        if (epoch < WARM_EPOCHS || now.resident < before.resident / 2)
            before = now;
        else
            check_growth(soak, before, now);
        if (epoch > WARM_EPOCHS && seconds() - start >= duration)
            break;
        if (seconds() - told >= 60) {
            told = seconds();
            report(soak, told - start, now);
        }
    }
    report(soak, seconds() - start, now);
}

int main(int argc, char **argv)
{
    static struct soak soak;
    smol_error error;
    if (argc < 3 || argc > 4) {
        fputs("usage: soak BLOB SECONDS [SEED]\n", stderr);
        return 2;
    }
    mallopt(M_ARENA_MAX, 2); /* each reserves address space */
    soak.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 42;
    if (smol_model_open(argv[1], NULL, &soak.model, &error)) {
        fprintf(stderr, "soak: %s\n", error.message);
        return 1;
    }
    soak.info = smol_model_get_info(soak.model);
    if (!limit_memory(soak.info.blob_bytes))
        fail(&soak, "the memory ceiling", "cannot be set");
    soak_for(&soak, strtod(argv[2], NULL));
    smol_model_close(soak.model);
    printf("%d passed, %d failed\n", !soak.failed, soak.failed);
    return soak.failed;
}
