/* Tests of the hyper-parameters and of the tensors that follow from them: names, order, ranges, and
 * sizes that do not overflow. */
#include "tests/unit/blob_image.h"

/* Bits of `blocks` that exclude each other, or need another. */
TEST(blocks_that_contradict_themselves_are_refused)
{
    static const struct {
        uint32_t blocks;
        const char *reason;
    } cases[] = {
        {BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_ALL, "bits 4 and 8"},
        {BLOCK_QK_NORM_LATE, "bit 16, norms after RoPE, needs bit 4 or 8"},
        {BLOCK_LAYER_NORM | BLOCK_NORM_OUTPUTS, "excludes bits 1 and 2"},
        {BLOCK_LAYER_NORM | BLOCK_NO_INPUT_NORMS, "excludes bits 1 and 2"},
        {BLOCK_ONE_NORM, "needs bit 256"},
        {BLOCK_ONE_NORM | BLOCK_PARALLEL | BLOCK_NO_INPUT_NORMS, "excludes bit 2"},
        {BLOCK_RELATIVE | BLOCK_SINKS, "sinks and relative positions, exclude each other"},
        {ALL_BLOCK_BITS + 1, "must be from 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct blob_model model = rich_model;
        smol_error failure;
        model.dtype = DTYPE_F32;
        model.blocks = cases[i].blocks;
        assert_int_equal(smol_model_check(&model, &failure), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(failure.message, cases[i].reason));
    }
}

TEST(a_plain_model_that_is_spelled_out_is_reduced)
{
    struct blob_model model = odd_model, full;
    static const uint8_t layers[2];
    assert_true(smol_model_is_plain(&model));
    assert_false(smol_model_reduce(&model, NULL));
    assert_memory_equal(&model, &odd_model, sizeof model);
    smol_model_fill(&model);
    assert_false(smol_model_is_plain(&model));
    full = model;
    assert_true(full.attention_scale == 1.0f / sqrtf(6));
    assert_false(smol_model_reduce(&model, layers));
    assert_memory_equal(&model, &odd_model, sizeof model);
    assert_true(smol_model_reduce(&model, rich_layers)); /* the layers differ */
    assert_memory_equal(&model, &full, sizeof model);
    model = odd_model;
    model.activation = ACTIVATION_GELU_TANH;
    assert_true(smol_model_reduce(&model, NULL));
    assert_false(smol_model_is_plain(&model));
    model = odd_model;
    model.attention_bias = BIAS_QKV;
    assert_true(smol_model_reduce(&model, NULL));
    model = rich_model;
    assert_true(smol_model_reduce(&model, rich_layers));
    assert_memory_equal(&model, &rich_model, sizeof model);
}

TEST(tensors_come_in_order_and_have_names)
{
    static const char *const names[] = {
        "embed",           "layers.0.attn_norm", "layers.0.attn_q",   "layers.0.attn_k",
        "layers.0.attn_v", "layers.0.attn_o",    "layers.0.mlp_norm", "layers.0.mlp_gate",
        "layers.0.mlp_up", "layers.0.mlp_down",  "layers.1.attn_norm"};
    struct blob_model model = odd_model;
    model.attention_bias = model.mlp_bias = 0;
    struct tensor_key key = {.role = ROLE_EMBED};
    char name[MAX_NAME];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_equal(smol_tensor_name(key, name), names[i]);
        assert_int_equal(smol_tensor_layout(&model, key, NULL).layout == LAYOUT_TILES,
                         !strstr(names[i], "norm"));
        assert_true(smol_tensor_next(&model, &key));
    }
    while (key.role < ROLE_FINAL_NORM)
        assert_true(smol_tensor_next(&model, &key));
    assert_string_equal(smol_tensor_name(key, name), "final_norm");
    assert_int_equal(key.layer, 0);
    assert_true(smol_tensor_next(&model, &key));
    assert_string_equal(smol_tensor_name(key, name), "output");
    assert_int_equal(key.layer, 0);
    assert_false(smol_tensor_next(&model, &key));
}

TEST(norms_stand_where_a_layer_uses_them)
{
    static const char *const names[] = {"layers.1.attn_norm",
                                        "layers.1.attn_q",
                                        "layers.1.attn_k",
                                        "layers.1.attn_v",
                                        "layers.1.attn_o",
                                        "layers.1.attn_q_bias",
                                        "layers.1.attn_k_bias",
                                        "layers.1.attn_v_bias",
                                        "layers.1.attn_q_norm",
                                        "layers.1.attn_k_norm",
                                        "layers.1.attn_out_norm",
                                        "layers.1.mlp_norm",
                                        "layers.1.mlp_gate",
                                        "layers.1.mlp_up",
                                        "layers.1.mlp_down",
                                        "layers.1.mlp_out_norm",
                                        "final_norm"};
    struct blob_model model = rich_model;
    model.mlp_bias = 0;
    struct tensor_key key = {.role = ROLE_ATTN_NORM, .layer = 1};
    char name[MAX_NAME];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_equal(smol_tensor_name(key, name), names[i]);
        assert_true(smol_tensor_next(&model, &key));
    }
    const struct tensor_key q_norm = {.role = ROLE_ATTN_Q_NORM},
                            k_norm = {.role = ROLE_ATTN_K_NORM};
    assert_int_equal(smol_tensor_layout(&model, q_norm, NULL).cols, 6);
    assert_int_equal(smol_tensor_layout(&model, k_norm, NULL).cols, 6);
    model.blocks = BLOCK_QK_NORM_ALL | BLOCK_NO_INPUT_NORMS;
    assert_int_equal(smol_tensor_layout(&model, q_norm, NULL).cols, 18);
    assert_int_equal(smol_tensor_layout(&model, k_norm, NULL).cols, 6);
    key = (struct tensor_key){.role = ROLE_EMBED};
    assert_true(smol_tensor_next(&model, &key));
    assert_int_equal(key.role, ROLE_ATTN_Q);
}

/* --- ranges ------------------------------------------------------------------------------- */

struct limits {
    size_t offset;
    uint32_t low, high;
};
#define LIMITS(field, low, high)                                                                   \
    {                                                                                              \
        offsetof(struct blob_model, field), low, high                                              \
    }

static bool accepts_value(size_t offset, uint32_t value)
{
    struct blob_model model = odd_model;
    model.n_kv_heads = 1;
    model.n_heads = 4096;
    model.bos_id = NO_TOKEN;
    memcpy((char *)&model + offset, &value, sizeof value);
    smol_status status = smol_model_check(&model, &error);
    if (status)
        assert_int_equal(status, SMOL_ERROR_DAMAGED);
    return !status;
}

TEST(every_hyper_parameter_has_its_range)
{
    static const struct limits limits[] = {
        LIMITS(family, 1, 1),
        LIMITS(n_layers, 1, 1024),
        LIMITS(hidden_size, 1, 1048576),
        LIMITS(intermediate_size, 1, 4194304),
        LIMITS(n_heads, 1, 4096),
        LIMITS(n_kv_heads, 1, 4096),
        LIMITS(head_dim, 2, 1024),
        LIMITS(vocab_size, 1, 16777216),
        LIMITS(context_length, 1, 16777216),
        LIMITS(tied_embeddings, 0, 1),
        LIMITS(attention_bias, 0, 1),
        LIMITS(mlp_bias, 0, 1),
        LIMITS(activation, 0, 0),
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct limits *l = &limits[i];
        assert_true(accepts_value(l->offset, l->low));
        assert_true(accepts_value(l->offset, l->high));
        assert_false(accepts_value(l->offset, l->low - 1)); /* 0 - 1 wraps around to the maximum */
        assert_false(accepts_value(l->offset, l->high + 1));
        assert_false(accepts_value(l->offset, 0x80000000u));
        assert_false(accepts_value(l->offset, UINT32_MAX));
    }
    assert_false(accepts_value(offsetof(struct blob_model, head_dim), 5));
    assert_true(accepts_value(offsetof(struct blob_model, bos_id), 18));
    assert_false(accepts_value(offsetof(struct blob_model, bos_id), 19));
    assert_true(accepts_value(offsetof(struct blob_model, dtype), DTYPE_BF16));
    assert_false(accepts_value(offsetof(struct blob_model, dtype), 0));
    assert_false(accepts_value(offsetof(struct blob_model, dtype), 4));
}

static bool accepts_model(const struct blob_model *model)
{
    smol_status status = smol_model_check(model, &error);
    if (status)
        assert_int_equal(status, SMOL_ERROR_DAMAGED);
    return !status;
}

TEST(fields_of_blocks_have_their_ranges)
{
    static const struct limits limits[] = {
        LIMITS(attention_bias, 0, 2), LIMITS(activation, 0, 3), LIMITS(sliding_window, 0, 1 << 24),
        LIMITS(n_rope_tables, 2, 2), /* the scale applies to both */
    };
    struct blob_model model = rich_model;
    assert_true(accepts_model(&model));
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct limits *l = &limits[i];
        const uint32_t values[] = {l->low, l->high, l->low - 1, l->high + 1, UINT32_MAX};
        for (size_t j = 0; j < 5; j++) {
            memcpy((char *)&model + l->offset, &values[j], 4);
            assert_int_equal(accepts_model(&model), j < 2);
        }
        model = rich_model;
    }
    for (uint32_t blocks = 0; blocks < 16; blocks++) {
        model.blocks = blocks;
        assert_int_equal(accepts_model(&model), blocks < 12);
    }
    model = rich_model;
    for (uint32_t dim = 0; dim < 10; dim++) {
        model.rotary_dim = dim;
        assert_int_equal(accepts_model(&model), dim == 2 || dim == 4 || dim == 6);
    }
}

TEST(scales_and_caps_are_finite_and_not_negative)
{
    static const size_t places[] = {
        offsetof(struct blob_model, embedding_scale),   offsetof(struct blob_model, residual_scale),
        offsetof(struct blob_model, attention_scale),   offsetof(struct blob_model, logit_divisor),
        offsetof(struct blob_model, rope_scale),        offsetof(struct blob_model, rope_scale) + 4,
        offsetof(struct blob_model, attention_softcap), offsetof(struct blob_model, logit_softcap)};
    enum { CAPS = 6 }; /* these may be 0 */
    static const float bad[] = {-0.0f, -1, INFINITY, NAN}, good[] = {1e-45f, 1, 3e38f};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct blob_model model = rich_model;
        float *field = (float *)((char *)&model + places[i]);
        for (size_t j = 0; j < 4; j++) {
            *field = bad[j];
            assert_false(accepts_model(&model));
        }
        for (size_t j = 0; j < 3; j++) {
            *field = good[j];
            assert_true(accepts_model(&model));
        }
        *field = 0;
        assert_int_equal(accepts_model(&model), i >= CAPS);
    }
    struct blob_model model = rich_model;
    model.n_rope_tables = 1;
    assert_false(accepts_model(&model)); /* a scale without a table */
    model.rope_scale[1] = 0;
    assert_true(accepts_model(&model));
}

TEST(epsilon_and_theta_have_ranges_that_exclude_nan)
{
    static const float bad_epsilon[] = {-1e-9f, 1, INFINITY, NAN};
    static const double bad_theta[] = {0.999, 0, -1, 1.0001e30, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad_epsilon / sizeof bad_epsilon[0]; i++) {
        struct blob_model model = odd_model;
        model.rms_norm_eps = bad_epsilon[i];
        assert_int_equal(smol_model_check(&model, &error), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(error.message, "rms_norm_eps"));
    }
    for (size_t i = 0; i < sizeof bad_theta / sizeof bad_theta[0]; i++) {
        struct blob_model model = odd_model;
        model.rope_theta = bad_theta[i];
        assert_int_equal(smol_model_check(&model, &error), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(error.message, "rope_theta"));
    }
    struct blob_model model = odd_model;
    model.rms_norm_eps = 0, model.rope_theta = 1;
    assert_int_equal(smol_model_check(&model, &error), SMOL_OK);
    model.rope_theta = 1e30;
    assert_int_equal(smol_model_check(&model, &error), SMOL_OK);
}

/* The largest model that passes the check: many products exceed 2^32. */
static struct blob_model largest_model(enum blob_dtype dtype)
{
    struct blob_model model = odd_model;
    model.dtype = dtype;
    model.n_layers = 1 << 10;
    model.hidden_size = 1 << 20;
    model.intermediate_size = 1 << 22;
    model.n_heads = model.n_kv_heads = 1 << 12;
    model.head_dim = 1 << 10;
    model.vocab_size = model.context_length = 1 << 24;
    return model;
}

TEST(no_size_overflows_even_for_the_largest_model)
{
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    for (size_t i = 0; i < 3; i++) {
        struct blob_model model = largest_model(dtypes[i]);
        struct tensor_key key = {.role = ROLE_EMBED};
        unsigned __int128 total = 0;
        size_t n = 0;
        assert_int_equal(smol_model_check(&model, &error), SMOL_OK);
        do {
            struct blob_tensor t = smol_tensor_layout(&model, key, NULL);
            unsigned __int128 elements = (unsigned __int128)t.rows * t.cols;
            unsigned __int128 bytes = t.dtype == DTYPE_F32    ? elements * 4
                                      : t.dtype == DTYPE_BF16 ? elements * 2
                                                              : elements / 32 * 34;
            assert_true(t.size == bytes); /* all sizes are multiples of the tile size */
            total += t.size;
            n++;
        } while (smol_tensor_next(&model, &key));
        assert_int_equal(n, smol_tensor_count(&model));
        assert_true(total < (unsigned __int128)1 << 63);
    }
}

ON_IMAGE(the_largest_model_in_a_tiny_file_is_refused)
{
    struct blob_model largest = largest_model(DTYPE_F32);
    memcpy(section_data(SECTION_MODEL), &largest, MODEL_SECTION_SIZE);
    refuses("section inv_freq: its size does not match the model");
    largest = largest_model(DTYPE_INT8);
    largest.head_dim = 6;
    largest.n_layers = 2;
    memcpy(section_data(SECTION_MODEL), &largest, MODEL_SECTION_SIZE);
    refuses("does not match the model");
}

int main(void)
{
    return run_all_tests("blob model", NULL, NULL);
}
