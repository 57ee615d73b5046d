/* Tests of smol_config_open, which resolves or refuses settings, and of the JSON reader that it
 * uses. */
#include <unistd.h>

#include "convert/base/json.h"
#include "convert/checkpoint/config.h"
#include "format/model.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

static struct config config;
static uint32_t context; /* value of --context */
static smol_error error;

/* A small model in the style of SmolLM2. */
static const char base[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 48,"
    " \"intermediate_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 6,"
    " \"num_key_value_heads\": 3, \"vocab_size\": 100, \"max_position_embeddings\": 64,"
    " \"rms_norm_eps\": 1e-5, \"rope_theta\": 100000, \"rope_scaling\": null,"
    " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\", \"attention_bias\": false,"
    " \"mlp_bias\": false, \"bos_token_id\": 1, \"eos_token_id\": 2, \"torch_dtype\": \"bfloat16\","
    " \"pretraining_tp\": 4}";

static smol_status load(void)
{
    struct json_settings tokenizer_config, tokenizer;
    smol_status status = smol_config_open(temporary.folder, "config.json", context, &config,
                                          &tokenizer_config, &tokenizer, &error);
    smol_settings_close(&tokenizer_config);
    smol_settings_close(&tokenizer);
    return status;
}

/* Loads the base with `changes`, an object of keys to set, and without the key `absent`. */
static smol_status load_changed(const char *changes, const char *absent)
{
    json_t *object = json_loads(base, 0, NULL);
    json_t *update = json_loads(changes, 0, NULL);
    if (!update)
        fail_msg("not JSON: %s", changes);
    assert_int_equal(json_object_update(object, update), 0);
    if (absent)
        assert_int_equal(json_object_del(object, absent), 0);
    char *text = json_dumps(object, 0);
    temporary_write_text(&temporary, "config.json", text);
    free(text);
    json_decref(update);
    json_decref(object);
    return load();
}

static void accepts(const char *changes)
{
    if (load_changed(changes, NULL))
        fail_msg("refused: %s", error.message);
}

static void accepts_without(const char *absent)
{
    if (load_changed("{}", absent))
        fail_msg("refused: %s", error.message);
}

static void refuses(const char *changes, const char *part)
{
    assert_error(&error, load_changed(changes, NULL), SMOL_ERROR_DAMAGED, part);
    assert_non_null(strstr(error.message, ".json: "));
}

static void does_not_support(const char *changes, const char *part)
{
    assert_error(&error, load_changed(changes, NULL), SMOL_ERROR_UNSUPPORTED, part);
    assert_non_null(strstr(error.message, "/config.json: "));
}

static void write_other(const char *name, const char *text)
{
    temporary_write_text(&temporary, name, text);
}

static void remove_other(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", temporary.folder, name);
    assert_int_equal(remove(path), 0);
}

/* ---- the model ---- */

TEST(reads_a_model)
{
    accepts("{}");
    const struct blob_model *model = &config.model;
    assert_int_equal(model->family, FAMILY_LLAMA);
    assert_int_equal(model->dtype, 0);
    assert_int_equal(model->hidden_size, 48);
    assert_int_equal(model->intermediate_size, 96);
    assert_int_equal(model->n_layers, 2);
    assert_int_equal(model->n_heads, 6);
    assert_int_equal(model->n_kv_heads, 3);
    assert_int_equal(model->head_dim, 8);
    assert_int_equal(model->vocab_size, 100);
    assert_int_equal(model->context_length, 64);
    assert_int_equal(model->bos_id, 1);
    assert_int_equal(model->tied_embeddings, 1);
    assert_int_equal(model->attention_bias, 0);
    assert_int_equal(model->mlp_bias, 0);
    assert_true(model->rms_norm_eps == 1e-5f);
    assert_true(model->rope_theta == 100000);
    assert_int_equal(config.n_stop, 1);
    assert_int_equal(config.stop[0], 2);
    assert_int_equal(config.generation.present, 0);
}

TEST(takes_the_references_defaults)
{
    write_other("config.json", "{\"model_type\": \"llama\"}");
    assert_int_equal(load(), SMOL_OK);
    const struct blob_model *model = &config.model;
    assert_int_equal(model->hidden_size, 4096);
    assert_int_equal(model->intermediate_size, 11008);
    assert_int_equal(model->n_layers, 32);
    assert_int_equal(model->n_heads, 32);
    assert_int_equal(model->n_kv_heads, 32);
    assert_int_equal(model->head_dim, 128);
    assert_int_equal(model->vocab_size, 32000);
    assert_int_equal(model->context_length, 2048);
    assert_int_equal(model->bos_id, 1);
    assert_int_equal(model->tied_embeddings, 0);
    assert_true(model->rms_norm_eps == 1e-6f);
    assert_true(model->rope_theta == 10000);
    assert_int_equal(config.n_stop, 1);
    assert_int_equal(config.stop[0], 2);
}

TEST(takes_null_where_the_reference_does)
{
    accepts("{\"num_key_value_heads\": null, \"head_dim\": null,"
            " \"rope_parameters\": null, \"quantization_config\": null, \"torch_dtype\": null}");
    assert_int_equal(config.model.n_kv_heads, 6);
    assert_int_equal(config.model.head_dim, 8);
}

TEST(takes_head_dim_apart_from_hidden_size)
{
    accepts("{\"head_dim\": 32}");
    assert_int_equal(config.model.head_dim, 32);
    accepts("{\"head_dim\": 32, \"hidden_size\": 50}");
    assert_int_equal(config.model.hidden_size, 50);
}

TEST(reads_flags)
{
    accepts("{\"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": false}");
    assert_int_equal(config.model.attention_bias, 1);
    assert_int_equal(config.model.mlp_bias, 1);
    assert_int_equal(config.model.tied_embeddings, 0);
    refuses("{\"mlp_bias\": 1}", "mlp_bias must be true or false, found 1");
    refuses("{\"attention_bias\": \"true\"}",
            "attention_bias must be true or false, found \"true\"");
    refuses("{\"tie_word_embeddings\": []}",
            "tie_word_embeddings must be true or false, found a list");
}

TEST(refuses_sizes_out_of_range)
{
    static const struct {
        const char *key;
        unsigned max;
    } sizes[] = {{"hidden_size", 1 << 20},      {"intermediate_size", 1 << 22},
                 {"num_hidden_layers", 1024},   {"num_attention_heads", 4096},
                 {"num_key_value_heads", 4096}, {"head_dim", 1024},
                 {"vocab_size", 1 << 24},       {"max_position_embeddings", 1 << 24}};
    static const char *const bad[] = {"0", "-1", "8.0", "\"8\"", "true", "[8]", "{}"};
    char changes[128];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            snprintf(changes, sizeof changes, "{\"%s\": %s}", sizes[i].key, bad[j]);
            refuses(changes, sizes[i].key);
            assert_non_null(strstr(error.message, "an integer from 1 to "));
        }
        snprintf(changes, sizeof changes, "{\"%s\": %u}", sizes[i].key, sizes[i].max + 1);
        does_not_support(changes, sizes[i].key);
    }
}

TEST(refuses_sizes_that_do_not_divide)
{
    refuses("{\"num_key_value_heads\": 4}",
            "num_attention_heads 6 is not a multiple of num_key_value_heads 4");
    refuses("{\"hidden_size\": 50}", "hidden_size 50 is not a multiple of num_attention_heads 6");
    does_not_support("{\"hidden_size\": 42}", "head_dim 7 is odd");
    does_not_support("{\"head_dim\": 7}", "head_dim 7 is odd");
    does_not_support("{\"hidden_size\": 12288}", "head_dim 2048 (hidden_size 12288");
}

TEST(refuses_other_architectures)
{
    does_not_support("{\"architectures\": [\"BloomForCausalLM\"]}",
                     "architectures[0] is \"BloomForCausalLM\": smolconv reads Llama, ");
    does_not_support("{\"architectures\": [\"LlavaForConditionalGeneration\"]}",
                     "architectures[0] is \"LlavaForConditionalGeneration\": smolconv reads "
                     "Llama, ");
    does_not_support("{\"architectures\": null, \"model_type\": \"bloom\"}",
                     "model_type is \"bloom\": smolconv reads Llama, ");
    assert_non_null(strstr(error.message, ", Gemma3")); /* the last one */
    does_not_support("{\"architectures\": [], \"model_type\": null}",
                     "architectures and model_type are missing: smolconv reads Llama, ");
    does_not_support(
        "{\"model_type\": \"qwen2\"}",
        "model_type is \"qwen2\", but architectures name LlamaForCausalLM: correct one of them");
    refuses("{\"architectures\": \"LlamaForCausalLM\"}",
            "architectures must be a list, found \"LlamaForCausalLM\"");
    accepts("{\"architectures\": [\"Other\", \"LlamaForCausalLM\"]}");
    accepts("{\"architectures\": null}");
    accepts_without("architectures");
    accepts_without("model_type");
}

TEST(refuses_what_would_compute_something_else)
{
    does_not_support(
        "{\"hidden_act\": \"relu\"}",
        "hidden_act must be silu, gelu, gelu_new, gelu_fast or gelu_pytorch_tanh, found \"relu\"");
    does_not_support("{\"is_causal\": false}",
                     "is_causal is false: only causal attention is supported");
    accepts("{\"hidden_act\": \"swish\"}");
    refuses("{\"hidden_act\": 1}", "hidden_act must be a string, found 1");
    does_not_support("{\"quantization_config\": {\"bits\": 4}}",
                     "quantization_config is an object");
    does_not_support("{\"quantization_config\": {}}", "quantization_config is an object");
    does_not_support("{\"quantization_config\": {\"quant_method\": \"awq\"}}",
                     "quantization_config.quant_method is \"awq\": weights quantized in this way");
    does_not_support("{\"per_layer_config\": {\"0\": {\"head_dim\": 4}}}", "per_layer_config");
    does_not_support("{\"torch_dtype\": \"float7\"}",
                     "torch_dtype must be float32, float16, bfloat16, float64, float8_e4m3fn or "
                     "float8_e5m2, found \"float7\"");
    does_not_support("{\"dtype\": \"int8\"}", "dtype must be float32, float16, bfloat16, float64, "
                                              "float8_e4m3fn or float8_e5m2, found \"int8\"");
    accepts("{\"dtype\": \"float32\"}");
}

TEST(ignores_what_the_reference_ignores)
{
    accepts("{\"pretraining_tp\": 8, \"sliding_window\": 16, \"use_cache\": false,"
            " \"something_new\": {\"a\": [1]}}");
}

/* ---- rotary embedding ---- */

TEST(finds_theta_in_each_of_its_places)
{
    accepts("{\"rope_theta\": 500000.5}");
    assert_true(config.model.rope_theta == 500000.5);
    accepts("{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 5000}}");
    assert_true(config.model.rope_theta == 5000);
    accepts("{\"rope_theta\": null, \"rope_scaling\": {\"rope_theta\": 7000.0,"
            " \"rope_type\": \"default\"}}");
    assert_true(config.model.rope_theta == 7000);
    accepts("{\"rope_theta\": 7000, \"rope_scaling\": {\"rope_theta\": 7000.0},"
            " \"rope_parameters\": {\"rope_theta\": 7000, \"type\": \"default\"}}");
    assert_true(config.model.rope_theta == 7000);
    accepts_without("rope_theta");
    assert_true(config.model.rope_theta == 10000);
}

TEST(refuses_thetas_that_differ)
{
    refuses("{\"rope_parameters\": {\"rope_theta\": 10000.5}}",
            "rope_theta is 100000, but rope_parameters.rope_theta is 10000.5: correct one of them");
    refuses(
        "{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 1},"
        " \"rope_scaling\": {\"rope_theta\": 2}}",
        "rope_parameters.rope_theta is 1, but rope_scaling.rope_theta is 2: correct one of them");
}

TEST(refuses_thetas_that_are_no_positive_float)
{
    static const char *const bad[] = {"0", "-1", "0.0", "1e39", "1e-60", "\"1e4\"", "true", "[]"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "{\"rope_theta\": %s}", bad[i]);
        refuses(changes, "rope_theta must be a number from 1.17549e-38 to 3.40282e+38, found ");
        snprintf(changes, sizeof changes, "{\"rope_parameters\": {\"rope_theta\": %s}}", bad[i]);
        refuses(
            changes,
            "rope_parameters.rope_theta must be a number from 1.17549e-38 to 3.40282e+38, found ");
    }
}

static const char *const rope_objects[] = {"rope_parameters", "rope_scaling"};

/* Expects a message about the object in either position. */
static void rope_complains(smol_status expected, const char *object, const char *part)
{
    char changes[512], place[128];
    for (int i = 0; i < 2; i++) {
        snprintf(changes, sizeof changes, "{\"%s\": %s}", rope_objects[i], object);
        snprintf(place, sizeof place, "%s%s", rope_objects[i], part);
        assert_error(&error, load_changed(changes, NULL), expected, place);
    }
}

/* The reference reads only rope_scaling, and uses the default for keys that only rope_parameters
 * has. */
TEST(refuses_what_only_one_of_two_objects_says)
{
    refuses("{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 7000},"
            " \"rope_scaling\": {\"rope_type\": \"default\"}}",
            "rope_theta is in rope_parameters, but not in rope_scaling: keep one of these objects");
    accepts("{\"rope_theta\": 7000, \"rope_parameters\": {\"rope_theta\": 7000},"
            " \"rope_scaling\": {\"rope_type\": \"default\"}}");
    refuses("{\"rope_parameters\": {\"rope_theta\": 100000, \"partial_rotary_factor\": 1},"
            " \"rope_scaling\": {\"rope_theta\": 100000}}",
            "partial_rotary_factor is in rope_parameters, but not in rope_scaling: keep one of "
            "these objects");
}

TEST(refuses_other_rotary_embeddings)
{
    static const smol_status damaged = SMOL_ERROR_DAMAGED, unsupported = SMOL_ERROR_UNSUPPORTED;
    rope_complains(unsupported, "{\"rope_type\": \"dynamic\", \"factor\": 2}",
                   ".rope_type is \"dynamic\": its rotation depends on the length of the prompt");
    rope_complains(unsupported, "{\"type\": \"mrope\"}",
                   ".type is \"mrope\": smolconv reads default, linear, llama3, yarn, longrope");
    rope_complains(damaged, "{\"type\": \"yarn\", \"rope_type\": \"linear\", \"factor\": 2}",
                   ".type is \"yarn\": rope_type differs");
    rope_complains(damaged, "{\"rope_type\": 3}", ".rope_type must be a string, found 3");
    rope_complains(unsupported, "{\"partial_rotary_factor\": 0.5}",
                   ".partial_rotary_factor must be 1, found 0.5");
    rope_complains(unsupported, "{\"full_attention\": {}}",
                   " has the key full_attention: expected a single rotary embedding");
    rope_complains(damaged, "\"linear\"", " must be an object, found \"linear\"");
    does_not_support("{\"partial_rotary_factor\": 0.25}",
                     "partial_rotary_factor must be 1, found 0.25");
    accepts("{\"partial_rotary_factor\": 1.0}");
}

TEST(refuses_rotary_embeddings_that_lack_something)
{
    static const smol_status damaged = SMOL_ERROR_DAMAGED;
    rope_complains(damaged, "{\"type\": \"linear\"}", ".factor is missing: this type");
    rope_complains(damaged, "{\"type\": \"linear\", \"factor\": 0}",
                   ".factor must be a number from 1.17549e-38 to 3.40282e+38, found 0");
    rope_complains(damaged, "{\"type\": \"yarn\"}", ".factor is missing");
    rope_complains(damaged, "{\"type\": \"yarn\", \"factor\": 2, \"truncate\": 1}",
                   ".truncate must be true or false, found 1");
    rope_complains(damaged, "{\"type\": \"llama3\", \"factor\": 2}", ".low_freq_factor is missing");
    rope_complains(damaged,
                   "{\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4,"
                   " \"high_freq_factor\": 4}",
                   ".high_freq_factor must be more than low_freq_factor, found 4");
    rope_complains(damaged, "{\"type\": \"longrope\", \"short_factor\": [1, 1, 1]}",
                   ".short_factor must be a list of 4 numbers above 0, found a list");
    rope_complains(damaged,
                   "{\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1],"
                   " \"long_factor\": [1, 1, \"1\", 1]}",
                   ".long_factor must be a list of 4 numbers above 0, found a list");
    rope_complains(damaged, "{\"type\": \"longrope\", \"long_factor\": [1, 1, 1, 1]}",
                   ".short_factor is missing");
    does_not_support("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}}",
                     "rotary embedding: frequency 0 is 2: must be 0 to 1");
}

TEST(refuses_rotary_embeddings_that_contradict_each_other)
{
    refuses("{\"rope_parameters\": {\"rope_type\": \"default\"},"
            " \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
            "rope_parameters. and rope_scaling. describe different rotary embeddings");
    accepts("{\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0},"
            " \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}");
    refuses("{\"original_max_position_embeddings\": 32, \"rope_scaling\": {\"type\": \"yarn\","
            " \"factor\": 2, \"original_max_position_embeddings\": 16}}",
            "original_max_position_embeddings is 32, but "
            "rope_scaling.original_max_position_embeddings is 16: correct");
}

/* ---- families ---- */

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

/* Keys that turn `base` into a model of another family. */
#define QWEN2 "\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", "
#define MISTRAL "\"architectures\": [\"MistralForCausalLM\"], \"model_type\": \"mistral\", "
#define SMOLLM3 "\"architectures\": [\"SmolLM3ForCausalLM\"], \"model_type\": \"smollm3\", "
#define GRANITE "\"architectures\": [\"GraniteForCausalLM\"], \"model_type\": \"granite\", "
#define PHI3 "\"architectures\": [\"Phi3ForCausalLM\"], \"model_type\": \"phi3\", "
#define GEMMA2 "\"architectures\": [\"Gemma2ForCausalLM\"], \"model_type\": \"gemma2\", "
#define GEMMA3                                                                                     \
    "\"architectures\": [\"Gemma3ForCausalLM\"], \"model_type\": \"gemma3_text\","                 \
    " \"rope_theta\": 1000000, "

TEST(old_and_new_spellings_are_the_same)
{
    same("{\"rope_theta\": null, \"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 4,"
         " \"rope_theta\": 7000}}",
         "{\"rope_theta\": 7000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}}");
    same("{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4,"
         " \"original_max_position_embeddings\": 16}}",
         "{\"original_max_position_embeddings\": 16,"
         " \"rope_parameters\": {\"type\": \"yarn\", \"factor\": 4, \"beta_fast\": 0,"
         " \"attention_factor\": null}}");
    same("{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4,"
         " \"original_max_position_embeddings\": 16}}",
         "{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": null,"
         " \"original_max_position_embeddings\": 16, \"beta_slow\": 1}}");
    same("{\"torch_dtype\": \"float16\", \"head_dim\": 8}",
         "{\"torch_dtype\": null, \"dtype\": \"float32\", \"head_dim\": null}");
    same("{" GEMMA3 "\"rope_theta\": 5000, \"rope_local_base_freq\": 300,"
         " \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8},"
         " \"sliding_window\": 16, \"sliding_window_pattern\": 2}",
         "{" GEMMA3 "\"rope_theta\": null, \"rope_parameters\":"
         " {\"full_attention\": {\"type\": \"linear\", \"factor\": 8, \"rope_theta\": 5000},"
         " \"sliding_attention\": {\"rope_theta\": 300}}, \"sliding_window\": 16,"
         " \"layer_types\": [\"sliding_attention\", \"full_attention\"]}");
}

TEST(plain_blocks_of_any_family_need_no_feature)
{
    struct reading llama = read_changed("{}");
    static const char *const others[] = {
        "{" MISTRAL "\"sliding_window\": null}",
        "{" MISTRAL "\"sliding_window\": 64}", /* as long as the context */
        "{" SMOLLM3 "\"no_rope_layers\": [1, 1, 1]}",
        "{" GRANITE "\"attention_multiplier\": 0.35355339059327373}",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct reading other = read_changed(others[i]);
        assert_memory_equal(&llama, &other, sizeof llama);
        assert_true(smol_model_is_plain(&other.model));
    }
    accepts("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}");
    assert_true(smol_model_is_plain(&config.model));
    accepts("{" MISTRAL "\"sliding_window\": 63}");
    assert_false(smol_model_is_plain(&config.model));
}

static void layers_are(uint8_t first, uint8_t second)
{
    assert_int_equal(config.layers[0], first);
    assert_int_equal(config.layers[1], second);
}

TEST(reads_which_layers_rotate)
{
    accepts("{" SMOLLM3 "\"no_rope_layers\": [0, 1]}");
    layers_are(LAYER_NO_ROTATION, 0);
    accepts("{" SMOLLM3 "\"no_rope_layer_interval\": 2}");
    layers_are(0, LAYER_NO_ROTATION);
    accepts("{" SMOLLM3 "\"no_rope_layer_interval\": 1}");
    layers_are(LAYER_NO_ROTATION, LAYER_NO_ROTATION);
    refuses("{" SMOLLM3 "\"no_rope_layers\": [1]}",
            "no_rope_layers has 1 entries, but num_hidden_layers is 2: correct one of them");
    refuses("{" SMOLLM3 "\"no_rope_layers\": [1, 2]}",
            "no_rope_layers[1] must be 0 (no rotation) or 1, found 2");
    refuses("{" SMOLLM3 "\"no_rope_layers\": [true, 1]}",
            "no_rope_layers[0] must be 0 (no rotation) or 1, found true");
    refuses("{" SMOLLM3 "\"no_rope_layers\": 1}", "no_rope_layers must be a list, found 1");
    refuses("{" SMOLLM3 "\"no_rope_layer_interval\": 0}",
            "no_rope_layer_interval must be an integer from 1 to 4294967295, found 0");
}

TEST(reads_which_layers_are_windowed)
{
    accepts("{" QWEN2 "\"use_sliding_window\": true, \"sliding_window\": 8,"
            " \"max_window_layers\": 1}");
    layers_are(0, LAYER_WINDOWED);
    assert_int_equal(config.model.sliding_window, 8);
    accepts("{" QWEN2 "\"sliding_window\": 8, \"max_window_layers\": 0}"); /* not switched on */
    layers_are(0, 0);
    assert_int_equal(config.model.sliding_window, 0);
    accepts("{" SMOLLM3 "\"use_sliding_window\": true, \"sliding_window\": 8,"
            " \"no_rope_layers\": [0, 1]}");
    layers_are(LAYER_NO_ROTATION | LAYER_WINDOWED, 0);
    accepts("{" GEMMA2 "\"sliding_window\": 8}");
    layers_are(LAYER_WINDOWED, 0);
    accepts("{" GEMMA2 "\"sliding_window\": 8, \"layer_types\":"
            " [\"attention\", \"sliding_attention\"]}");
    layers_are(0, LAYER_WINDOWED);
    accepts("{" GEMMA3 "\"sliding_window\": 8, \"sliding_window_pattern\": 2}");
    layers_are(LAYER_WINDOWED | LAYER_SECOND_TABLE, 0);
    assert_int_equal(config.model.n_rope_tables, 2);
    accepts("{" GEMMA3 "\"sliding_window\": 8}");
    layers_are(LAYER_WINDOWED, LAYER_WINDOWED);
    assert_int_equal(config.model.n_rope_tables, 1);
    assert_true(config.model.rope_theta == 10000);
    accepts("{" GEMMA3 "\"sliding_window\": 64, \"sliding_window_pattern\": 2}");
    layers_are(LAYER_SECOND_TABLE, 0); /* no text exceeds the window */
}

TEST(refuses_null_where_the_reference_does)
{
    refuses("{\"hidden_act\": null}", "hidden_act must be a string, found null");
    refuses("{\"rms_norm_eps\": null}",
            "rms_norm_eps must be a number from 1.17549e-38 to 1, found null");
    refuses("{\"tie_word_embeddings\": null}",
            "tie_word_embeddings must be true or false, found null");
    refuses("{\"max_position_embeddings\": null}",
            "max_position_embeddings must be an integer from 1 to 16777216, found null");
    refuses("{\"rope_theta\": null}",
            "rope_theta is null: expected a number here or in the rotary embedding");
    refuses("{" GEMMA2 "\"head_dim\": null}", "head_dim is null: this family needs a number");
    refuses("{" GEMMA2 "\"num_key_value_heads\": null}", "num_key_value_heads is null: this");
    refuses("{\"rope_parameters\": {\"rope_type\": null}}",
            "rope_parameters.rope_type must be a string, found null");
    refuses("{\"is_causal\": null}", "is_causal must be true or false, found null");
}

TEST(refuses_integers_where_the_reference_does)
{
    refuses("{\"rms_norm_eps\": 1}", "rms_norm_eps must be a number with a decimal point, found 1");
    refuses("{" GEMMA2 "\"final_logit_softcapping\": 30}",
            "final_logit_softcapping must be a number with a decimal point, found 30");
    accepts("{" GRANITE "\"logits_scaling\": 2}");
    refuses("{" GEMMA2 "\"query_pre_attn_scalar\": 24.0}",
            "query_pre_attn_scalar must be an integer from 1 to 4294967295, found 24.0");
}

TEST(refuses_windows_that_make_no_sense)
{
    refuses(
        "{" QWEN2 "\"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
        "layers have sliding_attention, but use_sliding_window is not set: correct one of them");
    refuses("{" GEMMA2 "\"sliding_window\": null}",
            "layers have sliding_attention, but sliding_window is not set: correct one of them");
    refuses("{" GEMMA2 "\"sliding_window\": 0}",
            "sliding_window must be an integer from 1 to 4294967295, found 0");
    refuses("{" QWEN2 "\"layer_types\": [\"full_attention\"]}", "layer_types has 1 entries");
    refuses("{" QWEN2 "\"layer_types\": [\"full_attention\", 1]}",
            "layer_types[1] must be a string, found 1");
    does_not_support(
        "{" QWEN2 "\"layer_types\": [\"full_attention\", \"linear_attention\"]}",
        "layer_types[1] must be full_attention or sliding_attention, found \"linear_attention\"");
    does_not_support("{" MISTRAL "\"sliding_window\": 8,"
                     " \"layer_types\": [\"sliding_attention\", \"full_attention\"]}",
                     "layer_types: layer 1 differs: in MistralForCausalLM all layers are "
                     "windowed, or none if sliding_window is null");
    accepts("{" MISTRAL "\"sliding_window\": null,"
            " \"layer_types\": [\"full_attention\", \"full_attention\"]}");
    refuses("{" GEMMA3 "\"sliding_window_pattern\": 0}",
            "sliding_window_pattern must be an integer from 1 to 4294967295, found 0");
}

TEST(reads_scales_and_caps)
{
    accepts("{" GRANITE "\"embedding_multiplier\": 12, \"attention_multiplier\": 0.0078125,"
            " \"residual_multiplier\": 0.25, \"logits_scaling\": 8}");
    assert_true(config.model.embedding_scale == 12 && config.model.attention_scale == 0.0078125f);
    assert_true(config.model.residual_scale == 0.25f && config.model.logit_divisor == 8);
    accepts("{" GRANITE "\"rope_theta\": 10000}");
    assert_true(config.model.embedding_scale == 1 && config.model.attention_scale == 1);
    accepts("{" GEMMA2 "\"attn_logit_softcapping\": null, \"query_pre_attn_scalar\": 64}");
    assert_true(config.model.attention_softcap == 0 && config.model.logit_softcap == 30);
    assert_true(config.model.attention_scale == 0.125f);
    accepts("{" GEMMA3 "\"attn_logit_softcapping\": 5}"); /* the reference takes no notice */
    assert_true(config.model.attention_softcap == 0 && config.model.logit_softcap == 0);
    refuses("{" GRANITE "\"logits_scaling\": 0}",
            "logits_scaling must be a number from 1.17549e-38 to 3.40282e+38, found 0");
    refuses("{" GEMMA2 "\"final_logit_softcapping\": -1}",
            "final_logit_softcapping must be a number with a decimal point, found -1");
}

TEST(refuses_what_a_family_alone_can_ask_for)
{
    does_not_support("{" GEMMA2 "\"use_bidirectional_attention\": true}",
                     "use_bidirectional_attention is true: only causal attention is supported");
    accepts("{" GEMMA3 "\"use_bidirectional_attention\": false}");
    accepts("{\"use_bidirectional_attention\": true}"); /* nothing to the reference's Llama */
    does_not_support(
        "{" GEMMA3
        "\"sliding_window_pattern\": 2, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 8}}",
        "rope_scaling.type is \"linear\": transformers ignores it: rename it to rope_type");
    refuses("{" GEMMA3 "\"rope_parameters\": {\"rope_theta\": 10000}}",
            "rope_parameters.rope_theta is 10000: expected only full_attention and "
            "sliding_attention here");
    refuses("{" GEMMA3 "\"rope_parameters\": 1}", "rope_parameters must be an object, found 1");
    refuses("{" GEMMA3 "\"rope_local_base_freq\": 10, \"rope_parameters\":"
            " {\"sliding_attention\": {\"rope_theta\": 20}}}",
            "rope_theta is 10, but rope_parameters.sliding_attention.rope_theta is 20: correct one "
            "of them");
}

TEST(phi3_rotates_parts_of_heads)
{
    accepts("{" PHI3 "\"partial_rotary_factor\": 0.5}");
    assert_int_equal(config.model.rotary_dim, 4);
    accepts("{" PHI3 "\"rope_scaling\": {\"type\": \"default\", \"partial_rotary_factor\": 0.75}}");
    assert_int_equal(config.model.rotary_dim, 6);
    accepts("{" PHI3 "\"partial_rotary_factor\": 1.0}");
    assert_true(smol_model_is_plain(&config.model));
    does_not_support("{" PHI3 "\"partial_rotary_factor\": 0.4}", "3 of a head's 8 elements rotate");
    does_not_support("{" PHI3 "\"partial_rotary_factor\": 0.01}", "0 of a head's 8 elements");
    does_not_support("{" PHI3 "\"partial_rotary_factor\": 0}",
                     "partial_rotary_factor must be above 0 and at most 1, found 0");
    does_not_support("{" PHI3 "\"partial_rotary_factor\": 1.5}",
                     "partial_rotary_factor must be above 0 and at most 1, found 1.5");
    refuses("{" PHI3 "\"partial_rotary_factor\": 0.5,"
            " \"rope_scaling\": {\"type\": \"default\", \"partial_rotary_factor\": 0.75}}",
            "rope_scaling.partial_rotary_factor is 0.75: another place has a different value: "
            "correct one of them");
}

TEST(phi3_has_names_of_its_own_for_longrope)
{
    char changes[512];
    static const char *const names[] = {"su", "yarn", "longrope"};
    for (int i = 0; i < 3; i++) {
        snprintf(changes, sizeof changes,
                 "{" PHI3 "\"max_position_embeddings\": 8192, \"rope_scaling\": {\"type\": \"%s\","
                 " \"short_factor\": [1, 2, 4, 8], \"long_factor\": [9, 9, 9, 9]}}",
                 names[i]);
        accepts(changes);
        assert_int_equal(config.longrope, LONGROPE_SHORT);
        assert_int_equal(config.model.context_length, 4096); /* the family's default */
    }
    does_not_support("{" PHI3 "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}",
                     "rope_scaling.type is \"linear\": smolconv reads default, longrope");
    does_not_support(
        "{\"rope_scaling\": {\"type\": \"su\"}}",
        "rope_scaling.type is \"su\": smolconv reads default, linear, llama3, yarn, longrope");
}

TEST(longrope_goes_by_the_context)
{
    static const char longrope[] =
        "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2, 4, 8],"
        " \"long_factor\": [9, 9, 9, 9], \"original_max_position_embeddings\": 16}}";
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
    accepts("{}"); /* nothing to others */
    assert_int_equal(config.longrope, LONGROPE_NONE);
    context = 0;
}

TEST(refuses_norm_epsilons_that_are_no_positive_float)
{
    static const char *const bad[] = {"0", "-1e-5", "1e-60", "2", "\"1e-5\"", "false"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "{\"rms_norm_eps\": %s}", bad[i]);
        refuses(changes, "rms_norm_eps must be a number ");
    }
}

/* ---- token ids ---- */

TEST(tells_no_bos_from_the_default)
{
    accepts("{\"bos_token_id\": null}");
    assert_int_equal(config.model.bos_id, NO_TOKEN);
    accepts("{\"bos_token_id\": 0}");
    assert_int_equal(config.model.bos_id, 0);
    accepts_without("bos_token_id");
    assert_int_equal(config.model.bos_id, 1);
    refuses("{\"bos_token_id\": 100}", "bos_token_id 100 is not below vocab_size 100");
    refuses("{\"bos_token_id\": [1]}",
            "bos_token_id must be an integer from 0 to 4294967294, found a list");
    refuses("{\"bos_token_id\": -1}",
            "bos_token_id must be an integer from 0 to 4294967294, found -1");
}

TEST(reads_one_stop_id_or_many)
{
    accepts("{\"eos_token_id\": [7, 3, 99, 3]}");
    assert_int_equal(config.n_stop, 3);
    assert_int_equal(config.stop[0], 3);
    assert_int_equal(config.stop[1], 7);
    assert_int_equal(config.stop[2], 99);
    accepts("{\"eos_token_id\": null}");
    assert_int_equal(config.n_stop, 0);
    accepts("{\"eos_token_id\": []}");
    assert_int_equal(config.n_stop, 0);
    accepts_without("eos_token_id");
    assert_int_equal(config.n_stop, 1);
    assert_int_equal(config.stop[0], 2);
}

TEST(refuses_stop_ids_that_are_no_tokens)
{
    static const char *const bad[] = {"100",  "-1",      "2.0",   "\"2\"",
                                      "true", "[2,100]", "[[2]]", "{}"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "{\"eos_token_id\": %s}", bad[i]);
        refuses(changes, "eos_token_id must be a token id below vocab_size 100, found ");
    }
}

TEST(refuses_more_stop_ids_than_it_has_room_for)
{
    char changes[512] = "{\"eos_token_id\": [0";
    for (int i = 1; i < CONFIG_MAX_STOP; i++)
        sprintf(changes + strlen(changes), ",%d", i);
    size_t end = strlen(changes);
    strcpy(changes + end, "]}");
    accepts(changes);
    assert_int_equal(config.n_stop, CONFIG_MAX_STOP);
    strcpy(changes + end, ",64]}");
    does_not_support(changes, "more than 64 tokens");
}

TEST(stops_at_the_ids_of_all_files)
{
    write_other("generation_config.json", "{\"eos_token_id\": [9, 2]}");
    write_other("tokenizer_config.json", "{\"eos_token\": \"<end>\"}");
    write_other("tokenizer.json",
                "{\"added_tokens\": [{\"id\": 5, \"content\": \"<other>\"},"
                " {\"id\": 4, \"content\": \"<end>\"}], \"model\": {\"vocab\": {\"<end>\": 6}}}");
    accepts("{}");
    assert_int_equal(config.n_stop, 3);
    assert_int_equal(config.stop[0], 2);
    assert_int_equal(config.stop[1], 4);
    assert_int_equal(config.stop[2], 9);
    /* another file names the token, so the default of config.json is ignored */
    accepts_without("eos_token_id");
    assert_int_equal(config.n_stop, 3);
    write_other("generation_config.json", "{}");
    accepts_without("eos_token_id");
    assert_int_equal(config.n_stop, 1);
    assert_int_equal(config.stop[0], 4);
    remove_other("generation_config.json");
    remove_other("tokenizer_config.json");
    remove_other("tokenizer.json");
}

TEST(looks_eos_tokens_up)
{
    write_other("tokenizer.json",
                "{\"added_tokens\": [7, {}, {\"id\": 100, \"content\": \"<far>\"}],"
                " \"model\": {\"vocab\": {\"</s>\": 8}}}");
    write_other("tokenizer_config.json", "{\"eos_token\": {\"content\": \"</s>\"}}");
    accepts("{\"eos_token_id\": null}");
    assert_int_equal(config.n_stop, 1);
    assert_int_equal(config.stop[0], 8);
    write_other("tokenizer_config.json", "{\"eos_token\": null}");
    accepts("{\"eos_token_id\": null}");
    assert_int_equal(config.n_stop, 0);
    write_other("tokenizer_config.json", "{\"eos_token\": \"<missing>\"}");
    refuses("{}", "tokenizer_config.json: eos_token \"<missing>\" is not in tokenizer.json");
    write_other("tokenizer_config.json", "{\"eos_token\": \"<far>\"}");
    refuses("{}", "tokenizer.json: the eos_token of tokenizer_config.json must be a token id below "
                  "vocab_size 100, found 100");
    write_other("tokenizer_config.json", "{\"eos_token\": 3}");
    refuses("{}", "tokenizer_config.json: eos_token must be a string, found 3");
    write_other("tokenizer_config.json", "{\"eos_token\": {\"content\": 3}}");
    refuses("{}", "tokenizer_config.json: eos_token.content must be a string, found 3");
    remove_other("tokenizer.json");
    write_other("tokenizer_config.json", "{\"eos_token\": \"<end>\"}");
    assert_error(&error, load_changed("{}", NULL), SMOL_ERROR_FILE, "tokenizer.json: ");
    remove_other("tokenizer_config.json");
}

/* ---- sampling defaults ---- */

TEST(reads_sampling_defaults)
{
    write_other("generation_config.json",
                "{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 50, \"top_p\": 0.9,"
                " \"min_p\": 0.05, \"repetition_penalty\": 1.1}");
    accepts("{}");
    assert_int_equal(config.generation.present, 63);
    assert_int_equal(config.generation.do_sample, 1);
    assert_int_equal(config.generation.top_k, 50);
    assert_true(config.generation.temperature == 0.6f);
    assert_true(config.generation.top_p == 0.9f);
    assert_true(config.generation.min_p == 0.05f);
    assert_true(config.generation.repetition_penalty == 1.1f);
    write_other("generation_config.json", "{\"temperature\": 0, \"top_p\": null, \"top_k\": 0}");
    accepts("{}");
    assert_int_equal(config.generation.present, GENERATION_TEMPERATURE | GENERATION_TOP_K);
    assert_true(config.generation.temperature == 0);
    assert_int_equal(config.generation.top_k, 0);
    assert_true(config.generation.top_p == 0);
    remove_other("generation_config.json");
}

TEST(refuses_sampling_defaults_that_mean_nothing)
{
    static const char *const bad[] = {"\"do_sample\": 1",
                                      "\"temperature\": -1",
                                      "\"temperature\": \"1\"",
                                      "\"top_k\": -1",
                                      "\"top_k\": 1.5",
                                      "\"top_p\": 1.5",
                                      "\"top_p\": -0.1",
                                      "\"min_p\": 2",
                                      "\"repetition_penalty\": 0",
                                      "\"min_p\": [1]",
                                      "\"repetition_penalty\": -1",
                                      "\"repetition_penalty\": {}",
                                      "\"eos_token_id\": 100"};
    char text[64];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "{%s}", bad[i]);
        write_other("generation_config.json", text);
        refuses("{}", "/generation_config.json: ");
    }
    remove_other("generation_config.json");
}

/* ---- the files ---- */

TEST(says_when_config_json_is_missing)
{
    accepts("{}");
    remove_other("config.json");
    assert_error(&error, load(), SMOL_ERROR_FILE, "/config.json: ");
}

TEST(refuses_optional_files_that_are_damaged)
{
    static const char *const names[] = {"generation_config.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        write_other(names[i], "{");
        refuses("{}", names[i]);
        remove_other(names[i]);
        snprintf(path, sizeof path, "%s/%s", temporary.folder, names[i]);
        assert_int_equal(symlink("nowhere", path), 0);
        assert_error(&error, load_changed("{}", NULL), SMOL_ERROR_FILE, names[i]);
        remove_other(names[i]);
    }
    accepts("{}");
    /* a path with an invalid component is not a missing file */
    json_t *object;
    struct json_mark mark;
    char path[600];
    snprintf(path, sizeof path, "%s/within", temporary.path);
    assert_error(&error, smol_json_load_optional(path, JSON_OBJECT, &object, &mark, &error),
                 SMOL_ERROR_FILE, "config.json/within: ");
}

TEST(says_where_json_is_damaged)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "empty"},
        {"{\n \"a\": 1,\n}", "(line 3, column 1)"},
        {"{\"a\": 1, \"a\": 2}", "duplicate object key"},
        {"{} {}", "end of file expected"},
        {"{\"a\": \"\\u0000\"}", "not valid JSON: "},
        {"{\"a\": nan}", "not valid JSON: "},
        {"{\"a\": 1e999}", "real number overflow"},
        {"{\"a\": 1e999, \"b\": 99999999999999999999}", "real number overflow"},
        {"{\"\xff\": 1}", "unable to decode byte 0xff"},
        {"[1]",
         "must be an object, found a list (line 1, column 1): correct it or download it again"},
        {"12", "not valid JSON: "},
        {"version https://git-lfs.example/spec/v1\noid sha256:00\n", "a Git LFS pointer"},
        {"<html></html>", "a web page"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_other("config.json", bad[i].text);
        assert_error(&error, load(), SMOL_ERROR_DAMAGED, bad[i].part);
        assert_non_null(strstr(error.message, "/config.json: "));
    }
}

/* An integer beyond 64 bits is reported as an error of its own key, and other keys are
 * unaffected. */
TEST(blames_the_key_of_an_integer_beyond_64_bits)
{
    static const char *const large[] = {"9223372036854775808", "-9223372036854775809",
                                        "18446744073709551615", "1000000000000000019884624838656"};
    static const char *const keys[] = {"hidden_size", "intermediate_size",
                                       "max_position_embeddings", "vocab_size"};
    char changes[256], part[64];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (size_t k = 0; k < sizeof large / sizeof large[0]; k++) {
            snprintf(part, sizeof part, "config.json: %s must be an integer from 1 to ", keys[i]);
            snprintf(changes, sizeof changes, "{\"a\": \"1\\\"\", \"%s\": %s, \"x\": [%s, %s]}",
                     keys[i], large[k], large[k], large[k]);
            char text[sizeof base + sizeof changes];
            snprintf(text, sizeof text, "%.*s, %s", (int)sizeof base - 2, base, changes + 1);
            const char *old = strstr(text, keys[i]); /* a key may not appear twice */
            text[old - text] = '_';
            write_other("config.json", text);
            assert_error(&error, load(), SMOL_ERROR_DAMAGED, part);
        }
    char text[sizeof base + 256];
    snprintf(text, sizeof text,
             "%.*s, \"a 99999999999999999999\": \"\\\\\", \"b\": 99999999999999999999,"
             " \"c\": -9223372036854775808, \"d\": [9223372036854775807,1.5e2,-1E-2]}",
             (int)sizeof base - 2, base);
    json_t *object;
    assert_int_equal(smol_json_parse("a.json", text, strlen(text), &object, &error), SMOL_OK);
    assert_int_equal(json_integer_value(json_object_get(object, "hidden_size")), 48);
    assert_string_equal(json_string_value(json_object_get(object, "a 99999999999999999999")), "\\");
    assert_true(json_real_value(json_object_get(object, "b")) == 1e20);
    assert_true(json_integer_value(json_object_get(object, "c")) == INT64_MIN);
    const json_t *list = json_object_get(object, "d");
    assert_true(json_integer_value(json_array_get(list, 0)) == INT64_MAX);
    assert_true(json_real_value(json_array_get(list, 1)) == 150);
    assert_true(json_real_value(json_array_get(list, 2)) == -0.01);
    json_decref(object);
}

/* The tokenizer_config.json of a model without a limit contains such an integer. */
TEST(reads_files_with_huge_integers)
{
    write_other("tokenizer.json", "{\"model\": {\"vocab\": {\"</s>\": 8}}}");
    write_other("tokenizer_config.json",
                "{\"model_max_length\": 1000000000000000019884624838656, \"eos_token\": \"</s>\"}");
    accepts("{}");
    assert_int_equal(config.n_stop, 2);
    assert_int_equal(config.stop[1], 8);
    remove_other("tokenizer.json");
    remove_other("tokenizer_config.json");
    refuses("{\"hidden_size\": 1e30}",
            "hidden_size must be an integer from 1 to 1048576, found 1e30");
}

TEST(refuses_bytes_after_json)
{
    temporary_write(&temporary, "config.json", "{\"model_type\": \"llama\"}\0", 24);
    assert_error(&error, load(), SMOL_ERROR_DAMAGED, "not valid JSON");
}

TEST(survives_deeply_nested_json)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '[', size);
    memcpy(text, "{\"a\":", 5);
    temporary_write(&temporary, "config.json", text, size);
    assert_error(&error, load(), SMOL_ERROR_DAMAGED, "maximum parsing depth");
    free(text);
}

TEST(refuses_json_over_the_limit)
{
    temporary_write_text(&temporary, "config.json", "{}");
    assert_int_equal(truncate(temporary.path, (64 << 20) + 1), 0);
    assert_error(&error, load(), SMOL_ERROR_DAMAGED,
                 "too large for JSON (67108865 bytes, at most 67108864)");
}

TEST(cuts_long_values_in_messages)
{
    char changes[512] = "{\"hidden_act\": \"";
    memset(changes + strlen(changes), 'x', 300);
    strcat(changes, "\"}");
    does_not_support(
        changes, "hidden_act must be silu, gelu, gelu_new, gelu_fast or gelu_pytorch_tanh, found "
                 "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"");
}

int main(void)
{
    return run_all_tests("config", temporary_set_up, temporary_tear_down);
}
