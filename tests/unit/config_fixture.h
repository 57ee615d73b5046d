/* Reads config.json of a small model with changed keys, and expects it to be accepted or refused.
 * In the JSON of these tests, ' stands for ". */
#ifndef SMOL_TESTS_UNIT_CONFIG_FIXTURE_H
#define SMOL_TESTS_UNIT_CONFIG_FIXTURE_H

#include "convert/base/json.h"
#include "convert/checkpoint/config.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

static struct config config;
static uint32_t context; /* value of --context */
static smol_error error;

/* The keys of a small model in the style of SmolLM2. */
static const char base[] =
    "'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': 48,"
    " 'intermediate_size': 96, 'num_hidden_layers': 2, 'num_attention_heads': 6,"
    " 'num_key_value_heads': 3, 'vocab_size': 100, 'max_position_embeddings': 64,"
    " 'rms_norm_eps': 1e-5, 'rope_theta': 100000, 'rope_scaling': null,"
    " 'tie_word_embeddings': true, 'hidden_act': 'silu', 'attention_bias': false,"
    " 'mlp_bias': false, 'bos_token_id': 1, 'eos_token_id': 2, 'torch_dtype': 'bfloat16',"
    " 'pretraining_tp': 4";

/* Keys that turn `base` into a model of another family. */
#define QWEN2 "'architectures': ['Qwen2ForCausalLM'], 'model_type': 'qwen2', "
#define MISTRAL "'architectures': ['MistralForCausalLM'], 'model_type': 'mistral', "
#define SMOLLM3 "'architectures': ['SmolLM3ForCausalLM'], 'model_type': 'smollm3', "
#define GRANITE "'architectures': ['GraniteForCausalLM'], 'model_type': 'granite', "
#define PHI3 "'architectures': ['Phi3ForCausalLM'], 'model_type': 'phi3', "
#define GEMMA2 "'architectures': ['Gemma2ForCausalLM'], 'model_type': 'gemma2', "
#define GEMMA3                                                                                     \
    "'architectures': ['Gemma3ForCausalLM'], 'model_type': 'gemma3_text', 'rope_theta': 1000000, "

/* Returns {`members`} as JSON. */
static inline const char *json_of(const char *members)
{
    static char text[4096];
    assert_in_range(snprintf(text, sizeof text, "{%s}", members), 2, sizeof text - 1);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    return text;
}

/* Writes a file of the checkpoint. */
static inline void write_json(const char *name, const char *members)
{
    temporary_write_text(&temporary, name, json_of(members));
}

static inline void remove_json(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", temporary.folder, name);
    assert_int_equal(remove(path), 0);
}

static inline smol_status load(void)
{
    struct json_settings tokenizer_config, tokenizer;
    smol_status status = smol_config_open(temporary.folder, "config.json", context, &config,
                                          &tokenizer_config, &tokenizer, &error);
    smol_settings_close(&tokenizer_config);
    smol_settings_close(&tokenizer);
    return status;
}

static inline json_t *object_of(const char *members)
{
    json_t *object = json_loads(json_of(members), 0, NULL);
    if (!object)
        fail_msg("not JSON: {%s}", members);
    return object;
}

/* Loads the base with `changes`, members to set, and without the key `absent`. */
static inline smol_status load_changed(const char *changes, const char *absent)
{
    json_t *object = object_of(base), *update = object_of(changes);
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

static inline void accepts(const char *changes)
{
    if (load_changed(changes, NULL))
        fail_msg("refused: %s", error.message);
}

static inline void accepts_without(const char *absent)
{
    if (load_changed("", absent))
        fail_msg("refused: %s", error.message);
}

static inline void refuses(const char *changes, const char *part)
{
    assert_error(&error, load_changed(changes, NULL), SMOL_ERROR_DAMAGED, part);
    assert_non_null(strstr(error.message, ".json: "));
}

/* Refuses the key with each of the values; a NULL ends them. */
static inline void refuses_values(const char *key, const char *const *values, const char *part)
{
    for (char changes[128]; *values; values++) {
        snprintf(changes, sizeof changes, "'%s': %s", key, *values);
        refuses(changes, part);
    }
}

#define VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline void does_not_support(const char *changes, const char *part)
{
    assert_error(&error, load_changed(changes, NULL), SMOL_ERROR_UNSUPPORTED, part);
    assert_non_null(strstr(error.message, "/config.json: "));
}

#endif
