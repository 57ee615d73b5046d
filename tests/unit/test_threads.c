/* Tests of several models and contexts used by several threads at once: each computes the same
 * results as alone. The thread sanitizer must not report an error either. */
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

enum { N_THREADS = 14, N_ROUNDS = 3, MOST_TEXT = 2048 };

static const enum blob_dtype dtypes[] = {DTYPE_INT8, DTYPE_F32};
enum { N_BLOBS = sizeof dtypes / sizeof dtypes[0] };
static char blobs[N_BLOBS][128];
static smol_model *shared[N_BLOBS]; /* open during all tests */
static smol_constraint *constraints[N_BLOBS];

/* One thread: its questions and the results. */
struct asker {
    pthread_t thread;
    unsigned index, blob;
    bool own_model;   /* opened and closed for each question */
    bool constrained; /* answers in JSON, with the constraint that others use too */
    char text[MOST_TEXT];
    size_t size;
    smol_status status;
};

static int keep(void *user, const char *text, size_t size, uint32_t id)
{
    struct asker *asker = user;
    (void)id;
    if (size > MOST_TEXT - asker->size)
        return 1;
    memcpy(asker->text + asker->size, text, size);
    asker->size += size;
    return 0;
}

static smol_status generate(struct asker *asker, const smol_model *model, const uint32_t *ids,
                            size_t n)
{
    const smol_context_params params = {.n_threads = 1 + asker->index % 3};
    const smol_sampler_params choice = {.temperature = 1, .top_k = 20, .seed = asker->index};
    smol_generate_params how = {.max_tokens = 24, .on_text = keep, .user = asker};
    smol_generate_result result;
    smol_context *context;
    smol_sampler *sampler = NULL;
    smol_status status = smol_context_create(model, &params, &context, NULL);
    if (!status)
        status = smol_sampler_create(&choice, &sampler, NULL);
    if (!status && asker->constrained)
        status = smol_matcher_create(constraints[asker->blob], &how.matcher, NULL);
    if (!status)
        status = smol_generate(context, sampler, ids, n, &how, &result, NULL);
    smol_matcher_free(how.matcher);
    smol_sampler_free(sampler);
    smol_context_free(context);
    return status;
}

static smol_status ask(struct asker *asker, const smol_model *model)
{
    static const char *const words[] = {"Hello", "Who are you?", "Tell me of the lake."};
    const char *word = words[asker->index % 3];
    const smol_chat_message message = {"user", word, strlen(word)};
    const smol_chat_params chat = {
        .messages = &message, .n_messages = 1, .add_generation_prompt = 1};
    uint32_t *ids;
    size_t n;
    smol_status status = smol_chat_tokenize(model, &chat, &ids, &n, NULL);
    if (!status)
        status = generate(asker, model, ids, n);
    smol_free(ids);
    return status;
}

static void *run(void *argument)
{
    struct asker *asker = argument;
    const smol_model_params params = {.verify = SMOL_VERIFY_OPEN};
    for (int round = 0; round < N_ROUNDS && !asker->status; round++) {
        smol_model *model = shared[asker->blob];
        if (asker->own_model)
            asker->status = smol_model_open(blobs[asker->blob], &params, &model, NULL);
        if (!asker->status)
            asker->status = ask(asker, model);
        if (asker->own_model)
            smol_model_close(model);
    }
    return NULL;
}

static struct asker new_asker(unsigned index)
{
    return (struct asker){
        .index = index,
        .blob = index % N_BLOBS,
        .own_model = index / N_BLOBS % 2,
        .constrained = index / N_BLOBS >= 2 && index / N_BLOBS % 2 == 0, /* three of each blob */
    };
}

TEST(models_and_contexts_on_many_threads_answer_as_alone)
{
    static struct asker askers[N_THREADS];
    for (unsigned i = 0; i < N_THREADS; i++) {
        askers[i] = new_asker(i);
        assert_int_equal(pthread_create(&askers[i].thread, NULL, run, &askers[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        struct asker alone = new_asker(i);
        pthread_join(askers[i].thread, NULL);
        run(&alone);
        assert_int_equal(askers[i].status, SMOL_OK);
        assert_int_equal(alone.status, SMOL_OK);
        assert_true(alone.size > 0);
        assert_int_equal(askers[i].size, alone.size);
        assert_memory_equal(askers[i].text, alone.text, alone.size);
    }
}

/* The library does not change signal handlers, signal masks or the locale. */
TEST(nothing_of_the_process_is_changed)
{
    struct sigaction before[NSIG], after;
    sigset_t old_mask, mask;
    char locale[64];
    struct asker asker = new_asker(2);
    for (int signal = 1; signal < NSIG; signal++)
        sigaction(signal, NULL, &before[signal]);
    pthread_sigmask(SIG_SETMASK, NULL, &old_mask);
    snprintf(locale, sizeof locale, "%s", setlocale(LC_ALL, NULL));
    run(&asker);
    assert_int_equal(asker.status, SMOL_OK);
    for (int signal = 1; signal < NSIG; signal++) {
        memset(&after, 0, sizeof after);
        if (sigaction(signal, NULL, &after) == 0)
            assert_true(after.sa_handler == before[signal].sa_handler);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int signal = 1; signal < NSIG; signal++)
        assert_int_equal(sigismember(&mask, signal), sigismember(&old_mask, signal));
    assert_string_equal(setlocale(LC_ALL, NULL), locale);
}

static int open_models(void **state)
{
    static const char schema[] =
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z ]{1,30}$\"}}";
    const smol_constraint_params json = {.text = schema, .size = sizeof schema - 1};
    (void)state;
    temporary_make(&folder);
    for (unsigned i = 0; i < N_BLOBS; i++)
        if (convert_demo(dtypes[i], blobs[i]) ||
            smol_model_open(blobs[i], NULL, &shared[i], NULL) ||
            smol_constraint_create(shared[i], &json, &constraints[i], NULL))
            return -1;
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N_BLOBS; i++)
        smol_constraint_free(constraints[i]), smol_model_close(shared[i]);
    temporary_remove(&folder);
    return 0;
}

int main(void)
{
    return run_all_tests("threads", open_models, close_models);
}
