/* Tests of the parts that only some blobs have, each with a feature of its own: states, hybrids,
 * latent vectors, relative positions, and mixes of dtypes. */
#include "tests/unit/blob_image.h"

IN_FOLDER(what_states_say_is_read)
{
    for (unsigned variant = 0; variant < 8; variant++) {
        struct blob_model model = stateful_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_BF16;
        model.states.biases = variant / 2 % 2;
        model.states.taps = variant / 4 ? 2 : STATES_MAX_TAPS;
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

/* A byte of a section that breaks a rule, and a part of the message. */
struct byte_case {
    size_t place;
    uint8_t value;
    const char *part;
};

/* Changes the bytes one after the other in a new image of the model. */
static void refuses_bytes(const struct blob_model *model, enum section_kind kind,
                          const struct byte_case *cases, size_t n)
{
    unmap_image();
    make_image(model);
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)section_data(kind))[cases[i].place] = cases[i].value;
        refuses(cases[i].part);
    }
}

ON_IMAGE(states_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "kind is 0"},
        {0, 99, "kind is 99"},
        {4, 0, "taps is 0"},
        {4, 1, "taps is 1"},
        {4, 17, "taps is 17"},
        {7, 255, "taps is"},
        {8, 2, "biases is 2"},
        {0, 2, "n_heads is 0: must be from 1 to 4096"},
        {12, 1, "a short convolution has no heads"},
        {28, 1, "a reserved field is not zero"},
        {63, 1, "a reserved field is not zero"},
        {64, 0, "no layer has a state"},
        {64, 3, "no layer attends: one must"},
        {64, 5, "layer 2 has a state, but there is no such layer"},
        {191, 128, "layer 1023 has a state, but there is no such layer"},
        {4, 4, "tensor layers.0.mixer_conv does not match the model"},
        {8, 0, "wrong number of tensors"},
        {64, 2, "does not match the model"},
    };
    struct blob_model model = stateful_model();
    refuses_bytes(&model, SECTION_STATES, cases, sizeof cases / sizeof cases[0]);
    header()->required_features = 0;
    refuses("wrong number of sections");
}

IN_FOLDER(what_hybrids_say_is_read)
{
    for (unsigned variant = 0; variant < 24; variant++) {
        struct blob_model model = hybrid_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_F32;
        model.hybrid.input_biases = variant / 2 % 2;
        model.hybrid.output_bias = variant / 4 % 2;
        model.hybrid.norm = variant / 8;
        model.states.layers[0] = variant % 3 + 1; /* one of the layers, or both */
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

ON_IMAGE(hybrids_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "parallel is 0"},
        {0, 2, "parallel is 2"},
        {4, 3, "norm is 3"},
        {8, 2, "input_biases is 2"},
        {12, 2, "output_bias is 2"},
        {60, 1, "a reserved field is 1"},
        {19, 0xbf, "attention_in is -0.5"},
        {19, 0, "attention_in is 0"},
        {23, 0x7f, "attention_out is inf"},
        {27, 0xff, "mixer_in is"},
        {59, 0xc0, "mlp_out is"},
        {4, 2, "wrong number of tensors"},
        {8, 0, "wrong number of tensors"},
        {12, 0, "wrong number of tensors"},
    };
    struct blob_model model = hybrid_model();
    refuses_bytes(&model, SECTION_HYBRID, cases, sizeof cases / sizeof cases[0]);
    ((struct blob_states *)section_data(SECTION_STATES))->kind = STATE_DELTA;
    refuses("only Mamba2 stands side by side");
    ((struct blob_states *)section_data(SECTION_STATES))->layers[0] = 0;
    refuses("no layer has a state");
    header()->required_features ^= FEATURE_STATES;
    refuses("wrong number of sections");
}

TEST(hybrids_have_blocks_one_after_the_other)
{
    static const uint32_t blocks[] = {BLOCK_NORM_OUTPUTS, BLOCK_NO_INPUT_NORMS,
                                      BLOCK_NO_GATE,      BLOCK_PARALLEL,
                                      BLOCK_ONE_NORM,     BLOCK_ATTENTION_GATE};
    struct blob_model model = hybrid_model();
    smol_error reason;
    assert_int_equal(smol_hybrid_check(&model, &reason), SMOL_OK);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        model.blocks = blocks[i];
        assert_int_equal(smol_hybrid_check(&model, &reason), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(reason.message, "not with attention and states side by side"));
    }
}

IN_FOLDER(what_latent_vectors_say_is_read)
{
    for (unsigned variant = 0; variant < 4; variant++) {
        struct blob_model model = latent_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_F32;
        model.latent.q_rank *= variant / 2;
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

ON_IMAGE(latent_vectors_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "kv_rank is 0: must be a multiple of 16 from 16 to 1024"},
        {0, 8, "kv_rank is 8"},
        {0, 24, "kv_rank is 24"},
        {1, 5, "kv_rank is 1296"},
        {0, 32, "latent vectors need one key head"},
        {7, 1, "q_rank is 16777221"},
        {8, 0, "query_dim is 0"},
        {9, 5, "query_dim is 1283"},
        {12, 0, "value_dim is 0"},
        {12, 33, "value_dim is 33"},
        {19, 0x80, "norm_eps is"},
        {19, 0x7f, "norm_eps is"},
        {20, 1, "a reserved field is not zero"},
        {63, 1, "a reserved field is not zero"},
        {4, 4, "tensor layers.0.attn_q_down does not match the model"},
        {4, 0, "wrong number of tensors"},
        {8, 4, "tensor layers.0.attn_q does not match the model"},
        {12, 16, "tensor layers.0.attn_v_up does not match the model"},
    };
    struct blob_model model = latent_model();
    refuses_bytes(&model, SECTION_LATENT, cases, sizeof cases / sizeof cases[0]);
    header()->required_features ^= FEATURE_LATENT;
    refuses("wrong number of sections");
}

TEST(latent_vectors_go_with_few_other_parts)
{
    struct blob_model models[8];
    smol_error reason;
    for (size_t i = 0; i < 8; i++) {
        models[i] = latent_model();
        assert_int_equal(smol_latent_check(&models[i], &reason), SMOL_OK);
    }
    models[0].states = stateful_model().states;
    models[1].attention_bias = BIAS_QKVO;
    models[2].query_growth = 1;
    models[3].attention_softcap = 1;
    models[4].experts.n_experts = 1;
    models[5].blocks = BLOCK_QK_NORM_HEADS;
    models[6].blocks = BLOCK_QK_NORM_ALL;
    models[7].blocks = BLOCK_ATTENTION_GATE;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(smol_latent_check(&models[i], &reason), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(reason.message, "latent vectors come with no"));
    }
    models[0] = latent_model();
    models[0].n_kv_heads = 3;
    assert_int_equal(smol_latent_check(&models[0], &reason), SMOL_ERROR_DAMAGED);
    struct blob_model plain = odd_model;
    plain.attention_bias = BIAS_NONE;
    plain.head_dim = 16;
    plain.latent = latent_model().latent;
    assert_int_equal(smol_latent_check(&plain, &reason), SMOL_ERROR_DAMAGED);
}

IN_FOLDER(what_varied_layers_say_is_read)
{
    for (unsigned variant = 0; variant < 4; variant++) {
        struct blob_model model = varied_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_F32;
        model.varied.keys_are_values = variant / 2;
        if (variant == 3)
            model.varied.input_width = 0, model.varied.input_scale = 0,
            model.varied.projection_scale = 0, model.varied.sum_scale = 0;
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

ON_IMAGE(varied_layers_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "head_dim is 0"},
        {0, 3, "head_dim is 3 and n_kv_heads 1: must be even"},
        {1, 8, "head_dim is 2050"},
        {4, 0, "n_kv_heads is 0"},
        {4, 2, "n_kv_heads 2: must be even, and divide n_heads 3"},
        {8, 2, "keys_are_values is 2"},
        {12, 0, "first_shared is 0"},
        {12, 3, "first_shared is 3"},
        {12, 1, "layer 1 shares keys and values, but none before it has such"},
        {16, 1, "a field without a purpose is not zero"},
        {22, 1, "input_width is 65539"},
        {20, 0, "a field without a purpose is not zero"},
        {27, 0xbf, "input_scale is"},
        {31, 0x7f, "projection_scale is"},
        {35, 0xff, "sum_scale is"},
        {36, 1, "a field without a purpose is not zero"},
        {63, 1, "a field without a purpose is not zero"},
        {64, 0, "layer 0: its kind and its bits contradict each other"},
        {64, 3, "layer 1: its kind and its bits contradict each other"},
        {191, 128, "layer 1023: its kind and its bits contradict each other"},
        {0, 4, "its size does not match the model"},
        {8, 0, "wrong number of tensors"},
        {20, 4, "tensor input_embed does not match the model"},
    };
    struct blob_model model = varied_model();
    refuses_bytes(&model, SECTION_VARIED, cases, sizeof cases / sizeof cases[0]);
    header()->required_features ^= FEATURE_VARIED;
    refuses("wrong number of sections");
}

TEST(varied_layers_go_with_few_other_parts)
{
    struct blob_model models[9];
    smol_error reason;
    for (size_t i = 0; i < 9; i++) {
        models[i] = varied_model();
        assert_int_equal(smol_varied_check(&models[i], rich_layers, &reason), SMOL_OK);
    }
    models[0].states = stateful_model().states;
    models[1].experts.n_experts = 1;
    models[2].latent = latent_model().latent;
    models[3].query_period = 1;
    models[4].blocks |= BLOCK_QK_NORM_LATE;
    models[5].blocks |= BLOCK_PARALLEL;
    models[6].blocks &= ~(uint32_t)BLOCK_QK_NORM_HEADS;
    models[7].rotary_dim = 4;
    models[8].n_rope_tables = 1;
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(smol_varied_check(&models[i], rich_layers, &reason), SMOL_ERROR_DAMAGED);
}

TEST(a_layer_shares_with_the_last_of_its_kind_and_window)
{
    uint8_t layers[] = {LAYER_SECOND_TABLE, LAYER_WINDOWED, LAYER_WINDOWED, LAYER_SECOND_TABLE,
                        LAYER_WINDOWED};
    struct blob_model model = varied_model();
    smol_error reason;
    model.n_layers = 5;
    model.varied.second[0] = 9;
    model.varied.first_shared = 3;
    model.varied.shared_width = 70;
    assert_int_equal(smol_varied_check(&model, layers, &reason), SMOL_OK);
    assert_int_equal(smol_kv_source(&model, 3), 0);
    assert_int_equal(smol_kv_source(&model, 4), 2);
    assert_int_equal(smol_mlp_width(&model, 2), 35);
    assert_int_equal(smol_mlp_width(&model, 3), 70);
    layers[4] = 0;
    assert_int_equal(smol_varied_check(&model, layers, &reason), SMOL_ERROR_DAMAGED);
    assert_non_null(strstr(reason.message, "layer 4 shares keys and values, but not their window"));
}

IN_FOLDER(what_layers_that_lack_a_block_say_is_read)
{
    for (unsigned variant = 0; variant < 4; variant++) {
        struct blob_model model = partial_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_F32;
        if (variant / 2)
            model.partial.no_mlp[0] = 0;
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

ON_IMAGE(layers_that_lack_a_block_and_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "wrong number of tensors"},
        {0, 1, "layer 0 has no block"},
        {0, 6, "layer 2 lacks a block, but there is no such layer"},
        {127, 128, "layer 1023 lacks a block, but there is no such layer"},
        {255, 1, "layer 1016 lacks a block, but there is no such layer"},
        {128, 0, "wrong number of tensors"},
        {128, 3, "layer 1 has no block"},
    };
    struct blob_model model = partial_model();
    refuses_bytes(&model, SECTION_PARTIAL, cases, sizeof cases / sizeof cases[0]);
    header()->required_features ^= FEATURE_PARTIAL;
    refuses("wrong number of sections");
}

/* Expects that layers that lack a block are refused with this reason. */
static void expect_partial(const struct blob_model *model, const uint8_t *layers,
                           const char *message)
{
    smol_error reason;
    assert_int_equal(smol_partial_check(model, layers, &reason), SMOL_ERROR_DAMAGED);
    assert_non_null(strstr(reason.message, message));
}

TEST(layers_that_lack_a_block_go_with_few_other_parts)
{
    static const uint8_t both[] = {0, LAYER_NO_ROTATION};
    const uint8_t *layers = rich_layers, first[] = {rich_layers[0], 0};
    struct blob_model models[10];
    smol_error reason;
    for (size_t i = 0; i < 10; i++)
        models[i] = partial_model();
    assert_int_equal(smol_partial_check(&models[0], first, &reason), SMOL_OK);
    models[0].hybrid = hybrid_model().hybrid;
    models[1].latent = latent_model().latent;
    models[2].varied = varied_model().varied;
    models[3].blocks = BLOCK_NORM_OUTPUTS;
    models[4].blocks = BLOCK_PARALLEL;
    for (size_t i = 0; i < 5; i++)
        expect_partial(&models[i], first, "layers that lack a block come with");
    models[5].partial = (struct blob_partial){0};
    expect_partial(&models[5], layers, "no layer lacks a block");
    expect_partial(&models[6], both, "layer 1 has no first block, but a state, or bits");
    models[6].states = stateful_model().states;
    models[6].states.layers[0] = 2;
    expect_partial(&models[6], first, "layer 1 has no first block, but a state, or bits");
    models[6].states.layers[0] = 1;
    expect_partial(&models[6], first, "no layer attends");
    models[7].partial = (struct blob_partial){.no_mlp = {3}};
    expect_partial(&models[7], layers, "no layer has an MLP");
    models[8].experts = (struct blob_experts){.n_experts = 2};
    expect_partial(&models[8], first, "layer 0 has no MLP, but experts");
    models[8].experts.dense[0] = 1;
    assert_int_equal(smol_partial_check(&models[8], first, &reason), SMOL_OK);
}

ON_IMAGE(latent_vectors_with_experts_are_refused)
{
    struct blob_model model = latent_model();
    model.mlp_bias = 0;
    model.experts = (struct blob_experts){
        .n_experts = 2, .n_used = 1, .width = model.intermediate_size, .scale = 1};
    unmap_image();
    make_image(&model);
    refuses("section latent: latent vectors come with no experts");
}

ON_RICH_IMAGE(a_gate_of_attention_needs_states)
{
    struct blob_model *model = section_data(SECTION_MODEL);
    model->blocks |= BLOCK_ATTENTION_GATE;
    header()->required_features |= FEATURE_COMPONENTS;
    header()->minor = BLOB_MINOR_COMPONENTS;
    refuses("a gate of attention needs the states feature");
}

IN_FOLDER(what_gates_of_heads_say_is_read)
{
    struct blob_model model = head_gates_model();
    make_blob(&model);
    check_round_trip(&model, true);
    model.dtype = DTYPE_INT8;
    make_blob(&model);
    check_round_trip(&model, true);
}

ON_IMAGE(gates_of_heads_that_break_a_rule_are_refused)
{
    static const struct {
        uint32_t bits, feature; /* to change */
        const char *message;
    } cases[] = {
        {0, FEATURE_HEAD_GATES, "its blocks and the head gates feature contradict each other"},
        {BLOCK_GATE_HEADS, 0, "its blocks and the head gates feature contradict each other"},
        {BLOCK_GATE_HEADS, FEATURE_HEAD_GATES, "wrong number of tensors"},
        {BLOCK_ATTENTION_GATE, 0, "bit 32768, a gate of each head, needs bit 8192"},
    };
    const struct blob_model model = head_gates_model();
    unmap_image();
    make_image(&model);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ((struct blob_model *)section_data(SECTION_MODEL))->blocks ^= cases[i].bits;
        header()->required_features ^= cases[i].feature;
        refuses(cases[i].message);
    }
}

ON_RICH_IMAGE(relative_positions_need_their_feature_and_an_encoder)
{
    static const struct {
        uint32_t bit, feature;
        const char *message;
    } cases[] = {
        {BLOCK_RELATIVE, 0, "its blocks and the relative feature contradict each other"},
        {0, FEATURE_RELATIVE, "its blocks and the relative feature contradict each other"},
        {BLOCK_RELATIVE, FEATURE_RELATIVE, "relative positions need an encoder without windows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ((struct blob_model *)section_data(SECTION_MODEL))->blocks |= cases[i].bit;
        header()->required_features |= cases[i].feature | (cases[i].bit ? FEATURE_COMPONENTS : 0);
        header()->minor = cases[i].feature ? BLOB_MINOR_STATES : BLOB_MINOR_COMPONENTS;
        refuses(cases[i].message);
    }
}

ON_RICH_IMAGE(further_parts_need_their_feature)
{
    struct blob_model *model = section_data(SECTION_MODEL);
    model->blocks |= BLOCK_SINKS;
    header()->required_features |= FEATURE_COMPONENTS;
    header()->minor = BLOB_MINOR_COMPONENTS;
    refuses("its parts and the further feature contradict each other");
    model->activation = ACTIVATION_RELU_SQUARED;
    header()->required_features |= FEATURE_COMPONENTS;
    header()->minor = BLOB_MINOR_COMPONENTS;
    refuses("its parts and the further feature contradict each other");
    header()->required_features |= FEATURE_FURTHER;
    header()->minor = BLOB_MINOR_STATES;
    refuses("its parts and the further feature contradict each other");
}

TEST(sizes_of_recurrences_have_their_ranges)
{
    static const struct {
        uint32_t n_heads, head_dim, size, n_groups;
        const char *part; /* NULL: accepted */
    } cases[] = {
        {4, 16, 8, 2, NULL},
        {4096, 1024, 1024, 4096, NULL},
        {0, 16, 8, 2, "n_heads is 0"},
        {4097, 16, 8, 1, "n_heads is 4097"},
        {4, 0, 8, 2, "head_dim is 0"},
        {4, 1025, 8, 2, "head_dim is 1025"},
        {4, 16, 0, 2, "size is 0"},
        {4, 16, 1025, 2, "size is 1025"},
        {4, 16, 8, 0, "n_groups is 0"},
        {4, 16, 8, 3, "n_heads is 4: not a multiple of n_groups 3"},
    };
    for (uint32_t kind = STATE_MAMBA2; kind <= STATE_DELTA; kind++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct blob_model model = stateful_model();
            smol_error reason = {.message = ""};
            model.states.kind = kind;
            model.states.n_heads = cases[i].n_heads;
            model.states.head_dim = cases[i].head_dim;
            model.states.size = cases[i].size;
            model.states.n_groups = cases[i].n_groups;
            smol_status status = smol_states_check(&model, NULL, &reason);
            assert_int_equal(status, cases[i].part ? SMOL_ERROR_DAMAGED : SMOL_OK);
            assert_true(!cases[i].part || strstr(reason.message, cases[i].part));
        }
}

/* --- mixes of dtypes ---------------------------------------------------------------------- */

ON_MIXED_IMAGE(a_mix_is_read_as_it_was_written)
{
    struct blob blob;
    char text[MAX_MIX];
    assert_int_equal(smol_blob_open(path, true, VERIFY_AT_OPEN, &blob, &error), SMOL_OK);
    assert_int_equal(blob.header->required_features, FEATURE_MIXED);
    assert_int_equal(blob.header->minor, 2);
    assert_int_equal(blob.n_levels, 3);
    for (size_t i = 0; i < blob.n_tensors; i++) {
        const struct blob_tensor *t = &blob.tensors[i];
        struct storage want = mixed_roles[t->role];
        if (t->layout == LAYOUT_VECTOR)
            want = (struct storage){DTYPE_F32, 0};
        assert_int_equal(t->dtype, want.dtype);
        assert_int_equal(t->levels, want.levels);
        assert_memory_equal(blob.file.data + t->offset, tensor_data(t), t->size);
    }
    assert_int_equal(smol_blob_dtype(&blob), DTYPE_INT4);
    assert_string_equal(smol_blob_dtypes(&blob, text),
                        "int4 (embedding int6, others int8, others int6, others int5)");
    smol_blob_close(&blob);
}

ON_MIXED_IMAGE(the_storage_of_a_matrix_is_checked)
{
    static const uint32_t bad_dtypes[] = {0, DTYPE_F32, DTYPE_BF16, 7, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad_dtypes / sizeof bad_dtypes[0]; i++) {
        tensor(ROLE_ATTN_Q)->dtype = bad_dtypes[i];
        refuses("tensor layers.0.attn_q has a dtype that is not allowed");
    }
    tensor(ROLE_ATTN_Q)->dtype = DTYPE_INT5;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    tensor(ROLE_FINAL_NORM)->levels = 1;
    refuses("tensor final_norm does not match the model");
    tensor(ROLE_ATTN_K)->levels = 1;
    refuses("tensor layers.0.attn_k has levels, but int8 uses none");
    tensor(ROLE_EMBED)->levels = 1;
    refuses("tensor embed has levels that are missing or not next in order");
    tensor(ROLE_OUTPUT)->levels = 3;
    refuses("tensor output has levels that are missing or not next in order");
    tensor(ROLE_ATTN_O)->reserved[0] = 1;
    refuses("tensor layers.0.attn_o does not match the model");
}

ON_MIXED_IMAGE(a_mix_must_be_of_an_int8_model_and_needed)
{
    ((struct blob_model *)section_data(SECTION_MODEL))->dtype = DTYPE_BF16;
    refuses("section model: its dtype does not match the mixed feature");
    header()->required_features = 0;
    refuses("wrong number of sections");
    struct blob_contents contents = mixed_contents_of(&odd_model);
    for (size_t i = 0; i < smol_tensor_count(&odd_model); i++)
        if (contents.mix.storage[i].dtype == DTYPE_INT5)
            contents.mix.storage[i] = (struct storage){DTYPE_INT8, 0};
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED,
              "section levels: not every table is used");
    for (size_t i = 0; i < smol_tensor_count(&odd_model); i++)
        contents.mix.storage[i] = (struct storage){DTYPE_INT8, 0};
    contents.mix.n_levels = 0;
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED,
              "section levels: no matrix needs the mixed feature");
}

ON_MIXED_IMAGE(levels_ascend_within_127_and_zeros_follow)
{
    struct blob_levels *levels = section_data(SECTION_LEVELS);
    levels[1].values[16] = 105;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[1].values[63] = 1;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[1].values[15] = levels[1].values[14];
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[1].values[0] = -128;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[0].values[63] = levels[0].values[62];
    refuses("tensor embed has levels that are malformed");
    levels[1].values[15] = 127; /* also good */
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_AT_OPEN), SMOL_OK);
    restore();
}

int main(void)
{
    return run_all_tests("blob parts", NULL, NULL);
}
