/* Tests of sequences that are evaluated together: each gets the same bits as alone, whatever shares
 * its passes, and a failure in one does not affect the others. */
#include <fcntl.h>
#include <fenv.h>
#include <unistd.h>

#include "runtime/kernels/kernels.h"
#include "runtime/model.h"
#include "smol.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

enum { N_SEQUENCES = 6, N_IDS = SLOW ? 150 : 330, N_VOCABULARY = 19 };

static smol_error error;
static char path[128];
static uint32_t ids[N_SEQUENCES][N_IDS];
typedef float logits_t[N_IDS][N_VOCABULARY];

static smol_model *open_blob(const struct blob_model *blob_model)
{
    const smol_model_params unchecked = {.verify = SMOL_VERIFY_OFF};
    smol_model *model;
    if (blob_model) {
        const struct blob_contents contents = contents_of(blob_model);
        assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    }
    assert_int_equal(smol_model_open(path, &unchecked, &model, NULL), SMOL_OK);
    return model;
}

static smol_context *new_context(const smol_model *model, smol_context_params params)
{
    smol_context *context;
    smol_error failure;
    if (smol_context_create(model, &params, &context, &failure))
        fail_msg("%s", failure.message);
    return context;
}

/* --- random combinations ------------------------------------------------------------------ */

/* The KV types alternate. */
static smol_kv kv_of(size_t sequence)
{
    return (smol_kv)(SMOL_KV_F32 + sequence % 4);
}

static uint32_t draw(uint32_t below)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

/* Returns 1 usually, sometimes the size of a prompt. */
static size_t draw_size(size_t left)
{
    size_t n = draw(4) == 0 ? 1 + draw(150) : 1;
    return n < left ? n : left;
}

static void evaluate_alone(const smol_model *model, size_t sequence, logits_t logits)
{
    smol_context *context =
        new_context(model, (smol_context_params){.n_threads = 1, .kv = kv_of(sequence)});
    assert_int_equal(smol_eval(context, ids[sequence], N_IDS, N_IDS, logits[0], NULL), SMOL_OK);
    smol_context_free(context);
}

/* Evaluates some of the unfinished sequences in one call. Returns false when all are finished. */
static bool evaluate_some(smol_context *const contexts[N_SEQUENCES], logits_t logits[N_SEQUENCES])
{
    smol_eval_part parts[N_SEQUENCES];
    size_t n_parts = 0, n_left = 0;
    smol_error failure;
    for (size_t i = 0; i < N_SEQUENCES; i++) {
        size_t done = smol_context_length(contexts[i]), left = N_IDS - done;
        n_left += left;
        if (left == 0 || draw(4) == 0)
            continue;
        size_t n = draw_size(left), n_logits = draw(2) ? n : draw((uint32_t)n + 1);
        parts[n_parts++] = (smol_eval_part){
            .context = contexts[i],
            .ids = ids[i] + done,
            .n = n,
            .n_logits = n_logits,
            .logits = logits[i][done + n - n_logits],
        };
    }
    if (smol_eval_many(parts, n_parts, &failure))
        fail_msg("%s", failure.message);
    return n_left > 0;
}

/* Compares the rows of `found`; rows without requested logits are NaN. */
static void compare(const logits_t found, const logits_t expected, size_t sequence)
{
    for (size_t i = 0; i < N_IDS; i++)
        if (found[i][0] == found[i][0] && memcmp(found[i], expected[i], sizeof found[i]))
            fail_msg("sequence %zu: other bits at %zu", sequence, i);
}

static void check_mix(const smol_model *model, uint32_t n_threads,
                      const logits_t expected[N_SEQUENCES])
{
    static logits_t logits[N_SEQUENCES];
    smol_context *contexts[N_SEQUENCES];
    memset(logits, 0xff, sizeof logits);
    for (size_t i = 0; i < N_SEQUENCES; i++)
        contexts[i] = new_context(model, (smol_context_params){.n_threads = n_threads,
                                                               .kv = kv_of(i),
                                                               .share = i ? contexts[0] : NULL});
    while (evaluate_some(contexts, logits))
        ;
    for (size_t i = 0; i < N_SEQUENCES; i++) {
        compare(logits[i], expected[i], i);
        smol_context_free(contexts[i]);
    }
}

static void check_model(uint32_t blocks, uint32_t sliding_window, enum blob_dtype dtype)
{
    static logits_t expected[N_SEQUENCES];
    struct blob_model blob_model = rich_model;
    blob_model.dtype = dtype;
    blob_model.blocks = blocks;
    blob_model.sliding_window = sliding_window;
    blob_model.n_heads = 4;
    blob_model.n_kv_heads = 2;
    blob_model.context_length = N_IDS;
    smol_model *model = open_blob(&blob_model);
    for (size_t i = 0; i < N_SEQUENCES; i++)
        evaluate_alone(model, i, expected[i]);
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++)
        check_mix(model, n_threads, expected);
    bool runs;
    const struct kernels *kernels;
    for (size_t i = 0; (kernels = smol_kernels_at(i, &runs)); i++) {
        setenv("SMOL_ISA", kernels->name, 1);
        if (runs)
            check_mix(model, 2, expected);
        unsetenv("SMOL_ISA");
    }
    smol_model_close(model);
}

TEST(sequences_of_f32_blobs_share_passes)
{
    check_model(BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS, 5, DTYPE_F32);
}

TEST(sequences_of_bf16_blobs_share_passes)
{
    check_model(BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_ALL, 100, DTYPE_BF16);
}

TEST(sequences_of_int8_blobs_share_passes)
{
    check_model(BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_ALL, N_IDS - 40, DTYPE_INT8);
}

/* --- errors ------------------------------------------------------------------------------- */

static smol_eval_part part_of(smol_context *context, const uint32_t *tokens, size_t n,
                              float *logits)
{
    return (smol_eval_part){
        .context = context, .ids = tokens, .n = n, .n_logits = logits != NULL, .logits = logits};
}

TEST(parts_that_make_no_sense_fail_alone)
{
    static const uint32_t unknown[] = {N_VOCABULARY};
    float logits[2][N_VOCABULARY];
    smol_error failure;
    smol_model *model = open_blob(&odd_model);
    smol_context *a = new_context(model, (smol_context_params){.n_threads = 2});
    smol_context *b = new_context(model, (smol_context_params){.share = a, .n_ctx = 2});
    smol_context *other = new_context(model, (smol_context_params){.n_threads = 1});
    smol_eval_part parts[] = {part_of(b, ids[0], 3, NULL),     part_of(a, ids[0], 3, logits[0]),
                              part_of(a, ids[0], 1, NULL),     part_of(other, ids[0], 1, NULL),
                              part_of(b, unknown, 1, NULL),    part_of(b, ids[0], 0, NULL),
                              part_of(b, ids[0], 2, logits[1])};
    static const smol_status expected[] = {
        SMOL_ERROR_CONTEXT_FULL, SMOL_OK,          SMOL_ERROR_USAGE, SMOL_ERROR_USAGE,
        SMOL_ERROR_USAGE,        SMOL_ERROR_USAGE, SMOL_OK};
    assert_int_equal(smol_eval_many(parts, 7, &failure), SMOL_ERROR_CONTEXT_FULL);
    assert_string_equal(failure.message, parts[0].error.message);
    for (size_t i = 0; i < 7; i++)
        if (parts[i].error.status != expected[i])
            fail_msg("part %zu: %s", i, parts[i].error.message);
    assert_string_equal(parts[5].error.message, "no tokens to evaluate: pass at least one");
    assert_int_equal(smol_context_length(a), 3);
    assert_int_equal(smol_context_length(b), 2);
    assert_int_equal(smol_context_length(other), 0);
    smol_context_free(a); /* the others still have their threads */
    parts[6] = part_of(other, ids[0], 2, logits[0]);
    assert_int_equal(smol_eval_many(parts + 6, 1, NULL), SMOL_OK);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    smol_context_truncate(b, 1);
    assert_int_equal(smol_eval(b, ids[0] + 1, 1, 1, logits[1], NULL), SMOL_OK);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    smol_context_free(b);
    smol_context_free(other);
    smol_model_close(model);
}

TEST(contexts_share_with_their_like_only)
{
    smol_model *one = open_blob(&odd_model), *two = open_blob(NULL);
    smol_context *a = new_context(one, (smol_context_params){.n_threads = 2}), *b;
    const smol_context_params of_another = {.share = a}, threads = {.share = a, .n_threads = 3};
    assert_int_equal(smol_context_create(two, &of_another, &b, NULL), SMOL_ERROR_USAGE);
    assert_int_equal(smol_context_create(one, &threads, &b, NULL), SMOL_ERROR_USAGE);
    assert_null(b);
    b = new_context(one, (smol_context_params){.share = a, .n_threads = 2});
    assert_int_equal(smol_context_get_info(b).n_threads, 2);
    assert_int_equal(smol_eval_many(NULL, 0, NULL), SMOL_OK);
    smol_context_free(b);
    smol_context_free(a);
    smol_model_close(one);
    smol_model_close(two);
}

/* Gives token LOUD values so large that they overflow during evaluation. */
enum { LOUD = 7 };
static void make_loud(const smol_model *model)
{
    const uint16_t scale = 0x7bff; /* the largest f16 */
    uint64_t block = model->network.outer.tensor[ROLE_EMBED]->offset;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(
        pwrite(fd, &scale, sizeof scale,
               (off_t)(block + group_scales_offset(DTYPE_INT8, 0) + LOUD * sizeof scale)),
        sizeof scale);
    assert_int_equal(close(fd), 0);
}

/* Evaluates `quiet` beside a sequence that overflows, at another position in the kernels' runs. */
static void check_beside_failure(const smol_model *model, const float *expected, size_t before)
{
    static const uint32_t loud[] = {1, LOUD, 3}, quiet[] = {4, 5, 6};
    float logits[2][N_VOCABULARY];
    smol_error failure;
    smol_context *a = new_context(model, (smol_context_params){.n_threads = 2, .kv = SMOL_KV_F32});
    smol_context *b = new_context(model, (smol_context_params){.share = a, .kv = SMOL_KV_F32});
    smol_eval_part parts[2];
    parts[before] = part_of(a, loud, 3, logits[0]);
    parts[1 - before] = part_of(b, quiet, 3, logits[1]);
    assert_int_equal(smol_eval_many(parts, 2, &failure), SMOL_ERROR_NUMERIC);
    assert_int_equal(parts[before].error.status, SMOL_ERROR_NUMERIC);
    assert_non_null(strstr(failure.message, "in the MLP activation (layer 1, position 1)"));
    assert_int_equal(parts[1 - before].error.status, SMOL_OK);
    assert_int_equal(smol_context_length(a), 0);
    assert_int_equal(smol_context_length(b), 3);
    assert_memory_equal(logits[1], expected, sizeof logits[1]);
    assert_int_equal(smol_eval(a, quiet, 3, 1, logits[0], NULL), SMOL_OK);
    assert_memory_equal(logits[0], expected, sizeof logits[0]);
    smol_context_free(a);
    smol_context_free(b);
}

TEST(infinity_in_one_sequence_spares_the_others)
{
    static const uint32_t quiet[] = {4, 5, 6};
    struct blob_model blob_model = rich_model;
    float expected[N_VOCABULARY];
    blob_model.blocks = BLOCK_NO_INPUT_NORMS;
    blob_model.embedding_scale = 1e3f;
    smol_model *model = open_blob(&blob_model);
    make_loud(model);
    smol_model_close(model);
    model = open_blob(NULL);
    smol_context *alone = new_context(model, (smol_context_params){.kv = SMOL_KV_F32});
    assert_int_equal(smol_eval(alone, quiet, 3, 1, expected, NULL), SMOL_OK);
    smol_context_free(alone);
    bool runs;
    const struct kernels *kernels;
    for (size_t i = 0; (kernels = smol_kernels_at(i, &runs)); i++) {
        setenv("SMOL_ISA", kernels->name, 1);
        for (size_t before = 0; runs && before < 2; before++)
            check_beside_failure(model, expected, before);
        unsetenv("SMOL_ISA");
    }
    smol_model_close(model);
}

/* For a plain block, the attention scale is computed when the model is opened. */
TEST(the_rounding_mode_at_open_does_not_matter)
{
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    float logits[2][N_VOCABULARY];
    smol_model_close(open_blob(&odd_model));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        fesetround(modes[i]);
        smol_model *model = open_blob(NULL);
        assert_int_equal(fegetround(), modes[i]);
        fesetround(FE_TONEAREST);
        smol_context *context = new_context(model, (smol_context_params){.n_threads = 1});
        assert_int_equal(smol_eval(context, ids[0], 11, 1, logits[i > 0], NULL), SMOL_OK);
        assert_memory_equal(logits[i > 0], logits[0], sizeof logits[0]);
        smol_context_free(context);
        smol_model_close(model);
    }
}

static int set_up(void **state)
{
    temporary_set_up(state);
    snprintf(path, sizeof path, "%s/evaluate.smol", temporary.folder);
    make_tokenizer();
    for (uint32_t i = 0; i < N_SEQUENCES; i++)
        for (uint32_t j = 0; j < N_IDS; j++)
            ids[i][j] = (j * j + i * j + i) % N_VOCABULARY;
    return 0;
}

int main(void)
{
    return run_all_tests("evaluate", set_up, temporary_tear_down);
}
