/* What smol_config_open resolves and what it refuses, and the JSON reader underneath. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <unistd.h>

#include "convert/config.h"
#include "convert/json.h"
#include "tests/unit/temporary_fixture.h"

static struct config config;
static struct error error;

/* A small model in the style of SmolLM2. */
static const char base[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 48,"
    " \"intermediate_size\": 96, \"num_hidden_layers\": 2, \"num_attention_heads\": 6,"
    " \"num_key_value_heads\": 3, \"vocab_size\": 100, \"max_position_embeddings\": 64,"
    " \"rms_norm_eps\": 1e-5, \"rope_theta\": 100000, \"rope_scaling\": null,"
    " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\", \"attention_bias\": false,"
    " \"mlp_bias\": false, \"bos_token_id\": 1, \"eos_token_id\": 2, \"torch_dtype\": \"bfloat16\","
    " \"pretraining_tp\": 4}";

static enum status load(void)
{
    struct settings tokenizer;
    enum status status =
        smol_config_open(temporary.folder, "config.json", &config, &tokenizer, &error);
    smol_settings_close(&tokenizer);
    return status;
}

/* Loads the base with `changes`, an object of keys to set, and without the key `absent`. */
static enum status load_changed(const char *changes, const char *absent)
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

static void complains(enum status status, enum status expected, const char *part)
{
    if (status != expected || error.status != expected || !strstr(error.message, part))
        fail_msg("status %d, not %d with \"%s\": %s", status, expected, part, error.message);
}

static void refuses(const char *changes, const char *part)
{
    complains(load_changed(changes, NULL), STATUS_DAMAGED, part);
    assert_non_null(strstr(error.message, ".json: "));
}

static void does_not_support(const char *changes, const char *part)
{
    complains(load_changed(changes, NULL), STATUS_UNSUPPORTED, part);
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

static void reads_a_model(void **state)
{
    (void)state;
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

static void takes_the_references_defaults(void **state)
{
    (void)state;
    write_other("config.json", "{\"model_type\": \"llama\"}");
    assert_int_equal(load(), STATUS_OK);
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

static void takes_null_for_absent(void **state)
{
    (void)state;
    accepts("{\"num_key_value_heads\": null, \"head_dim\": null, \"rope_theta\": null,"
            " \"rope_parameters\": null, \"quantization_config\": null, \"torch_dtype\": null}");
    assert_int_equal(config.model.n_kv_heads, 6);
    assert_int_equal(config.model.head_dim, 8);
    assert_true(config.model.rope_theta == 10000);
}

static void takes_head_dim_apart_from_hidden_size(void **state)
{
    (void)state;
    accepts("{\"head_dim\": 32}");
    assert_int_equal(config.model.head_dim, 32);
    accepts("{\"head_dim\": 32, \"hidden_size\": 50}");
    assert_int_equal(config.model.hidden_size, 50);
}

static void reads_flags(void **state)
{
    (void)state;
    accepts("{\"attention_bias\": true, \"mlp_bias\": true, \"tie_word_embeddings\": false}");
    assert_int_equal(config.model.attention_bias, 1);
    assert_int_equal(config.model.mlp_bias, 1);
    assert_int_equal(config.model.tied_embeddings, 0);
    refuses("{\"mlp_bias\": 1}", "mlp_bias is 1: true or false is due");
    refuses("{\"attention_bias\": \"true\"}", "attention_bias is \"true\": true or false");
    refuses("{\"tie_word_embeddings\": []}", "tie_word_embeddings is a list: true or false");
}

static void refuses_sizes_out_of_range(void **state)
{
    (void)state;
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

static void refuses_sizes_that_do_not_divide(void **state)
{
    (void)state;
    refuses("{\"num_key_value_heads\": 4}",
            "num_attention_heads 6 is not a multiple of num_key_value_heads 4");
    refuses("{\"hidden_size\": 50}", "hidden_size 50 is not a multiple of num_attention_heads 6");
    does_not_support("{\"hidden_size\": 42}", "head_dim 7 is odd");
    does_not_support("{\"head_dim\": 7}", "head_dim 7 is odd");
    does_not_support("{\"hidden_size\": 12288}", "head_dim 2048 (hidden_size 12288");
}

static void refuses_other_architectures(void **state)
{
    (void)state;
    does_not_support("{\"architectures\": [\"MistralForCausalLM\"]}",
                     "architectures[0] is \"MistralForCausalLM\": only LlamaForCausalLM");
    does_not_support("{\"model_type\": \"qwen2\"}", "model_type is \"qwen2\"");
    does_not_support("{\"architectures\": [], \"model_type\": null}",
                     "neither architectures nor model_type");
    refuses("{\"architectures\": \"LlamaForCausalLM\"}", "architectures is \"Llama");
    accepts("{\"architectures\": [\"Other\", \"LlamaForCausalLM\"]}");
    accepts("{\"architectures\": null}");
    accepts_without("architectures");
    accepts_without("model_type");
}

static void refuses_what_would_compute_something_else(void **state)
{
    (void)state;
    does_not_support("{\"hidden_act\": \"gelu\"}", "hidden_act is \"gelu\": only silu");
    accepts("{\"hidden_act\": \"swish\"}");
    refuses("{\"hidden_act\": 1}", "hidden_act is 1: a string is due");
    does_not_support("{\"quantization_config\": {\"bits\": 4}}",
                     "quantization_config is an object");
    does_not_support("{\"per_layer_config\": {\"0\": {\"head_dim\": 4}}}", "per_layer_config");
    does_not_support("{\"torch_dtype\": \"float7\"}", "torch_dtype is \"float7\"");
    does_not_support("{\"dtype\": \"int8\"}", "dtype is \"int8\"");
    accepts("{\"dtype\": \"float32\"}");
}

static void ignores_what_the_reference_ignores(void **state)
{
    (void)state;
    accepts("{\"pretraining_tp\": 8, \"sliding_window\": 16, \"use_cache\": false,"
            " \"something_new\": {\"a\": [1]}}");
}

/* ---- rotary embedding ---- */

static void finds_theta_in_each_of_its_places(void **state)
{
    (void)state;
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

static void refuses_thetas_that_differ(void **state)
{
    (void)state;
    refuses("{\"rope_parameters\": {\"rope_theta\": 10000.5}}",
            "rope_theta is 100000 and rope_parameters.rope_theta is 10000.5");
    refuses("{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 1},"
            " \"rope_scaling\": {\"rope_theta\": 2}}",
            "rope_parameters.rope_theta is 1 and rope_scaling.rope_theta is 2");
}

static void refuses_thetas_that_are_no_positive_float(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "-1", "0.0", "1e39", "1e-60", "\"1e4\"", "true", "[]"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "{\"rope_theta\": %s}", bad[i]);
        refuses(changes, "rope_theta is ");
        snprintf(changes, sizeof changes, "{\"rope_parameters\": {\"rope_theta\": %s}}", bad[i]);
        refuses(changes, "rope_parameters.rope_theta is ");
    }
}

static void refuses_other_rotary_embeddings(void **state)
{
    (void)state;
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    char changes[128], part[128];
    for (int i = 0; i < 2; i++) {
        snprintf(changes, sizeof changes, "{\"%s\": {\"rope_type\": \"llama3\"}}", objects[i]);
        snprintf(part, sizeof part, "%s.rope_type is \"llama3\"", objects[i]);
        does_not_support(changes, part);
        snprintf(changes, sizeof changes, "{\"%s\": {\"type\": \"linear\"}}", objects[i]);
        snprintf(part, sizeof part, "%s.type is \"linear\"", objects[i]);
        does_not_support(changes, part);
        snprintf(changes, sizeof changes, "{\"%s\": {\"partial_rotary_factor\": 0.5}}", objects[i]);
        snprintf(part, sizeof part, "%s.partial_rotary_factor is 0.5", objects[i]);
        does_not_support(changes, part);
        snprintf(changes, sizeof changes, "{\"%s\": {\"full_attention\": {}}}", objects[i]);
        snprintf(part, sizeof part, "%s.full_attention is an object", objects[i]);
        does_not_support(changes, part);
        snprintf(changes, sizeof changes, "{\"%s\": \"linear\"}", objects[i]);
        snprintf(part, sizeof part, "%s is \"linear\": an object is due", objects[i]);
        refuses(changes, part);
    }
    does_not_support("{\"partial_rotary_factor\": 0.25}", "partial_rotary_factor is 0.25");
    accepts("{\"partial_rotary_factor\": 1.0}");
}

static void refuses_norm_epsilons_that_are_no_positive_float(void **state)
{
    (void)state;
    static const char *const bad[] = {"0", "-1e-5", "1e-60", "2", "\"1e-5\"", "false"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "{\"rms_norm_eps\": %s}", bad[i]);
        refuses(changes, "rms_norm_eps is ");
    }
}

/* ---- token ids ---- */

static void tells_no_bos_from_the_default(void **state)
{
    (void)state;
    accepts("{\"bos_token_id\": null}");
    assert_int_equal(config.model.bos_id, NO_TOKEN);
    accepts("{\"bos_token_id\": 0}");
    assert_int_equal(config.model.bos_id, 0);
    accepts_without("bos_token_id");
    assert_int_equal(config.model.bos_id, 1);
    refuses("{\"bos_token_id\": 100}", "bos_token_id 100 is not below vocab_size 100");
    refuses("{\"bos_token_id\": [1]}", "bos_token_id is a list");
    refuses("{\"bos_token_id\": -1}", "bos_token_id is -1");
}

static void reads_one_stop_id_or_many(void **state)
{
    (void)state;
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

static void refuses_stop_ids_that_are_no_tokens(void **state)
{
    (void)state;
    static const char *const bad[] = {"100",  "-1",      "2.0",   "\"2\"",
                                      "true", "[2,100]", "[[2]]", "{}"};
    char changes[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(changes, sizeof changes, "{\"eos_token_id\": %s}", bad[i]);
        refuses(changes, "eos_token_id names no token: an id below vocab_size 100 is due");
    }
}

static void refuses_more_stop_ids_than_it_has_room_for(void **state)
{
    (void)state;
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

static void stops_at_the_ids_of_all_files(void **state)
{
    (void)state;
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
    /* named elsewhere, the default of config.json does not count */
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

static void looks_eos_tokens_up(void **state)
{
    (void)state;
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
    refuses("{}", "tokenizer.json: the eos_token of tokenizer_config.json names no token");
    write_other("tokenizer_config.json", "{\"eos_token\": 3}");
    refuses("{}", "tokenizer_config.json: eos_token is 3: a string is due");
    write_other("tokenizer_config.json", "{\"eos_token\": {\"content\": 3}}");
    refuses("{}", "tokenizer_config.json: eos_token.content is 3: a string is due");
    remove_other("tokenizer.json");
    write_other("tokenizer_config.json", "{\"eos_token\": \"<end>\"}");
    complains(load_changed("{}", NULL), STATUS_FILE, "tokenizer.json: ");
    remove_other("tokenizer_config.json");
}

/* ---- sampling defaults ---- */

static void reads_sampling_defaults(void **state)
{
    (void)state;
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

static void refuses_sampling_defaults_that_mean_nothing(void **state)
{
    (void)state;
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

static void says_when_config_json_is_missing(void **state)
{
    (void)state;
    accepts("{}");
    remove_other("config.json");
    complains(load(), STATUS_FILE, "/config.json: ");
}

static void refuses_optional_files_that_are_damaged(void **state)
{
    (void)state;
    static const char *const names[] = {"generation_config.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        write_other(names[i], "{");
        refuses("{}", names[i]);
        remove_other(names[i]);
        snprintf(path, sizeof path, "%s/%s", temporary.folder, names[i]);
        assert_int_equal(symlink("nowhere", path), 0);
        complains(load_changed("{}", NULL), STATUS_FILE, names[i]);
        remove_other(names[i]);
    }
    accepts("{}");
    /* a path that cannot be followed is not a missing file */
    json_t *object;
    struct json_mark mark;
    char path[600];
    snprintf(path, sizeof path, "%s/within", temporary.path);
    complains(smol_json_load_optional(path, &object, &mark, &error), STATUS_FILE,
              "config.json/within: ");
}

static void says_where_json_is_damaged(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"", "empty"},
        {"{\n \"a\": 1,\n}", "(line 3, column 1)"},
        {"{\"a\": 1, \"a\": 2}", "duplicate object key"},
        {"{} {}", "end of file expected"},
        {"{\"a\": \"\\u0000\"}", "not valid JSON: "},
        {"{\"a\": NaN}", "not valid JSON: "},
        {"{\"a\": 1e999}", "real number overflow"},
        {"{\"a\": 1e999, \"b\": 99999999999999999999}", "real number overflow"},
        {"{\"\xff\": 1}", "unable to decode byte 0xff"},
        {"[1]", "a list where an object is due"},
        {"12", "not valid JSON: "},
        {"version https://git-lfs.example/spec/v1\noid sha256:00\n", "a Git LFS pointer"},
        {"<html></html>", "a web page"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_other("config.json", bad[i].text);
        complains(load(), STATUS_DAMAGED, bad[i].part);
        assert_non_null(strstr(error.message, "/config.json: "));
    }
}

/* As in the tokenizer_config.json of a model without a limit. */
static void reads_files_with_huge_integers(void **state)
{
    (void)state;
    write_other("tokenizer.json", "{\"model\": {\"vocab\": {\"</s>\": 8}}}");
    write_other("tokenizer_config.json",
                "{\"model_max_length\": 1000000000000000019884624838656, \"eos_token\": \"</s>\"}");
    accepts("{}");
    assert_int_equal(config.n_stop, 2);
    assert_int_equal(config.stop[1], 8);
    remove_other("tokenizer.json");
    remove_other("tokenizer_config.json");
    refuses("{\"hidden_size\": 1e30}", "hidden_size is 1e30: an integer from 1 to");
}

static void refuses_bytes_behind_json(void **state)
{
    (void)state;
    temporary_write(&temporary, "config.json", "{\"model_type\": \"llama\"}\0", 24);
    complains(load(), STATUS_DAMAGED, "not valid JSON");
}

static void survives_deeply_nested_json(void **state)
{
    (void)state;
    size_t size = 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '[', size);
    memcpy(text, "{\"a\":", 5);
    temporary_write(&temporary, "config.json", text, size);
    complains(load(), STATUS_DAMAGED, "maximum parsing depth");
    free(text);
}

static void refuses_json_over_the_limit(void **state)
{
    (void)state;
    temporary_write_text(&temporary, "config.json", "{}");
    assert_int_equal(truncate(temporary.path, (64 << 20) + 1), 0);
    complains(load(), STATUS_DAMAGED, "too large for JSON (67108865 bytes, at most 67108864)");
}

static void cuts_long_values_in_messages(void **state)
{
    (void)state;
    char changes[512] = "{\"hidden_act\": \"";
    memset(changes + strlen(changes), 'x', 300);
    strcat(changes, "\"}");
    does_not_support(changes, "xxxxxxxxxxxxxxxx...\": only silu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_model),
        cmocka_unit_test(takes_the_references_defaults),
        cmocka_unit_test(takes_null_for_absent),
        cmocka_unit_test(takes_head_dim_apart_from_hidden_size),
        cmocka_unit_test(reads_flags),
        cmocka_unit_test(refuses_sizes_out_of_range),
        cmocka_unit_test(refuses_sizes_that_do_not_divide),
        cmocka_unit_test(refuses_other_architectures),
        cmocka_unit_test(refuses_what_would_compute_something_else),
        cmocka_unit_test(ignores_what_the_reference_ignores),
        cmocka_unit_test(finds_theta_in_each_of_its_places),
        cmocka_unit_test(refuses_thetas_that_differ),
        cmocka_unit_test(refuses_thetas_that_are_no_positive_float),
        cmocka_unit_test(refuses_other_rotary_embeddings),
        cmocka_unit_test(refuses_norm_epsilons_that_are_no_positive_float),
        cmocka_unit_test(tells_no_bos_from_the_default),
        cmocka_unit_test(reads_one_stop_id_or_many),
        cmocka_unit_test(refuses_stop_ids_that_are_no_tokens),
        cmocka_unit_test(refuses_more_stop_ids_than_it_has_room_for),
        cmocka_unit_test(stops_at_the_ids_of_all_files),
        cmocka_unit_test(looks_eos_tokens_up),
        cmocka_unit_test(reads_sampling_defaults),
        cmocka_unit_test(refuses_sampling_defaults_that_mean_nothing),
        cmocka_unit_test(says_when_config_json_is_missing),
        cmocka_unit_test(refuses_optional_files_that_are_damaged),
        cmocka_unit_test(says_where_json_is_damaged),
        cmocka_unit_test(reads_files_with_huge_integers),
        cmocka_unit_test(refuses_bytes_behind_json),
        cmocka_unit_test(survives_deeply_nested_json),
        cmocka_unit_test(refuses_json_over_the_limit),
        cmocka_unit_test(cuts_long_values_in_messages),
    };
    return cmocka_run_group_tests_name("config", tests, temporary_set_up, temporary_tear_down);
}
