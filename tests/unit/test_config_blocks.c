/* Tests of smol_config_open: the parts of blocks in which families differ. */
#include "format/model.h"
#include "tests/unit/config_fixture.h"

/* The part of the blob that the configuration determines. */
struct reading {
    struct blob_model model;
    uint8_t layers[MODEL_MAX_LAYERS];
    float inv_freq[MAX_HEAD_DIM];
};

static struct reading keep(void)
{
    struct reading reading = {.model = config.model};
    memcpy(reading.layers, config.layers, sizeof reading.layers);
    memcpy(reading.inv_freq, config.inv_freq, sizeof reading.inv_freq);
    return reading;
}

static struct reading read_changed(const char *changes)
{
    accepts(changes);
    return keep();
}

static void same(const char *changes, const char *others)
{
    struct reading a = read_changed(changes), b = read_changed(others);
    if (memcmp(&a, &b, sizeof a) != 0)
        fail_msg("not the same: %s and %s", changes, others);
}

TEST(old_and_new_spellings_are_the_same)
{
    same("'rope_theta': null, 'rope_parameters': {'rope_type': 'linear', 'factor': 4, "
         "'rope_theta': 7000}",
         "'rope_theta': 7000, 'rope_scaling': {'type': 'linear', 'factor': 4.0}");
    same("'rope_scaling': {'rope_type': 'yarn', 'factor': 4, 'original_max_position_embeddings': "
         "16}",
         "'original_max_position_embeddings': 16, 'rope_parameters': {'type': 'yarn', 'factor': 4, "
         "'beta_fast': 0, 'attention_factor': null}");
    same("'rope_scaling': {'type': 'yarn', 'factor': 4, 'original_max_position_embeddings': 16}",
         "'rope_scaling': {'type': 'yarn', 'factor': null, 'original_max_position_embeddings': 16, "
         "'beta_slow': 1}");
    same("'torch_dtype': 'float16', 'head_dim': 8",
         "'torch_dtype': null, 'dtype': 'float32', 'head_dim': null");
    same(GEMMA3 "'rope_theta': 5000, 'rope_local_base_freq': 300, 'rope_scaling': {'rope_type': "
                "'linear', 'factor': 8}, 'sliding_window': 16, 'sliding_window_pattern': 2",
         GEMMA3 "'rope_theta': null, 'rope_parameters': {'full_attention': {'type': 'linear', "
                "'factor': 8, 'rope_theta': 5000}, 'sliding_attention': {'rope_theta': 300}}, "
                "'sliding_window': 16, 'layer_types': ['sliding_attention', 'full_attention']");
}

TEST(plain_blocks_of_any_family_need_no_feature)
{
    struct reading llama = read_changed("");
    static const char *const others[] = {
        MISTRAL "'sliding_window': null",
        MISTRAL "'sliding_window': 64", /* as long as the context */
        SMOLLM3 "'no_rope_layers': [1, 1, 1]",
        GRANITE "'attention_multiplier': 0.35355339059327373",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct reading other = read_changed(others[i]);
        assert_memory_equal(&llama, &other, sizeof llama);
        assert_true(smol_model_is_plain(&other.model));
    }
    accepts("'rope_scaling': {'type': 'linear', 'factor': 2}");
    assert_true(smol_model_is_plain(&config.model));
    accepts(MISTRAL "'sliding_window': 63");
    assert_false(smol_model_is_plain(&config.model));
}

static void layers_are(uint8_t first, uint8_t second)
{
    assert_int_equal(config.layers[0], first);
    assert_int_equal(config.layers[1], second);
}

TEST(reads_which_layers_rotate)
{
    accepts(SMOLLM3 "'no_rope_layers': [0, 1]");
    layers_are(LAYER_NO_ROTATION, 0);
    accepts(SMOLLM3 "'no_rope_layer_interval': 2");
    layers_are(0, LAYER_NO_ROTATION);
    accepts(SMOLLM3 "'no_rope_layer_interval': 1");
    layers_are(LAYER_NO_ROTATION, LAYER_NO_ROTATION);
    refuses(SMOLLM3 "'no_rope_layers': [1]",
            "no_rope_layers has 1 entries, but num_hidden_layers is 2: correct one of them");
    refuses(SMOLLM3 "'no_rope_layers': [1, 2]",
            "no_rope_layers[1] must be 0 (no rotation) or 1, found 2");
    refuses(SMOLLM3 "'no_rope_layers': [true, 1]",
            "no_rope_layers[0] must be 0 (no rotation) or 1, found true");
    refuses(SMOLLM3 "'no_rope_layers': 1", "no_rope_layers must be a list, found 1");
    refuses(SMOLLM3 "'no_rope_layer_interval': 0",
            "no_rope_layer_interval must be an integer from 1 to 4294967295, found 0");
}

TEST(reads_which_layers_are_windowed)
{
    accepts(QWEN2 "'use_sliding_window': true, 'sliding_window': 8, 'max_window_layers': 1");
    layers_are(0, LAYER_WINDOWED);
    assert_int_equal(config.model.sliding_window, 8);
    accepts(QWEN2 "'sliding_window': 8, 'max_window_layers': 0"); /* not switched on */
    layers_are(0, 0);
    assert_int_equal(config.model.sliding_window, 0);
    accepts(SMOLLM3 "'use_sliding_window': true, 'sliding_window': 8, 'no_rope_layers': [0, 1]");
    layers_are(LAYER_NO_ROTATION | LAYER_WINDOWED, 0);
    accepts(GEMMA2 "'sliding_window': 8");
    layers_are(LAYER_WINDOWED, 0);
    accepts(GEMMA2 "'sliding_window': 8, 'layer_types': ['attention', 'sliding_attention']");
    layers_are(0, LAYER_WINDOWED);
    accepts(GEMMA3 "'sliding_window': 8, 'sliding_window_pattern': 2");
    layers_are(LAYER_WINDOWED | LAYER_SECOND_TABLE, 0);
    assert_int_equal(config.model.n_rope_tables, 2);
    accepts(GEMMA3 "'sliding_window': 8");
    layers_are(LAYER_WINDOWED, LAYER_WINDOWED);
    assert_int_equal(config.model.n_rope_tables, 1);
    assert_true(config.model.rope_theta == 10000);
    accepts(GEMMA3 "'sliding_window': 64, 'sliding_window_pattern': 2");
    layers_are(LAYER_SECOND_TABLE, 0); /* no text exceeds the window */
}

TEST(refuses_null_where_the_reference_does)
{
    refuses("'hidden_act': null", "hidden_act must be a string, found null");
    refuses("'rms_norm_eps': null",
            "rms_norm_eps must be a number from 1.17549e-38 to 1, found null");
    refuses("'tie_word_embeddings': null", "tie_word_embeddings must be true or false, found null");
    refuses("'max_position_embeddings': null",
            "max_position_embeddings must be an integer from 1 to 16777216, found null");
    refuses("'rope_theta': null",
            "rope_theta is null: expected a number here or in the rotary embedding");
    refuses(GEMMA2 "'head_dim': null", "head_dim is null: this family needs a number");
    refuses(GEMMA2 "'num_key_value_heads': null", "num_key_value_heads is null: this");
    refuses("'rope_parameters': {'rope_type': null}",
            "rope_parameters.rope_type must be a string, found null");
    refuses("'is_causal': null", "is_causal must be true or false, found null");
}

TEST(refuses_integers_where_the_reference_does)
{
    refuses("'rms_norm_eps': 1", "rms_norm_eps must be a number with a decimal point, found 1");
    refuses(GEMMA2 "'final_logit_softcapping': 30",
            "final_logit_softcapping must be a number with a decimal point, found 30");
    accepts(GRANITE "'logits_scaling': 2");
    refuses(GEMMA2 "'query_pre_attn_scalar': 24.0",
            "query_pre_attn_scalar must be an integer from 1 to 4294967295, found 24.0");
}

TEST(refuses_windows_that_make_no_sense)
{
    refuses(
        QWEN2 "'layer_types': ['full_attention', 'sliding_attention']",
        "layers have sliding_attention, but use_sliding_window is not set: correct one of them");
    refuses(GEMMA2 "'sliding_window': null",
            "layers have sliding_attention, but sliding_window is not set: correct one of them");
    refuses(GEMMA2 "'sliding_window': 0",
            "sliding_window must be an integer from 1 to 4294967295, found 0");
    refuses(QWEN2 "'layer_types': ['full_attention']", "layer_types has 1 entries");
    refuses(QWEN2 "'layer_types': ['full_attention', 1]",
            "layer_types[1] must be a string, found 1");
    does_not_support(
        QWEN2 "'layer_types': ['full_attention', 'linear_attention']",
        "layer_types[1] must be full_attention or sliding_attention, found \"linear_attention\"");
    does_not_support(MISTRAL
                     "'sliding_window': 8, 'layer_types': ['sliding_attention', 'full_attention']",
                     "layer_types: layer 1 differs: in mistral all layers are "
                     "windowed, or none if sliding_window is null");
    accepts(MISTRAL "'sliding_window': null, 'layer_types': ['full_attention', 'full_attention']");
    refuses(GEMMA3 "'sliding_window_pattern': 0",
            "sliding_window_pattern must be an integer from 1 to 4294967295, found 0");
}

TEST(reads_scales_and_caps)
{
    accepts(GRANITE "'embedding_multiplier': 12, 'attention_multiplier': 0.0078125, "
                    "'residual_multiplier': 0.25, 'logits_scaling': 8");
    assert_true(config.model.embedding_scale == 12 && config.model.attention_scale == 0.0078125f);
    assert_true(config.model.residual_scale == 0.25f && config.model.logit_divisor == 8);
    accepts(GRANITE "'rope_theta': 10000");
    assert_true(config.model.embedding_scale == 1 && config.model.attention_scale == 1);
    accepts(GEMMA2 "'attn_logit_softcapping': null, 'query_pre_attn_scalar': 64");
    assert_true(config.model.attention_softcap == 0 && config.model.logit_softcap == 30);
    assert_true(config.model.attention_scale == 0.125f);
    accepts(GEMMA3 "'attn_logit_softcapping': 5"); /* the reference takes no notice */
    assert_true(config.model.attention_softcap == 0 && config.model.logit_softcap == 0);
    refuses(GRANITE "'logits_scaling': 0",
            "logits_scaling must be a number from 1.17549e-38 to 3.40282e+38, found 0");
    refuses(GEMMA2 "'final_logit_softcapping': -1",
            "final_logit_softcapping must be a number with a decimal point, found -1");
}

TEST(refuses_what_a_family_alone_can_ask_for)
{
    does_not_support(GEMMA2 "'use_bidirectional_attention': true",
                     "use_bidirectional_attention is true: only causal attention is supported");
    accepts(GEMMA3 "'use_bidirectional_attention': false");
    accepts("'use_bidirectional_attention': true"); /* nothing to the reference's Llama */
    does_not_support(
        GEMMA3 "'sliding_window_pattern': 2, 'rope_scaling': {'type': 'linear', 'factor': 8}",
        "rope_scaling.type is \"linear\": transformers ignores it: rename it to rope_type");
    refuses(GEMMA3 "'rope_parameters': {'rope_theta': 10000}",
            "rope_parameters.rope_theta is 10000: expected only full_attention and "
            "sliding_attention here");
    refuses(GEMMA3 "'rope_parameters': 1", "rope_parameters must be an object, found 1");
    refuses(
        GEMMA3
        "'rope_local_base_freq': 10, 'rope_parameters': {'sliding_attention': {'rope_theta': 20}}",
        "rope_theta is 10, but rope_parameters.sliding_attention.rope_theta is 20: correct one "
        "of them");
}

int main(void)
{
    return run_all_tests("config_blocks", temporary_set_up, temporary_tear_down);
}
