/* Tests of a program's own allocator (smol_set_allocator): the library takes all of its memory from
 * it, with the alignment that it requests, frees all of it and nothing else, and reports the
 * failure of any allocation. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

/* --- an allocator that counts ------------------------------------------------------------- */

enum { FRONT = 64, MARK = 0x5e1f, POISONED = 1 << 12 };

/* Precedes each block, so that the C library's free would not accept the block itself. */
struct label {
    void *base; /* from the C library */
    size_t size;
    unsigned mark;
};

struct books {
    atomic_size_t n_live, n_bytes, n_calls;
    size_t failing_call; /* 0: no call fails */
};

static bool fails(struct books *books)
{
    return atomic_fetch_add(&books->n_calls, 1) + 1 == books->failing_call;
}

static struct label *label_of(void *memory)
{
    struct label *label = (struct label *)(void *)((char *)memory - sizeof *label);
    assert_int_equal(label->mark, MARK);
    return label;
}

static void *allocate(void *user, size_t alignment, size_t size)
{
    struct books *books = user;
    size_t front = alignment > FRONT ? alignment : FRONT;
    char *base;
    assert_true(size > 0);
    assert_true(alignment > 0 && (alignment & (alignment - 1)) == 0);
    if (fails(books) || posix_memalign((void **)&base, front, front + size))
        return NULL;
    memset(base, 0xa5, front + (size < POISONED ? size : POISONED)); /* memory is not zeroed */
    struct label *label = (struct label *)(void *)(base + front - sizeof *label);
    *label = (struct label){base, size, MARK};
    atomic_fetch_add(&books->n_live, 1);
    atomic_fetch_add(&books->n_bytes, size);
    return base + front;
}

static void release(void *user, void *memory)
{
    struct books *books = user;
    struct label *label = label_of(memory);
    atomic_fetch_sub(&books->n_bytes, label->size);
    memset(memory, 0x5a, label->size < POISONED ? label->size : POISONED);
    label->mark = 0;
    free(label->base);
    atomic_fetch_sub(&books->n_live, 1);
}

static void *resize(void *user, void *memory, size_t size)
{
    size_t old = label_of(memory)->size;
    void *moved = allocate(user, _Alignof(max_align_t), size);
    if (!moved)
        return NULL;
    memcpy(moved, memory, old < size ? old : size);
    release(user, memory);
    return moved;
}

/* --- a program ---------------------------------------------------------------------------- */

struct session {
    smol_model *model;
    smol_context *context;
    smol_sampler *sampler;
    smol_chat_text chat;
    uint32_t *ids;
    size_t n;
    char *text;
    size_t size;
    smol_generate_result result;
};

/* Tokenizes a text long enough for every growing list to grow. */
static smol_status tokenize(struct session *s, smol_error *error)
{
    char text[2000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "unbelievably, 42 <|im_end|> \xff."[i % 31];
    return smol_tokenize(s->model, text, sizeof text, &(smol_tokenize_params){.parse_special = 1},
                         &s->ids, &s->n, error);
}

static smol_status generate(struct session *s, smol_error *error)
{
    static const char *const stop[] = {"never said"};
    const smol_generate_params params = {.max_tokens = 4, .stop = stop, .n_stop = 1};
    return smol_generate(s->context, s->sampler, s->ids, 200, &params, &s->result, error);
}

static smol_status embed(struct session *s, smol_error *error)
{
    float states[1024];
    assert_true(smol_model_get_info(s->model).hidden_size <= 1024);
    return smol_embed(s->context, s->ids, 9, SMOL_POOL_MEAN, states, error);
}

/* Performs every operation that allocates memory, up to the first error. */
static smol_status go(struct session *s, const smol_model_params *model_params, smol_error *error)
{
    static const smol_chat_message message = {"user", "Hello", 5};
    const smol_chat_params chat = {.messages = &message, .n_messages = 1};
    const smol_context_params context_params = {.n_threads = 2};
    const smol_sampler_params sampler_params = {.temperature = 1, .top_k = 40, .top_p = 0.9f};
    smol_status status = smol_model_open(demo_blob, model_params, &s->model, error);
    if (!status)
        status = smol_context_create(s->model, &context_params, &s->context, error);
    if (!status)
        status = smol_sampler_create(&sampler_params, &s->sampler, error);
    if (!status)
        status = tokenize(s, error);
    if (!status)
        status = smol_detokenize(s->model, s->ids, s->n, 0, &s->text, &s->size, error);
    if (!status)
        status = smol_chat_format(s->model, &chat, &s->chat, error);
    if (!status)
        status = generate(s, error);
    if (!status)
        status = embed(s, error);
    return status;
}

static void end(struct session *s)
{
    smol_chat_text_free(&s->chat);
    smol_free(s->text);
    smol_free(s->ids);
    smol_sampler_free(s->sampler);
    smol_context_free(s->context);
    smol_model_close(s->model);
}

/* Runs one session with a counting allocator. Call number failing_call fails (0: none). Returns the
 * number of calls. */
static size_t try(const smol_model_params *params, size_t failing_call)
{
    struct books books = {.failing_call = failing_call};
    const smol_allocator allocator = {allocate, resize, release, &books};
    struct session s = {0};
    smol_error error = {0};
    smol_set_allocator(&allocator);
    smol_status status = go(&s, params, &error);
    if (status != (failing_call > 0 ? SMOL_ERROR_MEMORY : SMOL_OK))
        fail_msg("call %zu: status %d (%s)", failing_call, (int)status, error.message);
    end(&s);
    smol_set_allocator(NULL);
    assert_int_equal(books.n_live, 0);
    return books.n_calls;
}

static void try_all(const smol_model_params *params)
{
    size_t n = try(params, 0);
    assert_true(n > 20);
    for (size_t failing_call = 1; failing_call <= n; failing_call++)
        try(params, failing_call);
}

TEST(a_mapped_models_memory_is_the_callers_and_all_given_back)
{
    try_all(NULL);
}

TEST(so_is_that_of_a_model_in_memory)
{
    const smol_model_params params = {.no_mmap = 1};
    try_all(&params);
}

/* --- constraints -------------------------------------------------------------------------- */

/* Follows the first allowed tokens of a constraint, so that masks are found. */
static void follow(smol_model *model, smol_constraint *constraint)
{
    uint64_t mask[1 << 10];
    smol_matcher *matcher;
    assert_true(smol_model_get_info(model).vocab_size <= 64 * 1024);
    assert_int_equal(smol_matcher_create(constraint, &matcher, NULL), SMOL_OK);
    for (int step = 0; step < 30; step++) {
        uint32_t id = 0;
        assert_int_equal(smol_matcher_mask(matcher, mask, NULL), SMOL_OK);
        while (!(mask[id / 64] >> id % 64 & 1))
            id++;
        if (smol_matcher_accept(matcher, id, NULL) || smol_model_is_stop_id(model, id))
            break;
    }
    smol_matcher_free(matcher);
}

TEST(a_constraint_states_the_memory_that_it_takes)
{
    static const char *const schemas[] = {
        "{\"type\":\"integer\"}",
        "{\"properties\":{\"a\":{\"maxLength\":40},\"b\":{\"pattern\":\"^[a-z]{20}\"}}}",
        "{\"type\":\"array\",\"minItems\":3,\"items\":{\"pattern\":\"^[^/]{9,}$\"}}",
    };
    struct books books = {0};
    const smol_allocator allocator = {allocate, resize, release, &books};
    smol_model *model;
    smol_set_allocator(&allocator);
    assert_int_equal(smol_model_open(demo_blob, NULL, &model, NULL), SMOL_OK);
    for (size_t i = 0, before; i < sizeof schemas / sizeof schemas[0]; i++) {
        const smol_constraint_params params = {.text = schemas[i], .size = strlen(schemas[i])};
        smol_constraint *constraint;
        for (int again = 0; again < 2; again++) { /* the first one adds to the model */
            before = books.n_bytes;
            assert_int_equal(smol_constraint_create(model, &params, &constraint, NULL), SMOL_OK);
            if (again)
                assert_int_equal(smol_constraint_bytes(constraint), books.n_bytes - before);
            follow(model, constraint);
            if (again)
                assert_int_equal(smol_constraint_bytes(constraint), books.n_bytes - before);
            smol_constraint_free(constraint);
        }
    }
    smol_model_close(model);
    smol_set_allocator(NULL);
}

/* --- equal results ------------------------------------------------------------------------ */

static void take_logits(float *logits, size_t *n)
{
    static const uint32_t ids[] = {30, 41, 52, 63};
    smol_model *model;
    smol_context *context;
    assert_int_equal(smol_model_open(demo_blob, NULL, &model, NULL), SMOL_OK);
    *n = smol_model_get_info(model).vocab_size;
    assert_int_equal(smol_context_create(model, NULL, &context, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, ids, 4, 1, logits, NULL), SMOL_OK);
    smol_context_free(context);
    smol_model_close(model);
}

TEST(logits_are_the_same_wherever_memory_comes_from)
{
    static float expected[1 << 16], got[1 << 16];
    struct books books = {0};
    const smol_allocator allocator = {allocate, resize, release, &books};
    size_t n;
    take_logits(expected, &n);
    smol_set_allocator(&allocator);
    take_logits(got, &n);
    smol_set_allocator(NULL);
    assert_true(books.n_calls > 0);
    assert_memory_equal(got, expected, n * sizeof *got);
}

int main(void)
{
    return run_all_tests("allocator", make_demo_blob, remove_demo_blob);
}
