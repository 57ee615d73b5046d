/* Many answers from one model handle for a long time: questions at random, asked again and again
 * under other circumstances, each of which must bring the same bits and leave no memory behind.
 *
 *     soak BLOB SECONDS [SEED]
 *
 * A question (text, KV type, sampling, length, a context too short for it, which may slide) follows
 * from its number. Its conditions are drawn anew each time: threads, batches, a new
 * context or a used one, cancellations from the callback, moves to another context through a saved
 * session, other questions that are evaluated in the same passes. An answer is what was generated,
 * the logits after the prompt, and the session at the end. Several workers ask at once. After each
 * epoch they end, and the memory in use is compared with that of the first epochs. It uses smol.h
 * alone. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "smol.h"
#include "tests/unit/sanitized.h"

enum {
    N_QUESTIONS = 8192,
    N_WORKERS = 3,
    ASKED_PER_EPOCH = SANITIZED ? 10 : 100, /* by each worker */
    WARM_EPOCHS = 5,
    MAX_PROMPT = 300, /* more than two batches of the library */
    MAX_ANSWER = 24,
    MAX_TEXT = 1200,
    MAX_TOGETHER = 4,
    CEILING = 384 << 20, /* address space, beside the blob's */
    HEAP_SLACK = 64 << 10,
    RESIDENT_SLACK = 8 << 20,
};

struct soak {
    smol_model *model;
    smol_model_info info;
    uint64_t seed;
    _Atomic uint64_t answers[N_QUESTIONS]; /* digests; 0: not asked yet */
    atomic_ulong n_asked, n_again, n_cancelled, n_reused, n_slides, n_moved, n_together;
    atomic_bool failed;
};

struct question {
    smol_kv kv;
    smol_sampler_params sampler;
    size_t max_tokens;
    size_t n_prompt;
    uint32_t prompt[MAX_PROMPT];
    uint32_t n_ctx; /* too short for the answer; 0: any that is long enough */
    int slide;      /* then the context slides, and keeps so many of its first tokens */
    size_t n_keep;
};

/* The tokens so far, and the one at which to cancel. */
struct answer {
    uint32_t ids[MAX_PROMPT + MAX_ANSWER]; /* prompt and generated */
    size_t n;
    size_t cancel_at; /* of all ids */
};

/* A question that is being asked. */
struct sequence {
    struct question question;
    struct answer answer;
    size_t number; /* of the question */
    smol_context *context;
    smol_sampler *sampler;
    smol_generation *generation; /* when others are asked at the same time */
    float *logits;               /* (vocab_size), after the prompt */
    uint64_t hash;
    int finished;
};

struct worker {
    struct soak *soak;
    pthread_t thread;
    uint64_t random;       /* of the circumstances */
    smol_context *context; /* used before, or NULL */
    struct sequence sequences[MAX_TOGETHER];
};

/* --- small things ------------------------------------------------------------------------- */

/* Returns 0. */
static int fail(struct soak *soak, const char *what, const char *detail)
{
    if (!atomic_exchange(&soak->failed, 1))
        fprintf(stderr, "soak: %s: %s\n", what, detail);
    return 0;
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
        const char *token;
        smol_token_text(soak->model, (uint32_t)pick(random, soak->info.vocab_size), &token, &n,
                        NULL, NULL);
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
    const smol_tokenize_params params = {.parse_special = (int)pick(&random, 2)};
    if (smol_tokenize(soak->model, text, size, &params, &ids, &n, &error))
        return fail(soak, "tokenize", error.message);
    *question = (struct question){
        .kv = (smol_kv)pick(&random, 5),
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
    if (pick(&random, 4) == 0)
        question->n_ctx = (uint32_t)(question->n_prompt + pick(&random, question->max_tokens));
    question->slide = question->n_ctx > 0 && pick(&random, 2);
    question->n_keep = question->slide ? pick(&random, question->n_ctx) : 0;
    return 1;
}

/* --- contexts ----------------------------------------------------------------------------- */

/* A context for a question alone, or for the first of several: the one at hand, when it will do, or
 * a new one. */
static int take_context(struct worker *w, struct sequence *s)
{
    struct soak *soak = w->soak;
    const struct question *question = &s->question;
    size_t needed = question->n_prompt + question->max_tokens;
    static const char *const kv_names[] = {NULL, "f32", "f16", "int8", "int4"};
    s->context = w->context;
    w->context = NULL;
    if (s->context && question->n_ctx == 0 && pick(&w->random, 3) &&
        smol_context_capacity(s->context) >= needed && question->kv != SMOL_KV_DEFAULT &&
        strcmp(smol_context_get_info(s->context).kv, kv_names[question->kv]) == 0) {
        smol_context_truncate(s->context, 0);
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
    smol_context_free(s->context);
    return !smol_context_create(soak->model, &params, &s->context, &error) ||
           fail(soak, "context", error.message);
}

/* A context for one more question, to be asked together with the first. */
static int share_context(struct worker *w, struct sequence *s)
{
    smol_error error;
    const smol_context_params params = {
        .kv = s->question.kv, .n_ctx = s->question.n_ctx, .share = w->sequences[0].context};
    return !smol_context_create(w->soak->model, &params, &s->context, &error) ||
           fail(w->soak, "context", error.message);
}

/* Saves the sequence and goes on with it in a new context, which shares with the old one while
 * there are others that do, and a new sampler. */
static int move(struct worker *w, struct sequence *s, int is_alone)
{
    const smol_sampler_params other = {.seed = 1};
    smol_session session = {.sampler = s->sampler};
    smol_context_params params = {.kv = s->question.kv,
                                  .n_ctx = (uint32_t)smol_context_capacity(s->context)};
    void *bytes;
    size_t size;
    smol_error error;
    if (smol_context_save_memory(s->context, &session, &bytes, &size, &error))
        return fail(w->soak, "save", error.message);
    smol_context *old = s->context;
    s->context = NULL;
    if (is_alone) { /* its threads end before others start */
        smol_context_free(old);
        old = NULL;
        params.n_threads = (uint32_t)(1 + pick(&w->random, 4));
    }
    params.share = old;
    smol_sampler_free(s->sampler);
    s->sampler = NULL;
    smol_status status = smol_sampler_create(&other, &s->sampler, &error);
    session.sampler = s->sampler;
    if (!status)
        status = smol_context_create(w->soak->model, &params, &s->context, &error);
    if (!status)
        status = smol_context_restore_memory(s->context, &session, bytes, size, &error);
    smol_context_free(old);
    smol_free(bytes);
    w->soak->n_moved++;
    return !status || fail(w->soak, "restore", error.message);
}

/* --- prompts ------------------------------------------------------------------------------ */

/* Evaluates the prompt in random parts. */
static int read_prompt(struct worker *w, struct sequence *s)
{
    smol_error error;
    const struct question *question = &s->question;
    for (size_t done = 0; done < question->n_prompt;) {
        size_t left = question->n_prompt - done, n = 1 + pick(&w->random, left);
        if (smol_eval(s->context, question->prompt + done, n, n == left, s->logits, &error))
            return fail(w->soak, "eval", error.message);
        done += n;
    }
    return 1;
}

/* Evaluates several prompts in random parts, some of them at a time. */
static int read_prompts(struct worker *w, size_t n)
{
    smol_error error;
    for (size_t n_left = 1; n_left > 0;) {
        smol_eval_part parts[MAX_TOGETHER];
        size_t n_parts = 0;
        n_left = 0;
        for (size_t i = 0; i < n; i++) {
            struct sequence *s = &w->sequences[i];
            size_t done = smol_context_length(s->context), left = s->question.n_prompt - done;
            n_left += left > 0;
            if (left == 0 || pick(&w->random, 4) == 0)
                continue;
            size_t some = 1 + pick(&w->random, left);
            parts[n_parts++] = (smol_eval_part){
                .context = s->context,
                .ids = s->question.prompt + done,
                .n = some,
                .n_logits = some == left,
                .logits = s->logits,
            };
        }
        if (n_parts > 0 && smol_eval_many(parts, n_parts, &error))
            return fail(w->soak, "eval_many", error.message);
    }
    return 1;
}

/* --- answers ------------------------------------------------------------------------------ */

static int take_token(void *user, const char *text, size_t size, uint32_t id)
{
    (void)text;
    (void)size;
    struct answer *answer = user;
    if (id != SMOL_NO_TOKEN)
        answer->ids[answer->n++] = id;
    return answer->n >= answer->cancel_at;
}

/* How many ids there are at the end, unless a stop token comes. */
static size_t end_of(const struct sequence *s)
{
    /* the last token that a full context brings takes no place in it */
    size_t end = s->question.n_prompt + s->question.max_tokens;
    size_t most = smol_context_capacity(s->context) + 1;
    return s->question.slide || end < most ? end : most;
}

/* The first ids of a generation, as if no other had come before: those that are chosen but not
 * evaluated, or everything after the prompt again while that is where it was. */
static const uint32_t *next_ids(struct worker *w, struct sequence *s, uint32_t *pending, size_t *n)
{
    size_t n_prompt = s->question.n_prompt;
    *pending = smol_context_pending(s->context);
    if (s->answer.n > n_prompt && *pending != SMOL_NO_TOKEN &&
        (s->question.slide || pick(&w->random, 2))) {
        *n = 1;
        return pending;
    }
    if (s->answer.n > n_prompt && s->question.slide)
        fail(w->soak, "a cancelled generation", "left no token");
    smol_context_truncate(s->context, n_prompt - 1);
    *n = s->answer.n - n_prompt + 1;
    return s->answer.ids + n_prompt - 1;
}

static smol_generate_params params_of(struct worker *w, struct sequence *s)
{
    s->answer.cancel_at = pick(&w->random, 2) ? SIZE_MAX : s->answer.n + 1 + pick(&w->random, 8);
    return (smol_generate_params){
        .max_tokens = s->question.n_prompt + s->question.max_tokens - s->answer.n,
        .slide = s->question.slide,
        .lookup = pick(&w->random, 2),
        .n_keep = s->question.n_keep,
        .penalize_context = 1,
        .on_text = take_token,
        .user = &s->answer,
    };
}

/* After a generation: whether the answer is whole; if not, it may go on elsewhere. */
static int settle(struct worker *w, struct sequence *s, const smol_generate_result *result,
                  int is_alone)
{
    w->soak->n_slides += result->n_slides;
    s->finished = result->finish != SMOL_FINISH_CANCELLED || s->answer.n >= end_of(s);
    w->soak->n_cancelled += result->finish == SMOL_FINISH_CANCELLED;
    return s->finished || pick(&w->random, 3) || move(w, s, is_alone);
}

/* Generates, cancels now and then, and goes on as if nothing had happened. */
static int generate(struct worker *w, struct sequence *s)
{
    smol_generate_result result;
    smol_error error;
    while (!s->finished) {
        uint32_t pending;
        size_t n;
        const uint32_t *ids = next_ids(w, s, &pending, &n);
        const smol_generate_params params = params_of(w, s);
        if (n == 1 && ids == &pending && pick(&w->random, 2))
            n = 0; /* means the same */
        if (smol_generate(s->context, s->sampler, ids, n, &params, &result, &error))
            return fail(w->soak, "generate", error.message);
        if (!settle(w, s, &result, 1))
            return 0;
    }
    return 1;
}

static int begin(struct worker *w, struct sequence *s)
{
    uint32_t pending;
    size_t n;
    smol_error error;
    const uint32_t *ids = next_ids(w, s, &pending, &n);
    const smol_generate_params params = params_of(w, s);
    return !smol_generation_create(s->context, s->sampler, ids, n, &params, &s->generation,
                                   &error) ||
           fail(w->soak, "generation", error.message);
}

static int finish(struct worker *w, struct sequence *s)
{
    smol_generate_result result;
    smol_error error;
    if (!smol_generation_finished(s->generation, &result, &error))
        return 1;
    smol_generation_free(s->generation);
    s->generation = NULL;
    if (error.status && error.status != SMOL_ERROR_CANCELLED)
        return fail(w->soak, "generation", error.message);
    return settle(w, s, &result, 0);
}

/* Several generations in one set of passes; they join and leave at any time. */
static int generate_together(struct worker *w, size_t n)
{
    for (size_t n_left = 1; n_left > 0;) {
        smol_generation *generations[MAX_TOGETHER];
        size_t n_active = 0;
        n_left = 0;
        for (size_t i = 0; i < n; i++) {
            struct sequence *s = &w->sequences[i];
            n_left += !s->finished;
            if (!s->finished && !s->generation && pick(&w->random, 2) && !begin(w, s))
                return 0;
            if (s->generation)
                generations[n_active++] = s->generation;
        }
        if (n_active > 0)
            smol_generation_step(generations, n_active);
        for (size_t i = 0; i < n; i++)
            if (w->sequences[i].generation && !finish(w, &w->sequences[i]))
                return 0;
    }
    return 1;
}

/* --- asking ------------------------------------------------------------------------------- */

/* The answer's digest: logits, ids, and the session. */
static int sign(struct worker *w, struct sequence *s)
{
    const smol_session session = {.sampler = s->sampler};
    void *bytes;
    size_t size;
    smol_error error;
    s->hash = digest(0xcbf29ce484222325, s->logits, w->soak->info.vocab_size * sizeof *s->logits);
    s->hash = digest(s->hash, s->answer.ids, s->answer.n * sizeof *s->answer.ids);
    if (smol_context_save_memory(s->context, &session, &bytes, &size, &error))
        return fail(w->soak, "save", error.message);
    s->hash = digest(s->hash, bytes, size);
    smol_free(bytes);
    return 1;
}

static int open_sequence(struct worker *w, struct sequence *s)
{
    smol_error error;
    s->finished = 0;
    s->answer.n = s->question.n_prompt;
    memcpy(s->answer.ids, s->question.prompt, s->question.n_prompt * sizeof *s->answer.ids);
    if (smol_sampler_create(&s->question.sampler, &s->sampler, &error))
        return fail(w->soak, "sampler", error.message);
    return s == w->sequences ? take_context(w, s) : share_context(w, s);
}

/* The first context is kept for the next question. */
static void close_sequence(struct worker *w, struct sequence *s)
{
    smol_generation_free(s->generation);
    smol_sampler_free(s->sampler);
    if (s == w->sequences)
        w->context = s->context;
    else
        smol_context_free(s->context);
    s->generation = NULL;
    s->sampler = NULL;
    s->context = NULL;
}

/* The first n sequences, each with a question. */
static int ask(struct worker *w, size_t n)
{
    struct sequence *first = w->sequences;
    int good = 1;
    for (size_t i = 0; good && i < n; i++)
        good = open_sequence(w, &first[i]);
    if (n == 1)
        good = good && read_prompt(w, first) && generate(w, first);
    else
        good = good && read_prompts(w, n) && generate_together(w, n);
    for (size_t i = 0; good && i < n; i++)
        good = sign(w, &first[i]);
    for (size_t i = n; i-- > 0;)
        close_sequence(w, &first[i]);
    w->soak->n_together += n > 1 ? n : 0;
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

/* A question for sequence n. */
static int choose(struct worker *w, size_t n)
{
    /* half of the questions from a few: soon asked again */
    size_t number = pick(&w->random, pick(&w->random, 2) ? N_QUESTIONS : 64);
    w->sequences[n].number = number;
    return make_question(w->soak, number, &w->sequences[n].question);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    struct soak *soak = w->soak;
    for (size_t i = 0; i < MAX_TOGETHER; i++)
        if (!(w->sequences[i].logits = calloc(soak->info.vocab_size, sizeof(float))))
            fail(soak, "logits", "out of memory");
    for (size_t asked = 0; asked < ASKED_PER_EPOCH && !soak->failed;) {
        size_t n = pick(&w->random, 3) ? 1 : 2 + pick(&w->random, MAX_TOGETHER - 1);
        int good = 1;
        for (size_t i = 0; good && i < n; i++)
            good = choose(w, i);
        good = good && ask(w, n);
        for (size_t i = 0; good && i < n; i++)
            compare(soak, w->sequences[i].number, w->sequences[i].hash);
        asked += n;
    }
    smol_context_free(w->context);
    for (size_t i = 0; i < MAX_TOGETHER; i++)
        free(w->sequences[i].logits);
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
    printf(
        "soak: %.0f s: %lu questions, %lu of them again, %lu together with others, %lu "
        "cancellations, %lu slides, %lu sessions restored, %lu contexts used again; heap %.1f KB, "
        "resident %.1f MB\n",
        elapsed, soak->n_asked, soak->n_again, soak->n_together, soak->n_cancelled, soak->n_slides,
        soak->n_moved, soak->n_reused, (double)memory.heap / 1e3, (double)memory.resident / 1e6);
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
