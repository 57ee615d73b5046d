/* Tests of smol_config_open: rotary embeddings. */
#include "tests/unit/config_fixture.h"

TEST(finds_theta_in_each_of_its_places)
{
    accepts("'rope_theta': 500000.5");
    assert_true(config.model.rope_theta == 500000.5);
    accepts("'rope_theta': null, 'rope_parameters': {'rope_theta': 5000}");
    assert_true(config.model.rope_theta == 5000);
    accepts("'rope_theta': null, 'rope_scaling': {'rope_theta': 7000.0, 'rope_type': 'default'}");
    assert_true(config.model.rope_theta == 7000);
    accepts("'rope_theta': 7000, 'rope_scaling': {'rope_theta': 7000.0}, 'rope_parameters': "
            "{'rope_theta': 7000, 'type': 'default'}");
    assert_true(config.model.rope_theta == 7000);
    accepts_without("rope_theta");
    assert_true(config.model.rope_theta == 10000);
}

TEST(refuses_thetas_that_differ)
{
    refuses("'rope_parameters': {'rope_theta': 10000.5}",
            "rope_theta is 100000, but rope_parameters.rope_theta is 10000.5: correct one of them");
    refuses(
        "'rope_theta': null, 'rope_parameters': {'rope_theta': 1}, 'rope_scaling': {'rope_theta': "
        "2}",
        "rope_parameters.rope_theta is 1, but rope_scaling.rope_theta is 2: correct one of them");
}

TEST(refuses_thetas_that_are_no_positive_float)
{
    static const char *const bad[] = {"0", "-1", "0.0", "1e39", "1e-60", "'1e4'", "true", "[]"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "'rope_theta': %s", bad[i]);
        refuses(changes, "rope_theta must be a number from 1.17549e-38 to 3.40282e+38, found ");
        snprintf(changes, sizeof changes, "'rope_parameters': {'rope_theta': %s}", bad[i]);
        refuses(changes, "rope_parameters.rope_theta must be a number from 1.17549e-38 to ");
    }
}

static const char *const rope_objects[] = {"rope_parameters", "rope_scaling"};

/* Expects a message about the object in either position. */
static void rope_complains(smol_status expected, const char *object, const char *part)
{
    char changes[512], place[128];
    for (int i = 0; i < 2; i++) {
        snprintf(changes, sizeof changes, "'%s': %s", rope_objects[i], object);
        snprintf(place, sizeof place, "%s%s", rope_objects[i], part);
        assert_error(&error, load_changed(changes, NULL), expected, place);
    }
}

/* The reference reads only rope_scaling, and uses the default for keys that only rope_parameters
 * has. */
TEST(refuses_what_only_one_of_two_objects_says)
{
    refuses("'rope_theta': null, 'rope_parameters': {'rope_theta': 7000}, 'rope_scaling': "
            "{'rope_type': 'default'}",
            "rope_theta is in rope_parameters, but not in rope_scaling: keep one of these objects");
    accepts("'rope_theta': 7000, 'rope_parameters': {'rope_theta': 7000}, 'rope_scaling': "
            "{'rope_type': 'default'}");
    refuses("'rope_parameters': {'rope_theta': 100000, 'partial_rotary_factor': 1}, "
            "'rope_scaling': {'rope_theta': 100000}",
            "partial_rotary_factor is in rope_parameters, but not in rope_scaling: keep one of "
            "these objects");
}

TEST(refuses_other_rotary_embeddings)
{
    static const smol_status damaged = SMOL_ERROR_DAMAGED, unsupported = SMOL_ERROR_UNSUPPORTED;
    rope_complains(unsupported, "{'rope_type': 'dynamic', 'factor': 2}",
                   ".rope_type is \"dynamic\": its rotation depends on the length of the prompt");
    rope_complains(unsupported, "{'type': 'mrope'}",
                   ".type is \"mrope\": smolconv reads default, linear, llama3, yarn, longrope");
    rope_complains(damaged, "{'type': 'yarn', 'rope_type': 'linear', 'factor': 2}",
                   ".type is \"yarn\": rope_type differs");
    rope_complains(damaged, "{'rope_type': 3}", ".rope_type must be a string, found 3");
    rope_complains(unsupported, "{'partial_rotary_factor': 0.5}",
                   ".partial_rotary_factor must be 1, found 0.5");
    rope_complains(unsupported, "{'full_attention': {}}",
                   " has the key full_attention: expected a single rotary embedding");
    rope_complains(damaged, "'linear'", " must be an object, found \"linear\"");
    does_not_support("'partial_rotary_factor': 0.25",
                     "partial_rotary_factor must be 1, found 0.25");
    accepts("'partial_rotary_factor': 1.0");
}

TEST(refuses_rotary_embeddings_that_lack_something)
{
    static const smol_status damaged = SMOL_ERROR_DAMAGED;
    rope_complains(damaged, "{'type': 'linear'}", ".factor is missing: this type");
    rope_complains(damaged, "{'type': 'linear', 'factor': 0}",
                   ".factor must be a number from 1.17549e-38 to 3.40282e+38, found 0");
    rope_complains(damaged, "{'type': 'yarn'}", ".factor is missing");
    rope_complains(damaged, "{'type': 'yarn', 'factor': 2, 'truncate': 1}",
                   ".truncate must be true or false, found 1");
    rope_complains(damaged, "{'type': 'llama3', 'factor': 2}", ".low_freq_factor is missing");
    rope_complains(damaged,
                   "{'type': 'llama3', 'factor': 2, 'low_freq_factor': 4, 'high_freq_factor': 4}",
                   ".high_freq_factor must be more than low_freq_factor, found 4");
    rope_complains(damaged, "{'type': 'longrope', 'short_factor': [1, 1, 1]}",
                   ".short_factor must be a list of 4 numbers above 0, found a list");
    rope_complains(
        damaged,
        "{'type': 'longrope', 'short_factor': [1, 1, 1, 1], 'long_factor': [1, 1, '1', 1]}",
        ".long_factor must be a list of 4 numbers above 0, found a list");
    rope_complains(damaged, "{'type': 'longrope', 'long_factor': [1, 1, 1, 1]}",
                   ".short_factor is missing");
    does_not_support("'rope_scaling': {'type': 'linear', 'factor': 0.5}",
                     "rotary embedding: frequency 0 is 2: must be 0 to 1");
}

TEST(refuses_rotary_embeddings_that_contradict_each_other)
{
    refuses("'rope_parameters': {'rope_type': 'default'}, 'rope_scaling': {'type': 'linear', "
            "'factor': 2}",
            "rope_parameters. and rope_scaling. describe different rotary embeddings");
    accepts("'rope_parameters': {'rope_type': 'linear', 'factor': 2.0}, 'rope_scaling': {'type': "
            "'linear', 'factor': 2}");
    refuses("'original_max_position_embeddings': 32, 'rope_scaling': {'type': 'yarn', 'factor': 2, "
            "'original_max_position_embeddings': 16}",
            "original_max_position_embeddings is 32, but "
            "rope_scaling.original_max_position_embeddings is 16: correct");
}

TEST(phi3_rotates_parts_of_heads)
{
    accepts(PHI3 "'partial_rotary_factor': 0.5");
    assert_int_equal(config.model.rotary_dim, 4);
    accepts(PHI3 "'rope_scaling': {'type': 'default', 'partial_rotary_factor': 0.75}");
    assert_int_equal(config.model.rotary_dim, 6);
    accepts(PHI3 "'partial_rotary_factor': 1.0");
    assert_true(smol_model_is_plain(&config.model));
    does_not_support(PHI3 "'partial_rotary_factor': 0.4", "3 of a head's 8 elements rotate");
    does_not_support(PHI3 "'partial_rotary_factor': 0.01", "0 of a head's 8 elements");
    does_not_support(PHI3 "'partial_rotary_factor': 0",
                     "partial_rotary_factor must be above 0 and at most 1, found 0");
    does_not_support(PHI3 "'partial_rotary_factor': 1.5",
                     "partial_rotary_factor must be above 0 and at most 1, found 1.5");
    refuses(PHI3 "'partial_rotary_factor': 0.5, 'rope_scaling': {'type': 'default', "
                 "'partial_rotary_factor': 0.75}",
            "rope_scaling.partial_rotary_factor is 0.75: another place has a different value: "
            "correct one of them");
}

TEST(phi3_has_names_of_its_own_for_longrope)
{
    char changes[512];
    static const char *const names[] = {"su", "yarn", "longrope"};
    for (int i = 0; i < 3; i++) {
        snprintf(changes, sizeof changes,
                 PHI3 "'max_position_embeddings': 8192, 'rope_scaling': {'type': '%s',"
                      " 'short_factor': [1, 2, 4, 8], 'long_factor': [9, 9, 9, 9]}",
                 names[i]);
        accepts(changes);
        assert_int_equal(config.longrope, LONGROPE_SHORT);
        assert_int_equal(config.model.context_length, 4096); /* the family's default */
    }
    does_not_support(PHI3 "'rope_scaling': {'type': 'linear', 'factor': 2}",
                     "rope_scaling.type is \"linear\": smolconv reads default, longrope");
    does_not_support(
        "'rope_scaling': {'type': 'su'}",
        "rope_scaling.type is \"su\": smolconv reads default, linear, llama3, yarn, longrope");
}

TEST(gemma4_rotates_two_shapes_of_heads)
{
#define GEMMA4(full)                                                                               \
    "'architectures': ['Gemma4ForCausalLM'], 'model_type': 'gemma4_text', 'num_key_value_heads': " \
    "3,"                                                                                           \
    " 'hidden_size_per_layer_input': 0, 'num_kv_shared_layers': 0, 'hidden_act': null,"            \
    " 'head_dim': 8, 'global_head_dim': 16, 'rope_parameters': {'sliding_attention':"              \
    " {'rope_type': 'default', 'rope_theta': 100}, 'full_attention': {" full "}}"
    accepts(GEMMA4("'rope_type': 'proportional', 'rope_theta': 100, 'partial_rotary_factor': 0.25,"
                   " 'factor': 2"));
    assert_int_equal(config.model.n_rope_tables, 2);
    assert_true(config.inv_freq[0] == 1 && config.inv_freq[4] == 0.5f && config.inv_freq[6] == 0);
    refuses(GEMMA4("'rope_type': 'default'"), ".full_attention.rope_theta is missing");
    refuses(GEMMA4("'rope_type': 'proportional', 'rope_theta': 100, 'factor': 0"),
            ".factor must be");
    does_not_support(GEMMA4("'rope_type': 'proportional', 'rope_theta': 100, 'factor': 0.5"),
                     "rotary embedding: frequency 0 is 2: must be 0 to 1");
    does_not_support(GEMMA4("'rope_type': 'yarn', 'rope_theta': 100"), "default or proportional");
#undef GEMMA4
}

TEST(longrope_goes_by_the_context)
{
    static const char longrope[] =
        "'rope_scaling': {'type': 'longrope', 'short_factor': [1, 2, 4, 8],"
        " 'long_factor': [9, 9, 9, 9], 'original_max_position_embeddings': 16}";
    for (context = 0; context <= 16; context += 16) {
        accepts(longrope);
        assert_int_equal(config.longrope, LONGROPE_SHORT);
        assert_int_equal(config.model.context_length, 16);
        assert_true(config.inv_freq[0] == 1);
    }
    context = 17;
    accepts(longrope);
    assert_int_equal(config.longrope, LONGROPE_LONG);
    assert_int_equal(config.model.context_length, 64);
    assert_true(config.inv_freq[0] == 1.0f / 9);
    accepts(""); /* nothing to others */
    assert_int_equal(config.longrope, LONGROPE_NONE);
    context = 0;
}

int main(void)
{
    return run_all_tests("config_rope", temporary_set_up, temporary_tear_down);
}
