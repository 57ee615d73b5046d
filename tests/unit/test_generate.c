/* Tests of the generation loop through the public header, with the bundled model. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

static smol_model *model;

static int open_model(void **state)
{
    return make_demo_blob(state) || smol_model_open(demo_blob, NULL, &model, NULL);
}

static int close_model(void **state)
{
    smol_model_close(model);
    return remove_demo_blob(state);
}

/* --- a recording of one generation -------------------------------------------------------- */

struct recording {
    char text[4096];
    size_t size;
    uint32_t ids[512];
    size_t n_ids;
    unsigned n_last;  /* calls without a token */
    size_t cancel_at; /* 0: never */
    smol_generate_result result;
    size_t length; /* of the context afterwards */
};

static int record(void *user, const char *text, size_t size, uint32_t id)
{
    struct recording *r = user;
    assert_true(r->size + size < sizeof r->text);
    memcpy(r->text + r->size, text, size);
    r->size += size;
    r->text[r->size] = '\0';
    if (id == SMOL_NO_TOKEN)
        r->n_last++;
    else
        r->ids[r->n_ids++] = id;
    return r->cancel_at > 0 && r->n_ids == r->cancel_at;
}

/* Continues `prompt` greedily in a context of n_ctx tokens (0: the model's). */
static smol_status generate(const char *prompt, size_t n_ctx, smol_generate_params params,
                            struct recording *r)
{
    const smol_context_params context_params = {.n_ctx = (uint32_t)n_ctx, .n_threads = 1};
    const smol_sampler_params greedy = {0};
    smol_context *context;
    smol_sampler *sampler;
    uint32_t *ids;
    size_t n;
    smol_error error;
    assert_int_equal(smol_context_create(model, &context_params, &context, &error), SMOL_OK);
    assert_int_equal(smol_sampler_create(&greedy, &sampler, &error), SMOL_OK);
    assert_int_equal(smol_tokenize(model, prompt, strlen(prompt),
                                   &(smol_tokenize_params){.parse_special = 1}, &ids, &n, &error),
                     SMOL_OK);
    params.on_text = record;
    params.user = r;
    smol_status status = smol_generate(context, sampler, ids, n, &params, &r->result, &error);
    assert_int_equal(error.status, status);
    r->length = smol_context_length(context);
    smol_free(ids);
    smol_sampler_free(sampler);
    smol_context_free(context);
    return status;
}

/* Continues "Once upon a time" in a context of n_ctx tokens (0: the model's). */
static struct recording continued(size_t n_ctx, smol_generate_params params)
{
    struct recording r = {0};
    assert_int_equal(generate("Once upon a time", n_ctx, params, &r), SMOL_OK);
    return r;
}

/* --- tests -------------------------------------------------------------------------------- */

TEST(at_most_max_tokens_are_generated)
{
    for (size_t most = 0; most < 4; most++) {
        smol_generate_params params = {.max_tokens = most, .prompt_only = most == 0};
        struct recording r = continued(0, params);
        assert_int_equal(r.result.finish, SMOL_FINISH_LENGTH);
        assert_int_equal(r.result.n_generated, most);
        assert_int_equal(r.n_ids, most);
        assert_int_equal(r.length, r.result.n_prompt + (most > 0 ? most - 1 : 0));
    }
}

TEST(a_stop_token_ends_the_text_and_is_not_reported)
{
    struct recording r = continued(0, (smol_generate_params){.show_special = 1});
    assert_int_equal(r.result.finish, SMOL_FINISH_STOP);
    assert_null(strstr(r.text, "<|endoftext|>"));
    assert_true(r.size > 0 && r.n_ids == r.result.n_generated);
}

TEST(stop_tokens_are_told_from_others)
{
    size_t n, n_found = 0;
    const uint32_t *stop = smol_model_stop_ids(model, &n);
    assert_true(n > 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(smol_model_is_stop_id(model, stop[i]), 1);
    for (uint32_t id = 0; id < smol_model_get_info(model).vocab_size; id++)
        n_found += (size_t)smol_model_is_stop_id(model, id);
    assert_int_equal(n_found, n);
    assert_int_equal(smol_model_is_stop_id(model, SMOL_NO_TOKEN), 0);
}

TEST(the_text_is_that_of_the_tokens)
{
    struct recording r = continued(0, (smol_generate_params){.max_tokens = 60});
    char text[4096];
    size_t used = 0;
    for (size_t i = 0; i < r.n_ids; i++) {
        size_t size;
        const char *bytes;
        assert_int_equal(smol_token_text(model, r.ids[i], &bytes, &size, NULL, NULL), SMOL_OK);
        memcpy(text + used, bytes, size);
        used += size;
    }
    assert_int_equal(r.size, used);
    assert_memory_equal(r.text, text, used);
}

TEST(a_stop_string_ends_the_text_before_it)
{
    smol_generate_params params = {.max_tokens = 60};
    struct recording whole = continued(0, params);
    /* Some letters from the middle, which may span several tokens. */
    char stop[8] = "";
    memcpy(stop, whole.text + 30, 7);
    params.stop = (const char *const[]){"not in the text", stop};
    params.n_stop = 2;
    struct recording r = continued(0, params);
    assert_int_equal(r.result.finish, SMOL_FINISH_STOP);
    assert_int_equal(r.result.stop_text, 2);
    assert_int_equal(r.size, strstr(whole.text, stop) - whole.text);
    assert_memory_equal(r.text, whole.text, r.size);
    assert_true(r.n_ids < whole.n_ids);
}

TEST(text_that_was_held_back_comes_at_the_end)
{
    smol_generate_params params = {.max_tokens = 20};
    struct recording whole = continued(0, params);
    assert_int_equal(whole.n_last, 0);
    char stop[16] = "";
    snprintf(stop, sizeof stop, "%.5sX", whole.text + whole.size - 5);
    params.stop = (const char *const[]){stop};
    params.n_stop = 1;
    struct recording r = continued(0, params);
    assert_int_equal(r.result.finish, SMOL_FINISH_LENGTH);
    assert_int_equal(r.result.stop_text, 0);
    assert_int_equal(r.n_last, 1);
    assert_string_equal(r.text, whole.text);
}

/* Returns the id of the token that is one byte. */
static uint32_t byte_token(char byte)
{
    const char *text = "";
    size_t size = 0;
    for (uint32_t id = 0; !smol_token_text(model, id, &text, &size, NULL, NULL); id++)
        if (size == 1 && text[0] == byte)
            return id;
    fail();
    return 0;
}

TEST(a_stop_string_is_found_in_what_was_held_back)
{
    const smol_logit_bias begun = {byte_token('\xe2'), 1e6f}; /* of a character of three bytes */
    const smol_generate_params params = {
        .max_tokens = 1, .stop = (const char *const[]){"x", "\xef\xbf\xbd"}, .n_stop = 2};
    uint32_t id = byte_token('a');
    smol_sampler *sampler;
    smol_context *context;
    smol_generate_result result;
    assert_int_equal(
        smol_sampler_create(&(smol_sampler_params){.logit_bias = &begun, .n_logit_bias = 1},
                            &sampler, NULL),
        SMOL_OK);
    assert_int_equal(smol_context_create(model, NULL, &context, NULL), SMOL_OK);
    assert_int_equal(smol_generate(context, sampler, &id, 1, &params, &result, NULL), SMOL_OK);
    assert_int_equal(result.n_generated, 1);
    assert_int_equal(result.finish, SMOL_FINISH_STOP);
    assert_int_equal(result.stop_text, 2);
    smol_context_free(context);
    smol_sampler_free(sampler);
}

TEST(the_callback_can_cancel)
{
    struct recording r = {.cancel_at = 3};
    smol_generate_params params = {.max_tokens = 60};
    assert_int_equal(generate("Once upon a time", 0, params, &r), SMOL_OK);
    assert_int_equal(r.result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(r.n_ids, 3);
    assert_int_equal(r.n_last, 0);
}

TEST(a_full_context_ends_the_text)
{
    smol_generate_params params = {0};
    struct recording r = continued(10, params);
    assert_int_equal(r.result.finish, SMOL_FINISH_CONTEXT_FULL);
    assert_int_equal(r.length, 10);
    assert_int_equal(r.n_ids, 10 - r.result.n_prompt + 1);
    /* The last token that fits is not an error. */
    params.max_tokens = r.n_ids;
    r = continued(10, params);
    assert_int_equal(r.result.finish, SMOL_FINISH_LENGTH);
}

TEST(a_prompt_that_does_not_fit_changes_nothing)
{
    struct recording r = {0};
    smol_generate_params params = {.max_tokens = 5};
    assert_int_equal(generate("Once upon a time", 2, params, &r), SMOL_ERROR_CONTEXT_FULL);
    assert_int_equal(r.length, 0);
    assert_int_equal(r.n_ids, 0);
    assert_int_equal(r.result.n_prompt, 0);
}

TEST(times_add_up)
{
    struct recording r = continued(0, (smol_generate_params){.max_tokens = 5});
    assert_true(r.result.prompt_seconds > 0);
    assert_true(r.result.first_token_seconds >= r.result.prompt_seconds);
    assert_true(r.result.decode_seconds > 0);
}

TEST(an_empty_prompt_and_bad_stop_strings_are_wrong_usage)
{
    struct recording r = {0};
    smol_generate_params params = {.max_tokens = 5};
    assert_int_equal(generate("", 0, params, &r), SMOL_ERROR_USAGE);
    params.stop = (const char *const[]){""};
    params.n_stop = 1;
    assert_int_equal(generate("Once", 0, params, &r), SMOL_ERROR_USAGE);
    assert_int_equal(r.length, 0);
}

/* --- sliding ------------------------------------------------------------------------------ */

enum { SLIDE_CTX = 40, SLIDE_KEEP = 7, SLIDE_TOKENS = 150 };

static const smol_sampler_params sampled = {
    .temperature = 1.2f, .top_k = 40, .repetition_penalty = 1.1f, .seed = 3};

/* Returns a new context of SLIDE_CTX tokens that contains ids[0..n), and the logits (vocab_size)
 * after the last of them. */
static smol_context *context_with(const uint32_t *ids, size_t n, float *logits)
{
    const smol_context_params params = {.n_ctx = SLIDE_CTX, .n_threads = 2};
    smol_context *context;
    assert_int_equal(smol_context_create(model, &params, &context, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, ids, n, logits != NULL, logits, NULL), SMOL_OK);
    return context;
}

/* The text ids[0..*n) is one token longer than the context: cuts it as a slide does. */
static void cut(uint32_t *ids, size_t *n)
{
    size_t half = (SLIDE_CTX - SLIDE_KEEP) / 2;
    memmove(ids + SLIDE_KEEP, ids + SLIDE_CTX - half, (half + 1) * sizeof *ids);
    *n = SLIDE_KEEP + half + 1;
}

/* Continues ids[0..n) by SLIDE_TOKENS, each from a new context; returns the number of cuts. */
static size_t continue_anew(uint32_t *ids, size_t n, uint32_t *out)
{
    size_t n_cuts = 0, vocab_size = smol_model_get_info(model).vocab_size;
    float *logits = calloc(vocab_size, sizeof *logits);
    smol_sampler *sampler;
    assert_int_equal(smol_sampler_create(&sampled, &sampler, NULL), SMOL_OK);
    for (size_t i = 0; i < SLIDE_TOKENS; i++) {
        if (n > SLIDE_CTX) {
            cut(ids, &n);
            n_cuts++;
        }
        smol_context_free(context_with(ids, n, logits));
        assert_int_equal(smol_sample(sampler, logits, vocab_size, ids, n, &out[i], NULL), SMOL_OK);
        ids[n++] = out[i];
    }
    smol_sampler_free(sampler);
    free(logits);
    return n_cuts;
}

TEST(a_context_that_slides_goes_on_as_a_new_one_would)
{
    uint32_t expected[SLIDE_TOKENS], text[SLIDE_CTX + 2], *ids;
    size_t n;
    struct recording r = {0};
    smol_generate_params params = {.max_tokens = SLIDE_TOKENS,
                                   .slide = 1,
                                   .n_keep = SLIDE_KEEP,
                                   .on_text = record,
                                   .user = &r};
    smol_sampler *sampler;
    assert_int_equal(smol_tokenize(model, "Once upon a time", 16, NULL, &ids, &n, NULL), SMOL_OK);
    smol_context *context = context_with(ids, n, NULL);
    smol_context_truncate(context, 0);
    assert_int_equal(smol_sampler_create(&sampled, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_generate(context, sampler, ids, n, &params, &r.result, NULL), SMOL_OK);
    memcpy(text, ids, n * sizeof *ids);
    size_t n_cuts = continue_anew(text, n, expected);
    assert_int_equal(r.result.finish, SMOL_FINISH_LENGTH);
    assert_int_equal(r.n_ids, SLIDE_TOKENS);
    assert_memory_equal(r.ids, expected, sizeof expected);
    assert_true(n_cuts > 5);
    assert_int_equal(r.result.n_slides, n_cuts);
    assert_true(r.result.slide_seconds > 0);
    assert_true(r.result.slide_seconds < r.result.decode_seconds);
    smol_sampler_free(sampler);
    smol_context_free(context);
    smol_free(ids);
}

/* Fills a context with ids that are all different. */
static smol_context *full_context(uint32_t *ids)
{
    for (uint32_t i = 0; i < SLIDE_CTX; i++)
        ids[i] = 300 + 7 * i;
    return context_with(ids, SLIDE_CTX, NULL);
}

static void check_ids(const smol_context *context, const uint32_t *expected, size_t n)
{
    size_t n_ids;
    const uint32_t *ids = smol_context_ids(context, &n_ids);
    assert_int_equal(smol_context_length(context), n);
    assert_int_equal(n_ids, n);
    assert_memory_equal(ids, expected, n * sizeof *ids);
}

TEST(what_stays_is_the_start_and_the_newest_half)
{
    static const struct {
        size_t n_keep, n_room, kept, newest;
    } cases[] = {
        {7, 1, 7, 16}, {0, 1, 0, 20}, {39, 1, 39, 0},  {38, 2, 38, 0},
        {0, 35, 0, 5}, {4, 30, 4, 4}, {10, 30, 10, 0}, {0, 40, 0, 0},
    };
    size_t vocab_size = smol_model_get_info(model).vocab_size;
    float *slid = calloc(vocab_size, sizeof *slid), *anew = calloc(vocab_size, sizeof *anew);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t ids[SLIDE_CTX], expected[SLIDE_CTX], next = 77;
        size_t kept = cases[i].kept, newest = cases[i].newest, n = kept + newest;
        smol_context *context = full_context(ids), *other;
        memcpy(expected, ids, kept * sizeof *ids);
        memcpy(expected + kept, ids + SLIDE_CTX - newest, newest * sizeof *ids);
        assert_int_equal(smol_context_slide(context, cases[i].n_keep, cases[i].n_room, NULL),
                         SMOL_OK);
        check_ids(context, expected, n);
        assert_int_equal(smol_eval(context, &next, 1, 1, slid, NULL), SMOL_OK);
        expected[n] = next;
        other = context_with(expected, n + 1, anew);
        assert_memory_equal(slid, anew, vocab_size * sizeof *slid);
        smol_context_free(other);
        smol_context_free(context);
    }
    free(slid);
    free(anew);
}

TEST(a_context_with_room_does_not_slide_and_one_without_any_says_so)
{
    smol_error error;
    uint32_t ids[SLIDE_CTX];
    smol_context *context = full_context(ids);
    assert_int_equal(smol_context_slide(context, 40, 1, &error), SMOL_ERROR_CONTEXT_FULL);
    assert_int_equal(smol_context_slide(context, 99, 1, &error), SMOL_ERROR_CONTEXT_FULL);
    assert_int_equal(smol_context_slide(context, 11, 30, &error), SMOL_ERROR_CONTEXT_FULL);
    assert_int_equal(smol_context_slide(context, 0, SIZE_MAX, &error), SMOL_ERROR_CONTEXT_FULL);
    assert_int_equal(smol_context_slide(context, 0, 0, &error), SMOL_OK);
    assert_int_equal(smol_context_length(context), SLIDE_CTX);
    smol_context_truncate(context, 30);
    assert_int_equal(smol_context_slide(context, 0, 10, &error), SMOL_OK);
    assert_int_equal(smol_context_slide(context, 30, 11, &error), SMOL_ERROR_CONTEXT_FULL);
    check_ids(context, ids, 30);
    smol_context_free(context);
}

TEST(a_prompt_gets_room_in_a_full_context_that_may_slide)
{
    uint32_t ids[SLIDE_CTX], expected[4 + 18 + 12];
    const smol_sampler_params greedy = {0};
    smol_generate_params params = {.prompt_only = 1, .slide = 1, .n_keep = 4};
    smol_generate_result result;
    smol_sampler *sampler;
    smol_context *context = full_context(ids);
    assert_int_equal(smol_sampler_create(&greedy, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_generate(context, sampler, ids, 12, &params, &result, NULL), SMOL_OK);
    memcpy(expected, ids, 4 * sizeof *ids);
    memcpy(expected + 4, ids + SLIDE_CTX - 18, 18 * sizeof *ids);
    memcpy(expected + 22, ids, 12 * sizeof *ids);
    check_ids(context, expected, 34);
    smol_error error;
    smol_context_cancel(context, 1); /* before it slides: not an error, as elsewhere in a prompt */
    assert_int_equal(smol_generate(context, sampler, ids, 12, &params, &result, &error), SMOL_OK);
    assert_int_equal(error.status, SMOL_OK);
    assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
    check_ids(context, expected, 34);
    smol_context_cancel(context, 0);
    params.n_keep = SLIDE_CTX;
    assert_int_equal(smol_generate(context, sampler, ids, 1, &params, &result, NULL),
                     SMOL_ERROR_USAGE);
    params.n_keep = 4;
    assert_int_equal(smol_generate(context, sampler, ids, 37, &params, &result, NULL),
                     SMOL_ERROR_CONTEXT_FULL);
    check_ids(context, expected, 34);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

/* --- several generations in step ---------------------------------------------------------- */

enum { N_TOGETHER = 6 };

/* Starts to sample after `prompt` in a context that shares with `share`, or with none if NULL. */
static smol_generation *begin(const char *prompt, size_t most, smol_context *share,
                              smol_context **context, smol_sampler **sampler, struct recording *r)
{
    const smol_context_params context_params = {.n_threads = share ? 0 : 2, .share = share};
    const smol_sampler_params params = {.temperature = 1, .seed = 5, .repetition_penalty = 1.2f};
    const smol_generate_params generate_params = {.max_tokens = most, .on_text = record, .user = r};
    smol_generation *generation;
    uint32_t *ids;
    size_t n;
    assert_int_equal(smol_context_create(model, &context_params, context, NULL), SMOL_OK);
    assert_int_equal(smol_sampler_create(&params, sampler, NULL), SMOL_OK);
    assert_int_equal(smol_tokenize(model, prompt, strlen(prompt), NULL, &ids, &n, NULL), SMOL_OK);
    assert_int_equal(
        smol_generation_create(*context, *sampler, ids, n, &generate_params, &generation, NULL),
        SMOL_OK);
    smol_free(ids);
    return generation;
}

/* Returns a prompt whose length and contents depend on i. */
static const char *draw_prompt(size_t i)
{
    static char text[2048];
    text[0] = '\0';
    for (size_t k = 0; k < 1 + i * i * 8; k++)
        strcat(text, k % 3 ? " little cat" : " once");
    return text;
}

TEST(generations_in_step_are_as_if_alone)
{
    static struct recording alone[N_TOGETHER], together[N_TOGETHER];
    smol_context *contexts[N_TOGETHER];
    smol_sampler *samplers[N_TOGETHER];
    smol_generation *generations[N_TOGETHER];
    for (size_t i = 0; i < N_TOGETHER; i++) {
        generations[i] =
            begin(draw_prompt(i), 20 + 7 * i, NULL, &contexts[i], &samplers[i], &alone[i]);
        while (!smol_generation_finished(generations[i], &alone[i].result, NULL))
            smol_generation_step(&generations[i], 1);
        smol_generation_free(generations[i]);
        smol_sampler_free(samplers[i]);
        smol_context_free(contexts[i]);
    }
    size_t n = 0, n_finished = 0;
    for (size_t step = 0; n_finished < N_TOGETHER; step++) {
        if (n < N_TOGETHER && step % 5 == 0) { /* one more joins */
            generations[n] = begin(draw_prompt(n), 20 + 7 * n, n ? contexts[0] : NULL, &contexts[n],
                                   &samplers[n], &together[n]);
            n++;
        }
        smol_generation_step(generations, n);
        n_finished = 0;
        for (size_t i = 0; i < n; i++)
            n_finished +=
                (size_t)smol_generation_finished(generations[i], &together[i].result, NULL);
    }
    for (size_t i = 0; i < N_TOGETHER; i++) {
        assert_string_equal(together[i].text, alone[i].text);
        assert_int_equal(together[i].n_ids, alone[i].n_ids);
        assert_memory_equal(together[i].ids, alone[i].ids, alone[i].n_ids * sizeof(uint32_t));
        assert_int_equal(together[i].result.finish, alone[i].result.finish);
        assert_int_equal(together[i].result.n_prompt, alone[i].result.n_prompt);
        assert_int_equal(together[i].result.n_generated, together[i].n_ids);
        smol_generation_free(generations[i]);
        smol_sampler_free(samplers[i]);
        smol_context_free(contexts[i]);
    }
}

/* A prompt that is read in pieces, because another sequence generates, and then cancelled leaves
 * nothing in its context and does not affect the other. */
enum { N_SHARING = 4, SHARED_TOKENS = 24 };

/* Writes the tokens that a sampler chooses for all in turn, after prompts of one token. */
static void choose_in_turn(smol_sampler *sampler, uint32_t (*ids)[1 + SHARED_TOKENS])
{
    smol_context *contexts[N_SHARING];
    size_t vocab_size = smol_model_get_info(model).vocab_size;
    float *logits = calloc(vocab_size, sizeof *logits);
    for (size_t i = 0; i < N_SHARING; i++)
        assert_int_equal(smol_context_create(model, NULL, &contexts[i], NULL), SMOL_OK);
    for (size_t n = 1; n <= SHARED_TOKENS; n++)
        for (size_t i = 0; i < N_SHARING; i++) {
            assert_int_equal(smol_eval(contexts[i], &ids[i][n - 1], 1, 1, logits, NULL), SMOL_OK);
            assert_int_equal(smol_sample(sampler, logits, vocab_size, ids[i], n, &ids[i][n], NULL),
                             SMOL_OK);
        }
    for (size_t i = 0; i < N_SHARING; i++)
        smol_context_free(contexts[i]);
    free(logits);
}

TEST(generations_may_share_a_sampler)
{
    static struct recording r[N_SHARING];
    uint32_t ids[N_SHARING][1 + SHARED_TOKENS];
    smol_logit_bias no_end[8];
    smol_sampler_params params = {.temperature = 1, .seed = 3, .logit_bias = no_end};
    const uint32_t *stop_ids = smol_model_stop_ids(model, &params.n_logit_bias);
    smol_context *contexts[N_SHARING];
    smol_generation *generations[N_SHARING];
    smol_sampler *first, *second;
    assert_true(params.n_logit_bias <= sizeof no_end / sizeof *no_end);
    for (size_t i = 0; i < params.n_logit_bias; i++)
        no_end[i] = (smol_logit_bias){stop_ids[i], -100};
    assert_int_equal(smol_sampler_create(&params, &first, NULL), SMOL_OK);
    assert_int_equal(smol_sampler_create(&params, &second, NULL), SMOL_OK);
    for (size_t i = 0; i < N_SHARING; i++) {
        const smol_context_params how = {.n_threads = i ? 0 : 3, .share = i ? contexts[0] : NULL};
        const smol_generate_params output = {
            .max_tokens = SHARED_TOKENS, .on_text = record, .user = &r[i]};
        ids[i][0] = 300 + 7 * (uint32_t)i;
        assert_int_equal(smol_context_create(model, &how, &contexts[i], NULL), SMOL_OK);
        assert_int_equal(
            smol_generation_create(contexts[i], first, ids[i], 1, &output, &generations[i], NULL),
            SMOL_OK);
    }
    for (size_t n = 0; n < SHARED_TOKENS; n++)
        smol_generation_step(generations, N_SHARING);
    choose_in_turn(second, ids);
    for (size_t i = 0; i < N_SHARING; i++) {
        assert_int_equal(r[i].n_ids, SHARED_TOKENS);
        assert_memory_equal(r[i].ids, ids[i] + 1, SHARED_TOKENS * sizeof(uint32_t));
        smol_generation_free(generations[i]);
        smol_context_free(contexts[i]);
    }
    smol_sampler_free(first);
    smol_sampler_free(second);
}

TEST(a_prompt_that_is_cancelled_leaves_nothing)
{
    static struct recording one, other;
    smol_context *contexts[2];
    smol_sampler *samplers[2];
    smol_generation *generations[2];
    generations[0] = begin("Once", 30, NULL, &contexts[0], &samplers[0], &one);
    generations[1] = begin(draw_prompt(5), 30, contexts[0], &contexts[1], &samplers[1], &other);
    smol_generation_step(generations, 2);
    smol_generation_step(generations, 2);
    assert_int_equal(one.n_ids, 2);
    assert_int_equal(other.n_ids, 0);
    assert_true(smol_context_length(contexts[1]) > 128);
    smol_context_cancel(contexts[1], 1);
    smol_generation_step(generations, 2);
    assert_true(smol_generation_finished(generations[1], &other.result, NULL));
    assert_int_equal(other.result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(smol_context_length(contexts[1]), 0);
    assert_false(smol_generation_finished(generations[0], &one.result, NULL));
    assert_int_equal(one.n_ids, 3);
    for (size_t i = 0; i < 2; i++) {
        smol_generation_free(generations[i]);
        smol_sampler_free(samplers[i]);
        smol_context_free(contexts[1 - i]);
    }
}

/* A prompt is read at twice the pace of the sequences that decode, however many these are. */
TEST(a_prompt_does_not_wait_for_many_that_decode)
{
    enum { N = 81, DECODING = N - 1 };
    static struct recording recordings[N];
    static smol_context *contexts[N];
    static smol_sampler *samplers[N];
    static smol_generation *generations[N];
    for (size_t i = 0; i < N; i++)
        generations[i] = begin(i < DECODING ? "Once" : draw_prompt(5), 30, i ? contexts[0] : NULL,
                               &contexts[i], &samplers[i], &recordings[i]);
    for (size_t step = 0; step < 3; step++)
        smol_generation_step(generations, DECODING);
    size_t first = recordings[0].n_ids, last = recordings[DECODING - 1].n_ids;
    smol_generation_step(generations, N);
    assert_true(smol_context_length(contexts[DECODING]) >= 2 * DECODING);
    assert_int_equal(recordings[0].n_ids, first + 1);
    assert_int_equal(recordings[DECODING - 1].n_ids, last + 1);
    for (size_t i = N; i-- > 0;) {
        smol_generation_free(generations[i]);
        smol_sampler_free(samplers[i]);
        smol_context_free(contexts[i]);
    }
}

/* --- guesses ------------------------------------------------------------------------------ */

/* Draws settings that end, slide, stop and cancel generations in all places. */
static smol_generate_params draw_params(size_t i)
{
    static const char *const stop[] = {"cat", "\n"};
    return (smol_generate_params){
        .max_tokens = i % 3 ? 1 + i % 90 : 0,
        .stop = stop,
        .n_stop = i % 5 == 0 ? 2 : 0,
        .slide = i % 4 == 0,
        .n_keep = i % 4 == 0 ? 3 : 0,
        .penalize_context = i % 2,
        .on_text = record,
    };
}

static void guess_or_not(size_t i, const char *story, int lookup, struct recording *r)
{
    static const float penalties[] = {1, 1, 1.1f};
    const smol_sampler_params sampling = {.temperature = (float)(i % 3) * 0.4f,
                                          .seed = i,
                                          .repetition_penalty = penalties[i % 3],
                                          .top_k = i % 7};
    const smol_context_params context_params = {.n_ctx = i % 4 ? 0 : 40 + (uint32_t)i % 11,
                                                .n_threads = 1 + (uint32_t)i % 2};
    const char *prompt = i % 4 ? story : draw_prompt(i % 2);
    smol_generate_params params = draw_params(i);
    smol_context *context;
    smol_sampler *sampler;
    uint32_t *ids;
    size_t n;
    memset(r, 0, sizeof *r);
    r->cancel_at = i % 6 ? 0 : 1 + i % 40;
    params.lookup = (uint64_t)lookup;
    params.user = r;
    assert_int_equal(smol_context_create(model, &context_params, &context, NULL), SMOL_OK);
    assert_int_equal(smol_sampler_create(&sampling, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_tokenize(model, prompt, strlen(prompt), NULL, &ids, &n, NULL), SMOL_OK);
    if (params.max_tokens == 0)
        params.max_tokens = 200;
    assert_int_equal(smol_generate(context, sampler, ids, n, &params, &r->result, NULL), SMOL_OK);
    r->length = smol_context_length(context);
    const uint32_t *kept = smol_context_ids(context, &n);
    assert_true(n == r->length && r->n_ids < sizeof r->ids / sizeof *r->ids);
    r->ids[r->n_ids] = smol_context_pending(context);
    r->ids[r->n_ids + 1] = kept[n - 1];
    smol_free(ids);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

TEST(guesses_save_passes_and_change_nothing)
{
    static struct recording plain, guessed;
    char story[sizeof plain.text + 100];
    uint64_t n_guessed = 0, n_right = 0;
    generate("Once upon a time", 0, (smol_generate_params){.max_tokens = 100}, &plain);
    snprintf(story, sizeof story, "Once upon a time%s\nOnce upon", plain.text);
    const size_t n_rounds = samples_only() ? 40 : 120;
    for (size_t i = 0; i < n_rounds; i++) {
        guess_or_not(i, story, 0, &plain);
        guess_or_not(i, story, 1, &guessed);
        assert_string_equal(guessed.text, plain.text);
        assert_int_equal(guessed.n_ids, plain.n_ids);
        assert_memory_equal(guessed.ids, plain.ids, (plain.n_ids + 2) * sizeof *plain.ids);
        assert_int_equal(guessed.length, plain.length);
        assert_int_equal(guessed.result.finish, plain.result.finish);
        assert_int_equal(guessed.result.n_generated, plain.result.n_generated);
        assert_int_equal(guessed.result.n_slides, plain.result.n_slides);
        assert_int_equal(plain.result.n_guessed, 0);
        n_guessed += guessed.result.n_guessed;
        n_right += guessed.result.n_guessed_right;
    }
    assert_true(n_right > 8 * n_rounds && n_guessed > n_right + 4 * n_rounds);
}

/* --- after a cancelled or late generation ------------------------------------------------- */

static smol_context *new_context(uint32_t n_ctx)
{
    const smol_context_params params = {.n_ctx = n_ctx, .n_threads = 1};
    smol_context *context;
    assert_int_equal(smol_context_create(model, &params, &context, NULL), SMOL_OK);
    return context;
}

/* A cancelled call loses nothing, with or without a pending token. */
TEST(going_on_that_is_cancelled_changes_nothing)
{
    const uint32_t prompt[] = {5, 6, 7};
    const smol_generate_params params = {.max_tokens = 4};
    smol_context *context = new_context(0);
    smol_sampler *sampler;
    smol_generate_result result;
    assert_int_equal(smol_sampler_create(NULL, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, prompt, 3, 0, NULL, NULL), SMOL_OK);
    smol_context_cancel(context, 1);
    assert_int_equal(smol_generate(context, sampler, NULL, 0, &params, &result, NULL), SMOL_OK);
    assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(result.n_prompt, 0);
    assert_int_equal(smol_context_length(context), 3);
    smol_context_cancel(context, 0);
    assert_int_equal(smol_generate(context, sampler, NULL, 0, &params, &result, NULL), SMOL_OK);
    uint32_t pending = smol_context_pending(context);
    size_t length = smol_context_length(context);
    assert_int_not_equal(pending, SMOL_NO_TOKEN);
    smol_context_cancel(context, 1);
    assert_int_equal(smol_generate(context, sampler, NULL, 0, &params, &result, NULL), SMOL_OK);
    assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(smol_context_length(context), length);
    assert_int_equal(smol_context_pending(context), pending);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

struct canceller {
    smol_context *context;
    size_t n, at; /* number of tokens so far, and the token at which the context is cancelled */
    uint32_t last;
};

static int cancel_at(void *user, const char *text, size_t size, uint32_t id)
{
    struct canceller *c = user;
    (void)text, (void)size;
    c->last = id == SMOL_NO_TOKEN ? c->last : id;
    c->n += id != SMOL_NO_TOKEN;
    if (c->n == c->at)
        smol_context_cancel(c->context, 1);
    return 0;
}

/* The token that fills the context is generated, but the context does not slide. */
TEST(a_slide_that_is_cancelled_loses_no_token)
{
    const uint32_t prompt[] = {5, 6, 7, 8};
    struct canceller canceller = {.context = new_context(12), .at = 9};
    const smol_generate_params params = {
        .max_tokens = 40, .slide = 1, .n_keep = 2, .on_text = cancel_at, .user = &canceller};
    smol_context *context = canceller.context;
    smol_sampler *sampler;
    smol_generate_result result;
    assert_int_equal(smol_sampler_create(NULL, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_generate(context, sampler, prompt, 4, &params, &result, NULL), SMOL_OK);
    assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(result.n_generated, 9);
    assert_int_equal(smol_context_length(context), 12);
    assert_int_equal(smol_context_pending(context), canceller.last);
    smol_context_cancel(context, 0);
    assert_int_equal(smol_context_slide(context, 2, 1, NULL), SMOL_OK);
    size_t length = smol_context_length(context);
    assert_true(length > 2 && length < 12);
    smol_context_cancel(context, 1);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

/* A slide that keeps only the first tokens evaluates nothing: the newest token still follows. */
TEST(a_token_is_pending_after_a_slide)
{
    const uint32_t prompt[] = {5, 6, 7, 8};
    struct canceller canceller = {.context = new_context(4), .at = 1};
    const smol_generate_params params = {
        .max_tokens = 40, .slide = 1, .n_keep = 3, .on_text = cancel_at, .user = &canceller};
    smol_sampler *sampler;
    smol_generate_result result;
    assert_int_equal(smol_sampler_create(NULL, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_generate(canceller.context, sampler, prompt, 4, &params, &result, NULL),
                     SMOL_OK);
    assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(smol_context_pending(canceller.context), canceller.last);
    smol_sampler_free(sampler);
    smol_context_free(canceller.context);
}

/* A context may become longer or shorter between the creation of a generation and its first
 * step. */
TEST(a_generation_begins_with_the_context_of_its_first_step)
{
    const uint32_t prompt[] = {5, 6};
    uint32_t filler[100];
    for (size_t i = 0; i < 100; i++)
        filler[i] = 5;
    for (int shorter = 0; shorter < 2; shorter++) {
        const smol_generate_params params = {.max_tokens = shorter ? 80 : 1,
                                             .penalize_context = !shorter};
        smol_context *context = new_context(104);
        smol_sampler *sampler;
        smol_generation *generation;
        smol_generate_result result;
        assert_int_equal(smol_sampler_create(NULL, &sampler, NULL), SMOL_OK);
        if (shorter)
            assert_int_equal(smol_eval(context, filler, 100, 0, NULL, NULL), SMOL_OK);
        assert_int_equal(
            smol_generation_create(context, sampler, prompt, 2, &params, &generation, NULL),
            SMOL_OK);
        if (shorter)
            smol_context_truncate(context, 0);
        else
            assert_int_equal(smol_eval(context, filler, 100, 0, NULL, NULL), SMOL_OK);
        while (!smol_generation_finished(generation, &result, NULL))
            smol_generation_step(&generation, 1);
        assert_true(result.n_generated > 0);
        smol_generation_free(generation);
        smol_sampler_free(sampler);
        smol_context_free(context);
    }
}

/* --- calls from a callback ---------------------------------------------------------------- */

struct saver {
    struct recording rest; /* the ids after the one at which it saved */
    smol_context *context;
    smol_session session;
    void *bytes; /* (size); NULL: not saved yet */
    size_t size;
};

static int save_at_third(void *user, const char *text, size_t size, uint32_t id)
{
    struct saver *s = user;
    size_t n;
    if (s->bytes)
        return record(&s->rest, text, size, id);
    assert_int_equal(smol_context_pending(s->context), id);
    smol_context_ids(s->context, &n);
    if (n == 4) /* two tokens of the prompt and two generated ones */
        assert_int_equal(
            smol_context_save_memory(s->context, &s->session, &s->bytes, &s->size, NULL), SMOL_OK);
    return 0;
}

TEST(what_a_callback_saves_goes_on_after_its_token)
{
    const uint32_t prompt[] = {5, 6};
    static struct saver s;
    static struct recording again;
    smol_generate_params params = {
        .max_tokens = 20, .on_text = save_at_third, .user = &s, .penalize_context = 1};
    s.context = new_context(0);
    assert_int_equal(smol_sampler_create(&sampled, &s.session.sampler, NULL), SMOL_OK);
    assert_int_equal(
        smol_generate(s.context, s.session.sampler, prompt, 2, &params, &s.rest.result, NULL),
        SMOL_OK);
    assert_int_equal(s.rest.n_ids, 17);
    assert_int_equal(smol_context_restore_memory(s.context, &s.session, s.bytes, s.size, NULL),
                     SMOL_OK);
    params.max_tokens = 17;
    params.on_text = record;
    params.user = &again;
    assert_int_equal(
        smol_generate(s.context, s.session.sampler, NULL, 0, &params, &again.result, NULL),
        SMOL_OK);
    assert_int_equal(again.n_ids, 17);
    assert_memory_equal(again.ids, s.rest.ids, 17 * sizeof *again.ids);
    smol_free(s.bytes);
    smol_sampler_free(s.session.sampler);
    smol_context_free(s.context);
}

/* --- all tokens --------------------------------------------------------------------------- */

/* Tokens as they are reported, and their logits. */
struct heard {
    uint32_t ids[160];
    size_t n, vocab_size;
    float *logits; /* (160, vocab_size) */
    bool has_logits[160];
};

static void hear(void *user, uint32_t id, const float *logits, size_t n)
{
    struct heard *h = user;
    assert_true(h->n < 160 && n == (logits ? h->vocab_size : 0));
    if (logits)
        memcpy(h->logits + h->n * n, logits, n * sizeof *logits);
    h->has_logits[h->n] = logits != NULL;
    h->ids[h->n++] = id;
}

/* Generates `most` tokens after the prompts, together, and returns how the first one ended. */
static smol_finish hear_two(smol_context *shared, smol_prefix_cache *cache, const uint32_t *prompt,
                            const size_t *n_prompt, uint64_t lookup, size_t most,
                            struct heard *heard)
{
    const smol_context_params params = {.share = shared, .prefix_cache = cache};
    smol_generation *generations[2];
    smol_context *contexts[2];
    smol_sampler *sampler;
    smol_generate_result result;
    assert_int_equal(smol_sampler_create(&(smol_sampler_params){0}, &sampler, NULL), SMOL_OK);
    for (size_t i = 0; i < 2; i++) {
        heard[i].n = 0;
        const smol_generate_params all = {.max_tokens = most,
                                          .prompt_only = most == 0,
                                          .on_token = hear,
                                          .user = &heard[i],
                                          .slice_prompt = 1,
                                          .lookup = lookup,
                                          .all_tokens = 1};
        assert_int_equal(smol_context_create(model, &params, &contexts[i], NULL), SMOL_OK);
        assert_int_equal(smol_generation_create(contexts[i], sampler, prompt, n_prompt[i], &all,
                                                &generations[i], NULL),
                         SMOL_OK);
    }
    while (!smol_generation_finished(generations[0], &result, NULL) ||
           !smol_generation_finished(generations[1], NULL, NULL))
        smol_generation_step(generations, 2);
    assert_int_equal(result.n_prompt, n_prompt[0]);
    assert_int_equal(result.n_reused, 0);
    for (size_t i = 0; i < 2; i++) {
        smol_generation_free(generations[i]);
        smol_context_free(contexts[i]);
    }
    smol_sampler_free(sampler);
    return result.finish;
}

/* Compares what was reported with the logits of one evaluation. */
static void check_heard(const struct heard *h, const float *logits)
{
    assert_false(h->has_logits[0]);
    for (size_t i = 1; i < h->n; i++) {
        assert_true(h->has_logits[i]);
        assert_memory_equal(h->logits + i * h->vocab_size, logits + (i - 1) * h->vocab_size,
                            h->vocab_size * sizeof *logits);
    }
}

/* Whole, with a second prompt beside it, with guesses, and when a cache knows the prompt. The last
 * token is the end of the text, which is told but not generated. */
TEST(all_tokens_of_prompt_and_answer_come_with_the_logits_they_follow)
{
    struct recording story = {0};
    struct heard heard[2] = {{.n = 0}};
    smol_context *context = new_context(0);
    smol_prefix_cache *cache;
    float *logits;
    uint32_t *ids;
    size_t n, vocab_size = smol_model_get_info(model).vocab_size;
    assert_int_equal(
        generate("Once upon a time", 0, (smol_generate_params){.max_tokens = 100}, &story),
        SMOL_OK);
    assert_int_equal(smol_tokenize(model, story.text, story.size, NULL, &ids, &n, NULL), SMOL_OK);
    assert_true(n > 70 && n <= 100);
    assert_int_equal(smol_prefix_cache_create(
                         model, &(smol_prefix_cache_params){.max_bytes = 1 << 24}, &cache, NULL),
                     SMOL_OK);
    assert_non_null(logits = malloc(160 * vocab_size * sizeof *logits));
    for (size_t i = 0; i < 2; i++) {
        heard[i].vocab_size = vocab_size;
        assert_non_null(heard[i].logits = malloc(160 * vocab_size * sizeof *logits));
    }
    const size_t lengths[] = {n, n - 33};
    for (uint64_t i = 0; i < 4; i++) {
        size_t most = i % 2 ? 59 : 0;
        smol_finish end = hear_two(context, cache, ids, lengths, i / 2, most, heard);
        const struct heard *h = &heard[0];
        bool stopped = end == SMOL_FINISH_STOP;
        assert_true(stopped ? smol_model_is_stop_id(model, h->ids[h->n - 1]) : h->n == n + most);
        assert_int_equal(stopped, most > 0); /* the story ends within 59 tokens */
        assert_memory_equal(h->ids, ids, n * sizeof *ids);
        for (size_t j = 0; j < 2; j++) {
            smol_context_truncate(context, 0);
            assert_int_equal(smol_eval(context, heard[j].ids, heard[j].n, heard[j].n, logits, NULL),
                             SMOL_OK);
            check_heard(&heard[j], logits);
        }
    }
    for (size_t i = 0; i < 2; i++)
        free(heard[i].logits);
    free(logits);
    smol_free(ids);
    smol_context_free(context);
    smol_prefix_cache_free(cache);
}

int main(void)
{
    return run_all_tests("generate", open_model, close_model);
}
