/* Tests of the progress reports of long calls, and of their cancellation. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/sha256.h"
#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

static char digest[SHA256_TEXT_SIZE];

/* --- a listener --------------------------------------------------------------------------- */

struct heard {
    unsigned n;         /* calls since the count last restarted */
    unsigned n_rounds;  /* complete counts from 0 to a total */
    unsigned cancel_at; /* 0: never */
    unsigned n_all;
    uint64_t done, total;
};

static int hear(void *user, uint64_t done, uint64_t total)
{
    struct heard *heard = user;
    assert_true(done > 0 && done < total);
    if (heard->n == 0 || done < heard->done) {
        heard->n_rounds++;
        heard->n = 0;
    } else {
        assert_int_equal(total, heard->total);
        assert_true(done > heard->done);
    }
    heard->n++;
    heard->done = done;
    heard->total = total;
    return ++heard->n_all == heard->cancel_at;
}

/* --- opening ------------------------------------------------------------------------------ */

static smol_status open_heard(smol_model_params params, struct heard *heard, smol_model **opened)
{
    smol_error error;
    params.on_progress = hear;
    params.user = heard;
    smol_status status = smol_model_open(demo_blob, &params, opened, &error);
    assert_int_equal(error.status, status);
    assert_true((status == SMOL_OK) == (*opened != NULL));
    return status;
}

TEST(verification_at_open_tells_how_far_it_is)
{
    const smol_model_params params = {.verify = SMOL_VERIFY_OPEN};
    struct heard heard = {0};
    smol_model *opened;
    assert_int_equal(open_heard(params, &heard, &opened), SMOL_OK);
    assert_int_equal(heard.n_rounds, 1);
    assert_true(heard.n >= 2);
    assert_true(heard.total > smol_model_get_info(opened).blob_bytes);
    smol_model_close(opened);
}

TEST(so_does_a_required_digest)
{
    smol_model_params params = {.require_digest = digest};
    struct heard heard = {0};
    smol_model *opened;
    assert_int_equal(open_heard(params, &heard, &opened), SMOL_OK);
    assert_int_equal(heard.n_rounds, 1);
    assert_int_equal(heard.total, smol_model_get_info(opened).blob_bytes);
    assert_int_equal(heard.n, (heard.total - 1) >> 20);
    smol_model_close(opened);
    params.verify = SMOL_VERIFY_OPEN;
    heard = (struct heard){0};
    assert_int_equal(open_heard(params, &heard, &opened), SMOL_OK);
    assert_int_equal(heard.n_rounds, 2);
    smol_model_close(opened);
}

TEST(what_takes_no_time_tells_nothing)
{
    const smol_model_params params = {0};
    struct heard heard = {0};
    smol_model *opened;
    assert_int_equal(open_heard(params, &heard, &opened), SMOL_OK);
    assert_int_equal(heard.n_all, 0);
    smol_model_close(opened);
}

TEST(opening_can_be_cancelled_at_every_call)
{
    const smol_model_params params = {.verify = SMOL_VERIFY_OPEN, .require_digest = digest};
    struct heard whole = {0};
    smol_model *opened;
    assert_int_equal(open_heard(params, &whole, &opened), SMOL_OK);
    smol_model_close(opened);
    for (unsigned at = 1; at <= whole.n_all; at++) {
        struct heard heard = {.cancel_at = at};
        assert_int_equal(open_heard(params, &heard, &opened), SMOL_ERROR_CANCELLED);
        assert_int_equal(heard.n_all, at);
    }
}

/* --- evaluating --------------------------------------------------------------------------- */

enum { N_LONG = 300, BATCH = 128 }; /* three passes */

static smol_model *model;
static uint32_t ids[N_LONG];

static smol_context *new_context(smol_on_progress *on_progress, void *user)
{
    const smol_context_params params = {.n_threads = 3, .on_progress = on_progress, .user = user};
    smol_context *context;
    assert_int_equal(smol_context_create(model, &params, &context, NULL), SMOL_OK);
    return context;
}

static float *new_logits(void)
{
    return calloc(smol_model_get_info(model).vocab_size, sizeof(float));
}

TEST(prefill_tells_how_far_it_is)
{
    struct heard heard = {0};
    smol_context *context = new_context(hear, &heard);
    assert_int_equal(smol_eval(context, ids, N_LONG, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(heard.n_all, 2);
    assert_int_equal(heard.total, N_LONG);
    assert_int_equal(heard.done, 2 * BATCH);
    assert_int_equal(smol_eval(context, ids, BATCH, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(heard.n_all, 2);
    smol_context_free(context);
}

/* Expects the results of a context that was never cancelled, with the same ids. */
static void check_undisturbed(smol_context *context)
{
    size_t vocab_size = smol_model_get_info(model).vocab_size, n;
    smol_context *other = new_context(NULL, NULL);
    float *got = new_logits(), *expected = new_logits();
    const uint32_t *held = smol_context_ids(context, &n);
    assert_int_equal(n, smol_context_length(context));
    if (n > 0)
        assert_int_equal(smol_eval(other, held, n, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(smol_eval(other, ids + 7, 1, 1, expected, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, ids + 7, 1, 1, got, NULL), SMOL_OK);
    assert_memory_equal(got, expected, vocab_size * sizeof *got);
    free(got);
    free(expected);
    smol_context_free(other);
}

TEST(prefill_is_cancelled_by_its_listener)
{
    for (unsigned at = 1; at <= 2; at++) {
        struct heard heard = {0};
        smol_error error;
        smol_context *context = new_context(hear, &heard);
        assert_int_equal(smol_eval(context, ids, 5, 0, NULL, NULL), SMOL_OK);
        heard.cancel_at = at;
        assert_int_equal(smol_eval(context, ids, N_LONG, 0, NULL, &error), SMOL_ERROR_CANCELLED);
        assert_int_equal(error.status, SMOL_ERROR_CANCELLED);
        assert_int_equal(heard.n_all, at);
        assert_int_equal(smol_context_length(context), 5);
        check_undisturbed(context);
        smol_context_free(context);
    }
}

TEST(a_cancelled_context_evaluates_nothing_until_that_is_taken_back)
{
    smol_context *context = new_context(NULL, NULL);
    float *states = calloc(smol_model_get_info(model).hidden_size, sizeof *states);
    smol_context_cancel(context, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(smol_eval(context, ids, 9, 0, NULL, NULL), SMOL_ERROR_CANCELLED);
        assert_int_equal(smol_embed(context, ids, 9, SMOL_POOL_MEAN, states, NULL),
                         SMOL_ERROR_CANCELLED);
        assert_int_equal(smol_context_length(context), 0);
    }
    smol_context_cancel(context, 0);
    assert_int_equal(smol_eval(context, ids, 9, 0, NULL, NULL), SMOL_OK);
    check_undisturbed(context);
    free(states);
    smol_context_free(context);
}

/* Only the cancelled ones of several contexts that are evaluated together fail. */
TEST(others_go_on)
{
    struct heard heard = {.cancel_at = 1};
    smol_context *first = new_context(NULL, NULL), *second;
    const smol_context_params params = {.share = first, .on_progress = hear, .user = &heard};
    assert_int_equal(smol_context_create(model, &params, &second, NULL), SMOL_OK);
    smol_eval_part parts[] = {{.context = first, .ids = ids, .n = N_LONG - 1},
                              {.context = second, .ids = ids, .n = N_LONG}};
    assert_int_equal(smol_eval_many(parts, 2, NULL), SMOL_ERROR_CANCELLED);
    assert_int_equal(parts[0].error.status, SMOL_OK);
    assert_int_equal(parts[1].error.status, SMOL_ERROR_CANCELLED);
    assert_int_equal(smol_context_length(first), N_LONG - 1);
    assert_int_equal(smol_context_length(second), 0);
    check_undisturbed(first);
    check_undisturbed(second);
    smol_context_free(first);
    smol_context_free(second);
}

/* --- tokenizing ----------------------------------------------------------------------------- */

enum { TEXT_SIZE = 1 << 22 };

static int tell_tokenized(void *user, uint64_t done, uint64_t total)
{
    struct heard *heard = user;
    assert_true(done > 0 && done < total && done >= heard->done);
    heard->done = done;
    return ++heard->n_all == heard->cancel_at;
}

/* Tokenizes words, one long word, and a long run of white space. */
TEST(tokenizing_is_cancelled_by_its_listener)
{
    char *text = malloc(TEXT_SIZE);
    assert_non_null(text);
    for (const char *unit = "abcdefg a       "; *unit; unit += 8) {
        for (size_t i = 0; i < TEXT_SIZE; i++)
            text[i] = unit[0] == 'a' && unit[1] == 'b' ? unit[i % 8] : unit[0];
        for (unsigned at = 0; at <= 3; at++) {
            struct heard heard = {.cancel_at = at};
            const smol_tokenize_params params = {.on_progress = tell_tokenized, .user = &heard};
            uint32_t *tokens;
            size_t n;
            smol_error error;
            smol_status status =
                smol_tokenize(model, text, TEXT_SIZE, &params, &tokens, &n, &error);
            assert_int_equal(status, at ? SMOL_ERROR_CANCELLED : SMOL_OK);
            assert_int_equal(error.status, status);
            assert_true(at ? heard.n_all == at && !tokens && n == 0 : heard.n_all >= 16);
            smol_free(tokens);
        }
    }
    free(text);
}

TEST(a_chat_is_cancelled_by_its_listener)
{
    enum { CHAT_SIZE = 1 << 20 };
    char *text = malloc(CHAT_SIZE);
    assert_non_null(text);
    memset(text, 'a', CHAT_SIZE);
    const smol_chat_message message = {"user", text, CHAT_SIZE};
    struct heard heard = {.cancel_at = 2};
    const smol_chat_params params = {
        .messages = &message, .n_messages = 1, .on_progress = tell_tokenized, .user = &heard};
    uint32_t *tokens;
    size_t n;
    assert_int_equal(smol_chat_tokenize(model, &params, &tokens, &n, NULL), SMOL_ERROR_CANCELLED);
    assert_int_equal(heard.n_all, 2);
    assert_null(tokens);
    free(text);
}

/* --- calibration --------------------------------------------------------------------------- */

static int drop(void *user, uint64_t offset, const void *data, size_t size)
{
    (void)user, (void)offset, (void)data, (void)size;
    return 0;
}

static smol_status calibrate(smol_context *context, struct heard *heard)
{
    const uint32_t windows[] = {BATCH + 1, N_LONG - BATCH - 1};
    const smol_calibrate_params params = {
        .diagonal = 1, .max_bytes = 1 << 14, .write = drop, .on_progress = hear, .user = heard};
    return smol_calibrate(context, ids, windows, 2, &params, NULL, NULL);
}

/* The texts are evaluated several times, since not all sums fit into memory, and then for each
 * matrix. */
TEST(calibration_tells_how_far_it_is_and_leaves_out_the_end)
{
    char path[128];
    struct heard heard = {0};
    smol_model *exact;
    smol_context *context;
    assert_int_equal(convert_demo(DTYPE_F32, path), 0);
    assert_int_equal(smol_model_open(path, NULL, &exact, NULL), SMOL_OK);
    assert_int_equal(smol_context_create(exact, NULL, &context, NULL), SMOL_OK);
    assert_int_equal(calibrate(context, &heard), SMOL_OK);
    assert_int_equal(heard.n_rounds, 1);
    assert_true(heard.total >= 2 * N_LONG && heard.total - heard.done <= BATCH);
    for (unsigned at = 1; at <= heard.n_all; at += heard.n_all / 3) {
        struct heard some = {.cancel_at = at};
        assert_int_equal(calibrate(context, &some), SMOL_ERROR_CANCELLED);
        assert_int_equal(some.n_all, at);
        assert_int_equal(smol_context_length(context), 0);
    }
    smol_context_free(context);
    smol_model_close(exact);
}

/* --- from another thread ------------------------------------------------------------------ */

/* A thread that cancels after a delay. */
struct meddler {
    smol_context *context;
    pthread_t thread;
    unsigned long patience; /* iterations of waiting */
};

static void *meddle(void *argument)
{
    struct meddler *meddler = argument;
    atomic_ulong waited = 0;
    while (atomic_fetch_add(&waited, 1) < meddler->patience)
        continue;
    smol_context_cancel(meddler->context, 1);
    return NULL;
}

/* Evaluates the sequence after the first n tokens, while another thread cancels during or after the
 * call. */
static smol_status eval_meddled(struct meddler *meddler, size_t n, float *logits)
{
    smol_context_truncate(meddler->context, n);
    assert_int_equal(pthread_create(&meddler->thread, NULL, meddle, meddler), 0);
    smol_status status = smol_eval(meddler->context, ids + n, N_LONG - n, 1, logits, NULL);
    pthread_join(meddler->thread, NULL);
    smol_context_cancel(meddler->context, 0);
    return status;
}

/* At any moment of cancellation, a call is done completely or not at all. The patience is adjusted
 * until both happen. */
TEST(a_call_that_is_cancelled_at_any_moment_is_done_or_not)
{
    struct meddler meddler = {.context = new_context(NULL, NULL), .patience = 1};
    size_t vocab_size = smol_model_get_info(model).vocab_size, first = 10;
    float *expected = new_logits(), *got = new_logits();
    unsigned n_done = 0, n_cancelled = 0;
    assert_int_equal(smol_eval(meddler.context, ids, N_LONG, 1, expected, NULL), SMOL_OK);
    for (unsigned round = 0; round < 20 || n_done == 0 || n_cancelled == 0; round++) {
        smol_status status = eval_meddled(&meddler, first, got);
        if (status == SMOL_OK) {
            n_done++;
            meddler.patience -= meddler.patience / 3;
            assert_int_equal(smol_context_length(meddler.context), N_LONG);
            assert_memory_equal(got, expected, vocab_size * sizeof *got);
        } else {
            n_cancelled++;
            meddler.patience *= 2;
            assert_int_equal(status, SMOL_ERROR_CANCELLED);
            assert_int_equal(smol_context_length(meddler.context), first);
        }
    }
    free(expected);
    free(got);
    check_undisturbed(meddler.context);
    smol_context_free(meddler.context);
}

/* --- generating --------------------------------------------------------------------------- */

/* Receives tokens, and cancels from another thread after a number of them. */
struct reader {
    smol_context *context;
    size_t n, cancel_at;
};

static void *cancel(void *argument)
{
    smol_context_cancel(argument, 1);
    return NULL;
}

static int count(void *user, const char *text, size_t size, uint32_t id)
{
    struct reader *reader = user;
    pthread_t thread;
    (void)text;
    (void)size;
    assert_true(id != SMOL_NO_TOKEN); /* a cancelled call does not deliver held-back text */
    if (++reader->n == reader->cancel_at) {
        assert_int_equal(pthread_create(&thread, NULL, cancel, reader->context), 0);
        pthread_join(thread, NULL);
    }
    return 0;
}

TEST(generation_ends_at_the_token_where_it_was_cancelled)
{
    const smol_sampler_params greedy = {0};
    smol_sampler *sampler;
    assert_int_equal(smol_sampler_create(&greedy, &sampler, NULL), SMOL_OK);
    for (size_t at = 0; at <= 3; at++) {
        struct reader reader = {.context = new_context(NULL, NULL), .cancel_at = at};
        const smol_generate_params params = {.max_tokens = 8, .on_text = count, .user = &reader};
        smol_generate_result result;
        smol_error error;
        smol_context_cancel(reader.context, at == 0); /* before the prompt */
        assert_int_equal(smol_generate(reader.context, sampler, ids, 20, &params, &result, &error),
                         SMOL_OK);
        assert_int_equal(error.status, SMOL_OK);
        assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
        assert_int_equal(result.n_prompt, at > 0 ? 20 : 0);
        assert_int_equal(result.n_generated, at);
        assert_int_equal(reader.n, at);
        assert_int_equal(smol_context_length(reader.context), at > 0 ? 20 + at - 1 : 0);
        smol_context_cancel(reader.context, 0);
        check_undisturbed(reader.context);
        smol_context_free(reader.context);
    }
    smol_sampler_free(sampler);
}

/* --- all calls ---------------------------------------------------------------------------- */

static int open_model(void **state)
{
    struct file_view file;
    struct sha256 hash;
    smol_error error;
    if (make_demo_blob(state) || smol_file_read(demo_blob, SIZE_MAX, &file, &error))
        return -1;
    smol_sha256_start(&hash);
    smol_sha256_end(&hash, file.data, file.size, digest);
    smol_file_close(&file);
    for (uint32_t i = 0; i < N_LONG; i++)
        ids[i] = 20 + i * 7 % 300;
    return (int)smol_model_open(demo_blob, NULL, &model, NULL);
}

static int close_model(void **state)
{
    smol_model_close(model);
    return remove_demo_blob(state);
}

int main(void)
{
    return run_all_tests("progress", open_model, close_model);
}
