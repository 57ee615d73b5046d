/* Tests of the library without enough memory: each allocation of each call fails in turn. The call
 * must report it and leave everything unchanged: repeated, it computes the same bits. The address
 * sanitizer finds leaks of failed calls. The linker replaces the allocation functions (--wrap). */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "convert/tokenizer/scanner.h"
#include "format/scanner.h"
#include "runtime/tokenizer/scanner.h"
#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

/* --- allocations that fail ---------------------------------------------------------------- */

static bool counting;     /* only within the tested call; no other thread runs then */
static unsigned left;     /* number of allocations that still succeed */
static unsigned n_failed; /* number of failures since the last attempt began */

static bool fails(void)
{
    if (!counting || left-- > 0)
        return false;
    left = 0;
    n_failed++;
    return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__real_strndup(const char *text, size_t n);
char *__wrap_strndup(const char *text, size_t n);
char *__wrap_strndup(const char *text, size_t n)
{
    return fails() ? NULL : __real_strndup(text, n);
}

void *__real_mmap(void *place, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *place, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *place, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (!fails())
        return __real_mmap(place, size, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    return fails() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* --- a session through smol.h ------------------------------------------------------------- */

enum { N_PROMPT = 200, N_CTX = 230 };

struct session {
    smol_model *model;
    smol_context *context;
    smol_sampler *sampler;
    uint32_t *ids;
    size_t n;
    uint32_t prompt[N_PROMPT];
    float *logits; /* (vocab_size) */
    uint32_t chosen;
    uint32_t generated[32];
    size_t n_generated;
    smol_chat_text text;
};

static smol_status open_model(struct session *s, smol_error *error)
{
    return smol_model_open(demo_blob, NULL, &s->model, error);
}

static smol_status open_copy(struct session *s, smol_error *error)
{
    const smol_model_params params = {.no_mmap = 1, .verify = SMOL_VERIFY_OPEN};
    smol_model *copy;
    smol_status status = smol_model_open(demo_blob, &params, &copy, error);
    (void)s;
    smol_model_close(copy);
    return status;
}

static smol_status create_context(struct session *s, smol_error *error)
{
    const smol_context_params params = {.n_ctx = N_CTX, .n_threads = 3};
    return smol_context_create(s->model, &params, &s->context, error);
}

static smol_status tokenize(struct session *s, smol_error *error)
{
    static const char text[] = "Once upon a time, unbelievably, 42 <|im_end|> \xff.";
    return smol_tokenize(s->model, text, sizeof text - 1,
                         &(smol_tokenize_params){.parse_special = 1}, &s->ids, &s->n, error);
}

/* Renders enough messages to take several blocks of a template's memory, and one of its own. */
static smol_status converse(struct session *s, smol_error *error)
{
    static char json[1 << 15];
    size_t n = (size_t)sprintf(json, "[");
    for (unsigned i = 0; i < 600; i++)
        n += (size_t)sprintf(json + n, "{\"role\":\"user\",\"content\":\"\\n%u\"},", i);
    json[n - 1] = ']';
    const smol_chat_params params = {.messages_json = json};
    smol_chat_text_free(&s->text);
    return smol_chat_format(s->model, &params, &s->text, error);
}

static smol_status evaluate(struct session *s, smol_error *error)
{
    return smol_eval(s->context, s->prompt, N_PROMPT, 1, s->logits, error);
}

/* Evaluates with a second context, which must compute the same bits; a failed pass fails for
 * both. */
static smol_status evaluate_two(struct session *s, smol_error *error)
{
    const smol_context_params params = {.n_ctx = N_CTX, .share = s->context};
    const size_t vocab_size = smol_model_get_info(s->model).vocab_size;
    smol_context *second;
    smol_status status = smol_context_create(s->model, &params, &second, error);
    if (status)
        return status;
    float *logits = s->logits + vocab_size;
    smol_context_truncate(s->context, 0);
    smol_eval_part parts[] = {
        {.context = s->context,
         .ids = s->prompt,
         .n = N_PROMPT,
         .n_logits = 1,
         .logits = s->logits},
        {.context = second, .ids = s->prompt, .n = N_PROMPT, .n_logits = 1, .logits = logits}};
    status = smol_eval_many(parts, 2, error);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(smol_context_length(parts[i].context),
                         parts[i].error.status ? 0 : N_PROMPT);
    if (!status)
        assert_memory_equal(s->logits, logits, vocab_size * sizeof *logits);
    smol_context_free(second);
    return status;
}

static smol_status create_sampler(struct session *s, smol_error *error)
{
    const smol_sampler_params params = {.temperature = 1, .top_k = 40, .top_p = 0.9f, .seed = 7};
    return smol_sampler_create(&params, &s->sampler, error);
}

static smol_status sample(struct session *s, smol_error *error)
{
    size_t n = smol_model_get_info(s->model).vocab_size;
    return smol_sample(s->sampler, s->logits, n, s->prompt, N_PROMPT, &s->chosen, error);
}

static int keep(void *user, const char *text, size_t size, uint32_t id)
{
    struct session *s = user;
    (void)text;
    (void)size;
    if (id != SMOL_NO_TOKEN)
        s->generated[s->n_generated++] = id;
    return 0;
}

/* Saves and restores in the same context; the sampler's state stays the same. */
static smol_status save_and_restore(struct session *s, smol_error *error)
{
    static char data[] = "the caller's";
    smol_session session = {.sampler = s->sampler, .data = data, .size = sizeof data};
    void *bytes;
    size_t size;
    smol_status status = smol_context_save_memory(s->context, &session, &bytes, &size, error);
    if (status)
        return status;
    status = smol_context_restore_memory(s->context, &session, bytes, size, error);
    smol_free(bytes);
    if (!status) {
        smol_free(session.data);
        return SMOL_OK;
    }
    /* it is empty now, and must be usable in the next attempt */
    assert_int_equal(smol_context_length(s->context), 0);
    counting = false;
    assert_int_equal(smol_eval(s->context, s->prompt, N_PROMPT, 0, NULL, NULL), SMOL_OK);
    return status;
}

/* Generates from a fixed position with a sampler of its own, so that every attempt is the same. */
static smol_status generate(struct session *s, smol_error *error)
{
    static const char *const stop[] = {"never said"};
    const smol_generate_params params = {
        .max_tokens = 20, .stop = stop, .n_stop = 1, .on_text = keep, .user = s};
    smol_generate_result result;
    smol_sampler *sampler;
    const smol_sampler_params greedy = {0};
    s->n_generated = 0;
    smol_context_truncate(s->context, N_PROMPT - 1);
    smol_status status = smol_sampler_create(&greedy, &sampler, error);
    if (!status)
        status = smol_generate(s->context, sampler, s->prompt + N_PROMPT - 1, 1, &params, &result,
                               error);
    smol_sampler_free(sampler);
    return status;
}

/* Evaluates with three contexts of a cache of prefixes. The second copies a block of the first, the
 * third takes two and adds one. */
static smol_status evaluate_cached(struct session *s, smol_error *error)
{
    static const size_t lengths[] = {128, 128, N_PROMPT};
    const size_t vocab_size = smol_model_get_info(s->model).vocab_size;
    const smol_prefix_cache_params params = {.max_bytes = SIZE_MAX};
    smol_prefix_cache *cache;
    smol_context *contexts[3] = {NULL};
    smol_status status = smol_prefix_cache_create(s->model, &params, &cache, error);
    for (size_t i = 0; !status && i < 3; i++) {
        const smol_context_params how = {
            .n_ctx = N_CTX, .share = s->context, .prefix_cache = cache};
        status = smol_context_create(s->model, &how, &contexts[i], error);
        if (!status)
            status =
                smol_eval(contexts[i], s->prompt, lengths[i], 1, s->logits + i * vocab_size, error);
    }
    for (size_t i = 0; i < 3; i++)
        smol_context_free(contexts[i]);
    if (cache)
        assert_int_equal(smol_prefix_cache_get_info(cache).n_used, 0);
    smol_prefix_cache_free(cache);
    return status;
}

typedef smol_status session_step(struct session *s, smol_error *error);

static session_step *const steps[] = {open_model, open_copy,        create_context, tokenize,
                                      converse,   evaluate,         evaluate_two,   create_sampler,
                                      sample,     save_and_restore, generate};

/* Repeats the step until no allocation fails; once if with_faults is false. */
static void take(struct session *s, session_step *step, bool with_faults)
{
    for (unsigned k = 0;; k++) {
        smol_error error = {0};
        size_t length = s->context ? smol_context_length(s->context) : 0;
        left = k;
        n_failed = 0;
        counting = with_faults;
        smol_status status = step(s, &error);
        counting = false;
        if (status == SMOL_OK && n_failed == 0)
            return;
        assert_int_equal(status, SMOL_ERROR_MEMORY);
        assert_int_equal(error.status, SMOL_ERROR_MEMORY);
        assert_true(error.message[0] != '\0');
        if (step == evaluate)
            assert_int_equal(smol_context_length(s->context), length);
        assert_true(k < 1000);
    }
}

static struct session go(bool with_faults)
{
    struct session s = {.logits = calloc(1 << 16, sizeof *s.logits)};
    for (uint32_t i = 0; i < N_PROMPT; i++)
        s.prompt[i] = 20 + i * 7 % 300;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        take(&s, steps[i], with_faults);
    return s;
}

static void end(struct session *s)
{
    smol_free(s->ids);
    smol_chat_text_free(&s->text);
    smol_sampler_free(s->sampler);
    smol_context_free(s->context);
    smol_model_close(s->model);
    free(s->logits);
}

/* Compiles a pattern with every kind of part, then cuts a text that causes a long search without a
 * match. */
static smol_status compile_and_cut(uint8_t *place, smol_error *error)
{
    static const char pattern[] =
        "(?i:[k-m&&[^\\d]]'s)|[[:alpha:]_]{2}\\p{Lu}|\\b(?<=x)y++(?!z)|a*b|(?>a)|(?=c|$)[^b]";
    static uint8_t text[500];
    struct scanner_plan plan = {.n_stages = 1};
    struct scanner_section section = {0};
    struct scanner_tables tables;
    struct scan scan;
    uint32_t stage;
    size_t start = 0, end;
    memset(text, 'a', sizeof text);
    plan.stages[0].behaviour = SPLIT_ISOLATED;
    smol_status status =
        smol_pattern_parse(pattern, sizeof pattern - 1, &plan.stages[0].pattern, error);
    if (!status)
        status = smol_scanner_compile(&plan, &section, &stage, error);
    smol_scanner_plan_free(&plan);
    if (status)
        return status;
    memcpy(place, section.data, section.size);
    status = smol_scanner_tables_open(place, section.size, &tables, error);
    free(section.data);
    smol_scanner_start(&scan, &tables, 0, text, sizeof text);
    while (!status && start < sizeof text)
        status = smol_scanner_next(&scan, &start, &end, error);
    smol_scanner_end(&scan);
    return status;
}

TEST(patterns_that_run_out_of_memory_say_so)
{
    smol_error error;
    uint8_t *place = aligned_alloc(64, 1 << 20);
    for (unsigned n = 0;; n++) {
        left = n;
        n_failed = 0;
        counting = true;
        smol_status status = compile_and_cut(place, &error);
        counting = false;
        if (status != (n_failed > 0 ? SMOL_ERROR_MEMORY : SMOL_OK))
            fail_msg("allocation %u: %s", n, status ? error.message : "no error");
        if (n_failed == 0)
            break;
        assert_true(n < 2000);
    }
    free(place);
}

/* A cache that runs out of memory for a block goes on without it: then the call succeeds. */
TEST(a_cache_of_prefixes_without_memory_changes_nothing)
{
    struct session expected = go(false), got = go(false);
    size_t n_bytes = 3 * smol_model_get_info(got.model).vocab_size * sizeof(float);
    unsigned n_refused = 0, n_without = 0;
    assert_int_equal(evaluate_cached(&expected, NULL), SMOL_OK);
    for (unsigned n = 0;; n++) {
        smol_error error;
        memset(got.logits, 0xff, n_bytes);
        left = n;
        n_failed = 0;
        counting = true;
        smol_status status = evaluate_cached(&got, &error);
        counting = false;
        assert_true(status == SMOL_OK || status == SMOL_ERROR_MEMORY);
        assert_true(status == SMOL_OK || n_failed > 0);
        if (status == SMOL_OK)
            assert_memory_equal(got.logits, expected.logits, n_bytes);
        if (n_failed == 0)
            break;
        n_refused += status != SMOL_OK;
        n_without += status == SMOL_OK;
        assert_true(n < 1000);
    }
    assert_true(n_refused > 0 && n_without > 0);
    end(&expected);
    end(&got);
}

TEST(every_call_can_be_repeated_after_it_ran_out_of_memory)
{
    struct session expected = go(false), got = go(true);
    assert_int_equal(got.n, expected.n);
    assert_memory_equal(got.ids, expected.ids, got.n * sizeof *got.ids);
    size_t vocab_size = smol_model_get_info(got.model).vocab_size;
    assert_memory_equal(got.logits, expected.logits, vocab_size * sizeof *got.logits);
    assert_int_equal(got.chosen, expected.chosen);
    assert_int_equal(got.text.size, expected.text.size);
    assert_memory_equal(got.text.text, expected.text.text, got.text.size);
    assert_int_equal(got.n_generated, expected.n_generated);
    assert_memory_equal(got.generated, expected.generated, sizeof got.generated);
    end(&expected);
    end(&got);
}

int main(void)
{
    return run_all_tests("memory", make_demo_blob, remove_demo_blob);
}
