/* Tests of smol_config_open, which resolves or refuses settings: sizes, token ids, sampling. */
#include <unistd.h>

#include "format/model.h"
#include "tests/unit/config_fixture.h"

/* Expects the ids, separated by spaces. */
static void stops_at(const char *ids)
{
    char found[512] = "";
    for (size_t i = 0; i < config.n_stop; i++)
        sprintf(found + strlen(found), "%s%u", i ? " " : "", config.stop[i]);
    assert_string_equal(found, ids);
}

TEST(reads_a_model)
{
    accepts("");
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
    stops_at("2");
    assert_int_equal(config.generation.present, 0);
}

TEST(takes_the_references_defaults)
{
    write_json("config.json", "'model_type': 'llama'");
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
    stops_at("2");
}

TEST(takes_null_where_the_reference_does)
{
    accepts("'num_key_value_heads': null, 'head_dim': null, 'rope_parameters': null, "
            "'quantization_config': null, 'torch_dtype': null");
    assert_int_equal(config.model.n_kv_heads, 6);
    assert_int_equal(config.model.head_dim, 8);
}

TEST(takes_head_dim_apart_from_hidden_size)
{
    accepts("'head_dim': 32");
    assert_int_equal(config.model.head_dim, 32);
    accepts("'head_dim': 32, 'hidden_size': 50");
    assert_int_equal(config.model.hidden_size, 50);
}

TEST(reads_flags)
{
    accepts("'attention_bias': true, 'mlp_bias': true, 'tie_word_embeddings': false");
    assert_int_equal(config.model.attention_bias, 1);
    assert_int_equal(config.model.mlp_bias, 1);
    assert_int_equal(config.model.tied_embeddings, 0);
    refuses("'mlp_bias': 1", "mlp_bias must be true or false, found 1");
    refuses("'attention_bias': 'true'", "attention_bias must be true or false, found \"true\"");
    refuses("'tie_word_embeddings': []", "tie_word_embeddings must be true or false, found a list");
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
    static const char *const bad[] = {"0", "-1", "8.0", "'8'", "true", "[8]", "{}"};
    char changes[128];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof bad / sizeof bad[0]; j++) {
            snprintf(changes, sizeof changes, "'%s': %s", sizes[i].key, bad[j]);
            refuses(changes, sizes[i].key);
            assert_non_null(strstr(error.message, "an integer from 1 to "));
        }
        snprintf(changes, sizeof changes, "'%s': %u", sizes[i].key, sizes[i].max + 1);
        does_not_support(changes, sizes[i].key);
    }
}

TEST(refuses_sizes_that_do_not_divide)
{
    refuses("'num_key_value_heads': 4",
            "num_attention_heads 6 is not a multiple of num_key_value_heads 4");
    refuses("'hidden_size': 50", "hidden_size 50 is not a multiple of num_attention_heads 6");
    does_not_support("'hidden_size': 42", "head_dim 7 is odd");
    does_not_support("'head_dim': 7", "head_dim 7 is odd");
    does_not_support("'hidden_size': 12288", "head_dim 2048 (hidden_size 12288");
}

TEST(refuses_other_architectures)
{
    does_not_support(
        "'architectures': ['BloomForCausalLM']",
        "architectures[0] is \"BloomForCausalLM\": docs/families.md lists what is supported");
    does_not_support(
        "'architectures': ['PaliGemmaForConditionalGeneration']",
        "architectures[0] is \"PaliGemmaForConditionalGeneration\": docs/families.md ");
    does_not_support("'architectures': ['BertForTokenClassification']",
                     "smolconv reads BertForMaskedLM, BertModel, BertForPreTraining, "
                     "BertForSequenceClassification");
    does_not_support("'architectures': ['GPT2Model']", ": smolconv reads GPT2LMHeadModel");
    does_not_support("'architectures': ['GPT2DoubleHeadsModel']", ": docs/families.md ");
    does_not_support("'architectures': null, 'model_type': 'bloom'",
                     "model_type is \"bloom\": docs/families.md ");
    does_not_support("'architectures': [], 'model_type': null",
                     "architectures and model_type are missing: docs/families.md ");
    does_not_support(
        "'model_type': 'qwen2'",
        "model_type is \"qwen2\", but architectures name LlamaForCausalLM: correct one of them");
    refuses("'architectures': 'LlamaForCausalLM'",
            "architectures must be a list, found \"LlamaForCausalLM\"");
    accepts("'architectures': ['Other', 'LlamaForCausalLM']");
    accepts("'architectures': null");
    accepts_without("architectures");
    accepts_without("model_type");
}

TEST(refuses_what_would_compute_something_else)
{
    does_not_support(
        "'hidden_act': 'relu'",
        "hidden_act must be silu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh or relu2, found "
        "\"relu\"");
    does_not_support("'is_causal': false",
                     "is_causal is false: only causal attention is supported");
    accepts("'hidden_act': 'swish'");
    refuses("'hidden_act': 1", "hidden_act must be a string, found 1");
    does_not_support("'quantization_config': {'bits': 4}", "quantization_config is an object");
    does_not_support("'quantization_config': {}", "quantization_config is an object");
    does_not_support("'quantization_config': {'quant_method': 'awq'}",
                     "quantization_config.quant_method is \"awq\": weights quantized in this way");
    does_not_support("'per_layer_config': {'0': {'head_dim': 4}}", "per_layer_config");
    does_not_support("'torch_dtype': 'float7'",
                     "torch_dtype must be float32, float16, bfloat16, float64, float8_e4m3fn or "
                     "float8_e5m2, found \"float7\"");
    does_not_support("'dtype': 'int8'", "dtype must be float32, float16, bfloat16, float64, "
                                        "float8_e4m3fn or float8_e5m2, found \"int8\"");
    accepts("'dtype': 'float32'");
}

TEST(ignores_what_the_reference_ignores)
{
    accepts("'pretraining_tp': 8, 'sliding_window': 16, 'use_cache': false, 'something_new': {'a': "
            "[1]}");
}

TEST(refuses_norm_epsilons_that_are_no_positive_float)
{
    refuses_values("rms_norm_eps", VALUES("0", "-1e-5", "1e-60", "2", "'1e-5'", "false"),
                   "rms_norm_eps must be a number ");
}

TEST(tells_no_bos_from_the_default)
{
    accepts("'bos_token_id': null");
    assert_int_equal(config.model.bos_id, NO_TOKEN);
    accepts("'bos_token_id': 0");
    assert_int_equal(config.model.bos_id, 0);
    accepts_without("bos_token_id");
    assert_int_equal(config.model.bos_id, 1);
    refuses("'bos_token_id': 100", "bos_token_id 100 is not below vocab_size 100");
    refuses("'bos_token_id': [1]",
            "bos_token_id must be an integer from 0 to 4294967294, found a list");
    refuses("'bos_token_id': -1", "bos_token_id must be an integer from 0 to 4294967294, found -1");
}

TEST(reads_one_stop_id_or_many)
{
    accepts("'eos_token_id': [7, 3, 99, 3]");
    stops_at("3 7 99");
    accepts("'eos_token_id': null");
    stops_at("");
    accepts("'eos_token_id': []");
    stops_at("");
    accepts_without("eos_token_id");
    stops_at("2");
}

TEST(refuses_stop_ids_that_are_no_tokens)
{
    refuses_values("eos_token_id",
                   VALUES("100", "-1", "2.0", "'2'", "true", "[2,100]", "[[2]]", "{}"),
                   "eos_token_id must be a token id below vocab_size 100, found ");
}

TEST(refuses_more_stop_ids_than_it_has_room_for)
{
    char changes[512] = "'eos_token_id': [0";
    for (int i = 1; i < CONFIG_MAX_STOP; i++)
        sprintf(changes + strlen(changes), ",%d", i);
    size_t end = strlen(changes);
    strcpy(changes + end, "]");
    accepts(changes);
    assert_int_equal(config.n_stop, CONFIG_MAX_STOP);
    strcpy(changes + end, ",64]");
    does_not_support(changes, "more than 64 tokens");
}

TEST(stops_at_the_ids_of_all_files)
{
    write_json("generation_config.json", "'eos_token_id': [9, 2]");
    write_json("tokenizer_config.json", "'eos_token': '<end>'");
    write_json("tokenizer.json", "'added_tokens': [{'id': 5, 'content': '<other>'}, {'id': 4, "
                                 "'content': '<end>'}], 'model': {'vocab': {'<end>': 6}}");
    accepts("");
    stops_at("2 4 9");
    /* another file names the token, so the default of config.json is ignored */
    accepts_without("eos_token_id");
    stops_at("2 4 9");
    write_json("generation_config.json", "");
    accepts_without("eos_token_id");
    stops_at("4");
    remove_json("generation_config.json");
    remove_json("tokenizer_config.json");
    remove_json("tokenizer.json");
}

TEST(looks_eos_tokens_up)
{
    write_json("tokenizer.json", "'added_tokens': [7, {}, {'id': 100, 'content': '<far>'}], "
                                 "'model': {'vocab': {'</s>': 8}}");
    write_json("tokenizer_config.json", "'eos_token': {'content': '</s>'}");
    accepts("'eos_token_id': null");
    stops_at("8");
    write_json("tokenizer_config.json", "'eos_token': null");
    accepts("'eos_token_id': null");
    stops_at("");
    write_json("tokenizer_config.json", "'eos_token': '<missing>'");
    refuses("", "tokenizer_config.json: eos_token \"<missing>\" is not in tokenizer.json");
    write_json("tokenizer_config.json", "'eos_token': '<far>'");
    refuses("", "tokenizer.json: the eos_token of tokenizer_config.json must be a token id below "
                "vocab_size 100, found 100");
    write_json("tokenizer_config.json", "'eos_token': 3");
    refuses("", "tokenizer_config.json: eos_token must be a string, found 3");
    write_json("tokenizer_config.json", "'eos_token': {'content': 3}");
    refuses("", "tokenizer_config.json: eos_token.content must be a string, found 3");
    remove_json("tokenizer.json");
    write_json("tokenizer_config.json", "'eos_token': '<end>'");
    assert_error(&error, load_changed("", NULL), SMOL_ERROR_FILE, "tokenizer.json: ");
    remove_json("tokenizer_config.json");
}

TEST(reads_sampling_defaults)
{
    write_json("generation_config.json",
               "'do_sample': true, 'temperature': 0.6, 'top_k': 50, 'top_p': 0.9, 'min_p': 0.05, "
               "'repetition_penalty': 1.1");
    accepts("");
    assert_int_equal(config.generation.present, 63);
    assert_int_equal(config.generation.do_sample, 1);
    assert_int_equal(config.generation.top_k, 50);
    assert_true(config.generation.temperature == 0.6f);
    assert_true(config.generation.top_p == 0.9f);
    assert_true(config.generation.min_p == 0.05f);
    assert_true(config.generation.repetition_penalty == 1.1f);
    write_json("generation_config.json", "'temperature': 0, 'top_p': null, 'top_k': 0");
    accepts("");
    assert_int_equal(config.generation.present, GENERATION_TEMPERATURE | GENERATION_TOP_K);
    assert_true(config.generation.temperature == 0);
    assert_int_equal(config.generation.top_k, 0);
    assert_true(config.generation.top_p == 0);
    remove_json("generation_config.json");
}

TEST(refuses_sampling_defaults_that_mean_nothing)
{
    static const char *const bad[] = {
        "'do_sample': 1",
        "'temperature': -1",
        "'temperature': '1'",
        "'top_k': -1",
        "'top_k': 1.5",
        "'top_p': 1.5",
        "'top_p': -0.1",
        "'min_p': 2",
        "'min_p': [1]",
        "'repetition_penalty': 0",
        "'repetition_penalty': -1",
        "'repetition_penalty': {}",
        "'eos_token_id': 100",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_json("generation_config.json", bad[i]);
        refuses("", "/generation_config.json: ");
    }
    remove_json("generation_config.json");
}

TEST(says_when_config_json_is_missing)
{
    accepts("");
    remove_json("config.json");
    assert_error(&error, load(), SMOL_ERROR_FILE, "/config.json: ");
}

TEST(refuses_optional_files_that_are_damaged)
{
    static const char *const names[] = {"generation_config.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        temporary_write_text(&temporary, names[i], "{");
        refuses("", names[i]);
        remove_json(names[i]);
        snprintf(path, sizeof path, "%s/%s", temporary.folder, names[i]);
        assert_int_equal(symlink("nowhere", path), 0);
        assert_error(&error, load_changed("", NULL), SMOL_ERROR_FILE, names[i]);
        remove_json(names[i]);
    }
    accepts("");
}

TEST(blames_the_key_of_an_integer_beyond_64_bits)
{
    static const char *const large[] = {"9223372036854775808", "-9223372036854775809",
                                        "18446744073709551615", "1000000000000000019884624838656"};
    static const char *const keys[] = {"hidden_size", "intermediate_size",
                                       "max_position_embeddings", "vocab_size"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        for (size_t k = 0; k < sizeof large / sizeof large[0]; k++) {
            char text[sizeof base + 256], part[64];
            snprintf(text, sizeof text, "%s, 'a': '1\\'', '%s': %s, 'x': [%s, %s]", base, keys[i],
                     large[k], large[k], large[k]);
            *strstr(text, keys[i]) = '_'; /* a key may not appear twice */
            write_json("config.json", text);
            snprintf(part, sizeof part, "config.json: %s must be an integer from 1 to ", keys[i]);
            assert_error(&error, load(), SMOL_ERROR_DAMAGED, part);
        }
}

/* The tokenizer_config.json of a model without a limit contains such an integer. */
TEST(reads_files_with_huge_integers)
{
    write_json("tokenizer.json", "'model': {'vocab': {'</s>': 8}}");
    write_json("tokenizer_config.json",
               "'model_max_length': 1000000000000000019884624838656, 'eos_token': '</s>'");
    accepts("");
    stops_at("2 8");
    remove_json("tokenizer.json");
    remove_json("tokenizer_config.json");
    refuses("'hidden_size': 1e30", "hidden_size must be an integer from 1 to 1048576, found 1e30");
}

TEST(cuts_long_values_in_messages)
{
    char changes[512] = "'hidden_act': '";
    memset(changes + strlen(changes), 'x', 300);
    strcat(changes, "'");
    does_not_support(
        changes,
        "hidden_act must be silu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh or relu2, found "
        "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"");
}

int main(void)
{
    return run_all_tests("config", temporary_set_up, temporary_tear_down);
}
