/* Tests of models whose blocks use all of FEATURE_BLOCKS and FEATURE_COMPONENTS: any number of
 * threads, any split into batches and any kernels compute the same bits, with windows that end
 * within a block, beyond one, and beyond a span. */
#include "runtime/kernels/kernels.h"
#include "smol.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

enum { N_IDS = SLOW ? 150 : 330, MAX_VOCABULARY = 19 };

static smol_error error;
static char path[128];
static uint32_t ids[N_IDS];
typedef float logits_t[N_IDS * MAX_VOCABULARY];

/* A way to evaluate the tokens: in parts of `part` tokens, on `n_threads` threads, with the kernels
 * of `isa` (NULL: the default). */
struct way {
    uint32_t n_threads;
    size_t part;
    const char *isa;
};

static void evaluate(const smol_model *model, smol_kv kv, const struct way *way, logits_t logits)
{
    const smol_context_params params = {.n_threads = way->n_threads, .kv = kv};
    smol_context *context;
    smol_error failure;
    if (way->isa)
        setenv("SMOL_ISA", way->isa, 1);
    assert_int_equal(smol_context_create(model, &params, &context, &failure), SMOL_OK);
    unsetenv("SMOL_ISA");
    for (size_t done = 0; done < N_IDS; done += way->part) {
        size_t n = way->part < N_IDS - done ? way->part : N_IDS - done;
        float *out = logits + done * MAX_VOCABULARY;
        if (smol_eval(context, ids + done, n, n, out, &failure))
            fail_msg("%s", failure.message);
    }
    smol_context_free(context);
}

static void check_way(const smol_model *model, smol_kv kv, const struct way *way,
                      const logits_t expected)
{
    static logits_t logits;
    memset(logits, 0xff, sizeof logits);
    evaluate(model, kv, way, logits);
    if (memcmp(logits, expected, sizeof logits))
        fail_msg("kv %d: %u threads, parts of %zu, %s: other bits", kv, way->n_threads, way->part,
                 way->isa ? way->isa : "the best kernels");
}

static void check_model(const struct blob_model *blob_model)
{
    static logits_t expected;
    static const struct way whole = {1, N_IDS, NULL};
    static const struct way ways[] = {{2, N_IDS, NULL}, {3, 1, NULL}, {1, 37, NULL}, {2, 7, NULL}};
    const struct blob_contents contents = contents_of(blob_model);
    smol_model *model;
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    assert_int_equal(smol_model_open(path, NULL, &model, NULL), SMOL_OK);
    for (smol_kv kv = SMOL_KV_F32; kv <= SMOL_KV_INT4; kv++) {
        evaluate(model, kv, &whole, expected);
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
            check_way(model, kv, &ways[i], expected);
        bool runs;
        const struct kernels *kernels;
        for (size_t i = 0; (kernels = smol_kernels_at(i, &runs)); i++)
            if (runs)
                check_way(model, kv, &(struct way){2, 61, kernels->name}, expected);
    }
    smol_model_close(model);
}

static struct blob_model model_with(uint32_t blocks, uint32_t sliding_window, enum blob_dtype dtype)
{
    struct blob_model model = rich_model;
    model.dtype = dtype;
    model.blocks = blocks;
    model.sliding_window = sliding_window;
    model.n_heads = 4;
    model.n_kv_heads = 2;
    model.context_length = N_IDS;
    return model;
}

TEST(f32_blobs_give_one_answer)
{
    const struct blob_model model =
        model_with(BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS, 5, DTYPE_F32);
    check_model(&model);
}

TEST(bf16_blobs_give_one_answer)
{
    const struct blob_model model =
        model_with(BLOCK_NORM_OUTPUTS | BLOCK_NO_INPUT_NORMS | BLOCK_QK_NORM_ALL, 100, DTYPE_BF16);
    check_model(&model);
}

TEST(int8_blobs_give_one_answer)
{
    const struct blob_model model =
        model_with(BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_ALL, N_IDS - 40, DTYPE_INT8);
    check_model(&model);
}

/* With parts of FEATURE_COMPONENTS. */
static void check_components(uint32_t blocks, enum activation activation, enum blob_dtype dtype)
{
    struct blob_model model = model_with(blocks, 5, dtype);
    model.activation = activation;
    model.query_period = 60;
    model.query_growth = 0.1f;
    check_model(&model);
}

TEST(parallel_blocks_give_one_answer)
{
    check_components(BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_PARALLEL | BLOCK_ONE_NORM |
                         BLOCK_OUTPUT_BIAS,
                     ACTIVATION_GELU_TANH, DTYPE_INT8);
}

TEST(learned_positions_give_one_answer)
{
    check_components(BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_POSITIONS, ACTIVATION_GELU,
                     DTYPE_BF16);
}

TEST(late_norms_of_neighbours_give_one_answer)
{
    check_components(BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_LATE | BLOCK_ROTATE_NEIGHBOURS |
                         BLOCK_PARALLEL | BLOCK_NORM_OUTPUTS,
                     ACTIVATION_GELU, DTYPE_F32);
}

TEST(sinks_and_squares_give_one_answer)
{
    check_components(BLOCK_SINKS | BLOCK_NO_GATE, ACTIVATION_RELU_SQUARED, DTYPE_INT8);
}

/* A cap would make these logits finite again. */
TEST(a_cap_does_not_hide_infinity)
{
    struct blob_model model = model_with(0, 5, DTYPE_F32);
    const struct blob_contents contents = contents_of(&model);
    static logits_t logits;
    smol_model *handle;
    smol_context *context;
    smol_error failure;
    model.logit_divisor = 1e-40f; /* a division by this overflows */
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    assert_int_equal(smol_model_open(path, NULL, &handle, NULL), SMOL_OK);
    assert_int_equal(smol_context_create(handle, NULL, &context, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, ids, 3, 1, logits, &failure), SMOL_ERROR_NUMERIC);
    assert_non_null(strstr(failure.message, "NaN or infinity in the logits"));
    smol_context_free(context);
    smol_model_close(handle);
}

/* Expects that values beyond the range of f16, at positions without requested logits, are reported
 * in `what`. */
static void overflows_in(const char *what, float softcap)
{
    struct blob_model model = model_with(BLOCK_NO_INPUT_NORMS, 2, DTYPE_F32);
    const struct blob_contents contents = contents_of(&model);
    const smol_context_params f16 = {.kv = SMOL_KV_F16}, f32 = {.kv = SMOL_KV_F32};
    smol_model *handle;
    smol_context *context;
    smol_error failure;
    model.embedding_scale = 1e6f;
    model.attention_softcap = softcap;
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    assert_int_equal(smol_model_open(path, NULL, &handle, NULL), SMOL_OK);
    assert_int_equal(smol_context_create(handle, &f16, &context, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, ids, 3, 0, NULL, &failure), SMOL_ERROR_NUMERIC);
    assert_non_null(strstr(failure.message, what));
    smol_context_free(context);
    assert_int_equal(smol_context_create(handle, &f32, &context, NULL), SMOL_OK);
    assert_int_equal(smol_eval(context, ids, 3, 0, NULL, &failure), SMOL_OK);
    smol_context_free(context);
    smol_model_close(handle);
}

TEST(a_window_does_not_hide_infinity)
{
    overflows_in("NaN or infinity in the attention output (layer 0, ", 0);
}

TEST(a_cap_of_scores_does_not_hide_infinity)
{
    overflows_in("NaN or infinity in the keys (layer 0, ", 5);
}

static int set_up(void **state)
{
    temporary_set_up(state);
    snprintf(path, sizeof path, "%s/blocks.smol", temporary.folder);
    make_tokenizer();
    for (uint32_t i = 0; i < N_IDS; i++)
        ids[i] = i * i % MAX_VOCABULARY;
    return 0;
}

int main(void)
{
    return run_all_tests("blocks", set_up, temporary_tear_down);
}
