/* Reads the files of sentence-transformers, see encoder.h. */
#include "convert/checkpoint/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/hash.h"
#include "convert/base/settings.h"

/* ---- modules.json ---- */

/* Returns whether a module's type is a class of that name, in any package. */
static bool is_module(const json_t *module, const char *name)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot && strcmp(dot + 1, name) == 0;
}

/* The kinds of modules, in the order in which they may appear. */
enum module_kind {
    MODULE_TRANSFORMER,
    MODULE_POOLING,
    MODULE_DENSE,
    MODULE_NORMALIZE,
    MODULE_LOGIT_SCORE,
    N_MODULES
};

/* The modules of a model: the paths of their folders. */
struct modules {
    const char *pooling, *logit_score; /* or NULL */
    const char *dense[EMBEDDER_MAX_DENSE];
    size_t n_dense;
};

static smol_status take_module(const json_t *module, enum module_kind kind,
                               struct encoder_config *config, struct modules *modules,
                               const char *path, smol_error *error)
{
    const char *folder = json_string_value(json_object_get(module, "path"));
    if (kind == MODULE_TRANSFORMER && folder && *folder)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: the Transformer's path is \"%.80s\": only a model beside this file, "
                         "whose path is \"\", is supported",
                         path, folder);
    if (!folder && kind != MODULE_TRANSFORMER && kind != MODULE_NORMALIZE)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "%s: a module without a path", path);
    if (kind == MODULE_POOLING)
        modules->pooling = folder;
    if (kind == MODULE_NORMALIZE)
        config->encoder.normalizes = 1;
    if (kind == MODULE_LOGIT_SCORE)
        modules->logit_score = folder;
    if (kind != MODULE_DENSE)
        return SMOL_OK;
    if (modules->n_dense == EMBEDDER_MAX_DENSE)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: at most %d Dense modules are supported", path, EMBEDDER_MAX_DENSE);
    modules->dense[modules->n_dense++] = folder;
    return SMOL_OK;
}

/* Takes the modules in order, of which all but the first may be absent. */
static smol_status take_modules(const json_t *list, const char *path, struct encoder_config *config,
                                struct modules *modules, smol_error *error)
{
    static const char *const names[] = {"Transformer", "Pooling", "Dense", "Normalize",
                                        "LogitScore"};
    size_t next = 0;
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *module = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(module, "type"));
        while (next < N_MODULES && !is_module(module, names[next]))
            next++;
        if (next == N_MODULES || (i == 0) != (next == 0))
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                             "%s: module %.80s (entry %zu): Transformer, Pooling, Dense, Normalize "
                             "and LogitScore are supported, in this order",
                             path, type ? type : "without a type", i);
        status = take_module(module, (enum module_kind)next, config, modules, path, error);
        next += next != MODULE_DENSE;
    }
    return status;
}

/* ---- the pooling module ---- */

static smol_status take_pooling(const struct json_settings *pooling, struct blob_encoder *encoder)
{
    static const struct {
        const char *key, *mode;
        uint32_t kind;
    } modes[] = {
        {"pooling_mode_mean_tokens", "mean", ENCODER_MEAN},
        {"pooling_mode_cls_token", "cls", ENCODER_FIRST},
        {"pooling_mode_max_tokens", "max", ENCODER_MAX},
        {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", ENCODER_POOLINGS},
        {"pooling_mode_weightedmean_tokens", "weightedmean", ENCODER_POOLINGS},
        {"pooling_mode_lasttoken", "lasttoken", ENCODER_LAST},
    };
    const char *mode = NULL;
    uint32_t n_set = 0;
    encoder->pooling = ENCODER_POOLINGS;
    smol_status status = smol_setting_string(pooling, "pooling_mode", &mode);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0] && !status; i++) {
        uint32_t set = mode && strcmp(mode, modes[i].mode) == 0;
        if (!mode)
            status = smol_setting_flag(pooling, modes[i].key, &set);
        n_set += set;
        encoder->pooling = set ? modes[i].kind : encoder->pooling;
    }
    if (!status)
        status = smol_setting_demand(pooling, "include_prompt", 1,
                                     "prompts that are not pooled are not supported");
    if (status)
        return status;
    if (n_set == 1 && encoder->pooling != ENCODER_POOLINGS)
        return SMOL_OK;
    return smol_fail(pooling->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: one of the modes mean, cls, max and lasttoken is supported",
                     pooling->path);
}

/* ---- a dense module ---- */

/* Reads the activation, a class of PyTorch. */
static smol_status take_activation(const struct json_settings *dense, uint32_t *activation)
{
    static const char *const classes[] = {"Identity", "Tanh"};
    const char *name = "torch.nn.modules.activation.Tanh";
    smol_status status = smol_setting_string(dense, "activation_function", &name);
    const char *dot = strrchr(name, '.');
    for (*activation = 0; !status && *activation < sizeof classes / sizeof classes[0];
         ++*activation)
        if (dot && strcmp(dot + 1, classes[*activation]) == 0)
            return SMOL_OK;
    return status ? status
                  : smol_setting_fail(dense, SMOL_ERROR_UNSUPPORTED, "activation_function",
                                      "Identity and Tanh are supported");
}

/* Refuses a module that reads or writes anything but the embedding, or adds its input. */
static smol_status check_dense(const struct json_settings *dense)
{
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    smol_status status =
        smol_setting_demand(dense, "use_residual", 0, "residual Dense modules are not supported");
    for (size_t i = 0; i < 2 && !status; i++) {
        const char *name = "sentence_embedding";
        status = smol_setting_string(dense, keys[i], &name);
        if (!status && strcmp(name, "sentence_embedding") != 0)
            status = smol_setting_fail(dense, SMOL_ERROR_UNSUPPORTED, keys[i],
                                       "only sentence_embedding is supported");
    }
    return status;
}

static smol_status take_dense(const struct json_settings *dense, const char *path, uint32_t inputs,
                              struct encoder_config *config, struct json_mark *mark,
                              smol_error *error)
{
    uint32_t activation = 0, biased = 1;
    struct safetensors weights = {0};
    smol_status status = check_dense(dense);
    if (!status)
        status = take_activation(dense, &activation);
    if (!status)
        status = smol_setting_flag(dense, "bias", &biased);
    if (!status)
        status = smol_safetensors_open(path, &weights, error);
    if (status)
        return status;
    *mark =
        (struct json_mark){weights.file.size, smol_digest(weights.file.data, weights.file.size)};
    const struct safetensors_tensor *matrix = smol_safetensors_find(&weights, "linear.weight");
    const struct safetensors_tensor *bias = smol_safetensors_find(&weights, "linear.bias");
    if (!matrix || (bias != NULL) != biased || weights.n_tensors != 1 + biased)
        status = smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%s: the tensors are not linear.weight%s, as config.json calls for",
                           path, biased ? " and linear.bias" : "");
    else
        status = smol_embedder_add_dense(&config->parts, inputs, (enum dense_activation)activation,
                                         matrix, bias, error);
    status = file_settle(&weights.file, path, status, error);
    smol_safetensors_close(&weights);
    return status;
}

/* ---- all files ---- */

/* Sets the name of a file of a module, whose folder must be beside modules.json. */
static smol_status name_file(const char *folder, const char *path, const char *file,
                             struct encoder_config *config, enum encoder_file which,
                             smol_error *error)
{
    char *name = config->files[which].name;
    size_t room = sizeof config->files[which].name;
    if (snprintf(name, room, "%s/%s", path, file) < (int)room && !strstr(path, "..") &&
        path[0] != '/')
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s/modules.json: path \"%.80s\" is not a folder beside it", folder, path);
}

/* Opens a file of the config, and marks it. */
static smol_status open_file(const char *folder, bool required, struct encoder_config *config,
                             enum encoder_file which, struct json_settings *settings,
                             smol_error *error)
{
    smol_status status =
        smol_settings_open(folder, config->files[which].name, required, settings, error);
    config->files[which].mark = settings->mark;
    return status;
}

static smol_status read_pooling(const char *folder, const char *path, struct encoder_config *config,
                                smol_error *error)
{
    struct json_settings pooling = {0};
    smol_status status = name_file(folder, path, "config.json", config, POOLING_JSON, error);
    if (!status)
        status = open_file(folder, true, config, POOLING_JSON, &pooling, error);
    if (!status)
        status = take_pooling(&pooling, &config->encoder);
    smol_settings_close(&pooling);
    return status;
}

/* Reads the tokens whose scores a decoder is asked for. */
static smol_status read_answers(const char *folder, const char *path, struct encoder_config *config,
                                smol_error *error)
{
    static const char *const keys[] = {"true_token_id", "false_token_id"};
    struct json_settings answers = {0};
    config->has_answers = true;
    config->answers[0] = config->answers[1] = NO_TOKEN;
    smol_status status = name_file(folder, path, "config.json", config, ANSWERS_JSON, error);
    if (!status)
        status = open_file(folder, true, config, ANSWERS_JSON, &answers, error);
    for (size_t i = 0; i < 2 && !status; i++)
        status = smol_setting_integer(&answers, keys[i], 0, NO_TOKEN - 1, &config->answers[i]);
    smol_settings_close(&answers);
    return status;
}

static smol_status read_dense(const char *folder, const char *path, uint32_t hidden,
                              struct encoder_config *config, smol_error *error)
{
    size_t i = config->parts.n_dense;
    uint32_t inputs = i > 0 ? config->parts.dense[i - 1].outputs : hidden;
    enum encoder_file json = (enum encoder_file)(DENSE_JSON + i);
    enum encoder_file tensors = (enum encoder_file)(DENSE_WEIGHTS + i);
    struct json_settings dense = {0};
    smol_status status = name_file(folder, path, "config.json", config, json, error);
    if (!status)
        status = name_file(folder, path, "model.safetensors", config, tensors, error);
    if (!status)
        status = open_file(folder, true, config, json, &dense, error);
    char *file = smol_path_join(folder, config->files[tensors].name);
    if (!status && !file)
        status = smol_fail_memory(error, "a file name");
    if (!status)
        status = take_dense(&dense, file, inputs, config, &config->files[tensors].mark, error);
    free(file);
    smol_settings_close(&dense);
    return status;
}

static smol_status read_modules(const char *folder, uint32_t hidden, struct encoder_config *config,
                                smol_error *error)
{
    struct modules modules = {0};
    json_t *list = NULL;
    char *path = smol_path_join(folder, config->files[MODULES_JSON].name);
    if (!path)
        return smol_fail_memory(error, "a file name");
    smol_status status =
        smol_json_load_optional(path, JSON_ARRAY, &list, &config->files[MODULES_JSON].mark, error);
    config->has_modules = list != NULL;
    if (!status && list)
        status = take_modules(list, path, config, &modules, error);
    config->has_pooling = modules.pooling != NULL;
    if (!status && modules.pooling)
        status = read_pooling(folder, modules.pooling, config, error);
    if (!status && modules.logit_score)
        status = read_answers(folder, modules.logit_score, config, error);
    for (size_t i = 0; i < modules.n_dense && !status; i++)
        status = read_dense(folder, modules.dense[i], hidden, config, error);
    json_decref(list);
    free(path);
    return status;
}

/* Opens the settings of the Transformer: the first file that is there and not empty, by the names
 * that sentence-transformers tries. */
static smol_status open_sentence(const char *folder, struct encoder_config *config,
                                 struct json_settings *sentence, smol_error *error)
{
    static const char *const names[] = {
        "sentence_bert_config.json",       "sentence_roberta_config.json",
        "sentence_distilbert_config.json", "sentence_camembert_config.json",
        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
        "sentence_xlnet_config.json",
    };
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !status; i++) {
        smol_settings_close(sentence);
        snprintf(config->files[SENTENCE_JSON].name, sizeof config->files[SENTENCE_JSON].name, "%s",
                 names[i]);
        status = open_file(folder, false, config, SENTENCE_JSON, sentence, error);
        if (json_object_size(sentence->object) > 0)
            break;
    }
    return status;
}

/* Returns whether the value only asks for the beginning of an answer, which the text of a decoder
 * that answers has anyway. */
static bool begins_answer(const json_t *value)
{
    const json_t *chat = json_object_get(value, "chat_template");
    return json_object_size(value) == 1 && json_object_size(chat) == 1 &&
           json_is_true(json_object_get(chat, "add_generation_prompt"));
}

/* Refuses whatever else the settings change: arguments of transformers, and lengths of their own
 * for kinds of texts. `trust_remote_code` is not read from a file. */
static smol_status check_sentence(const struct json_settings *sentence, bool answers)
{
    static const char *const keys[] = {
        "model_kwargs",  "model_args",      "processor_kwargs",  "tokenizer_args",
        "config_kwargs", "config_args",     "processing_kwargs", "tokenizer_name_or_path",
        "query_length",  "document_length", "query_expansion",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = smol_setting(sentence, keys[i]);
        size_t n_ignored = json_object_get(value, "trust_remote_code") != NULL;
        if (value && !(json_is_object(value) && json_object_size(value) == n_ignored) &&
            !(answers && begins_answer(value)))
            return smol_setting_fail(sentence, SMOL_ERROR_UNSUPPORTED, keys[i],
                                     "it changes the model, which is not supported: put what it "
                                     "states into config.json or tokenizer_config.json");
    }
    return smol_setting_demand(sentence, "do_lower_case", 0,
                               "only the tokenizer may change the case");
}

/* Reads the longest text. */
static smol_status read_sentence(const char *folder, struct encoder_config *config,
                                 smol_error *error)
{
    struct json_settings sentence = {0};
    smol_status status = open_sentence(folder, config, &sentence, error);
    config->has_length = !status && smol_setting(&sentence, "max_seq_length");
    if (!status)
        status = smol_setting_integer(&sentence, "max_seq_length", 1, UINT32_MAX,
                                      &config->encoder.max_length);
    if (!status)
        status = check_sentence(&sentence, config->has_answers);
    smol_settings_close(&sentence);
    return status;
}

/* Refuses a model of other vectors: sparse ones, or one for each token. */
static smol_status check_type(const struct json_settings *settings)
{
    const char *type = "SentenceTransformer";
    smol_status status = smol_setting_string(settings, "model_type", &type);
    if (status || strcmp(type, "SentenceTransformer") == 0 || strcmp(type, "CrossEncoder") == 0)
        return status;
    return smol_setting_fail(settings, SMOL_ERROR_UNSUPPORTED, "model_type",
                             "SentenceTransformer and CrossEncoder are supported");
}

static smol_status read_prompts(const char *folder, struct encoder_config *config,
                                smol_error *error)
{
    struct json_settings settings = {0};
    smol_status status = open_file(folder, false, config, PROMPTS_JSON, &settings, error);
    if (!status)
        status = check_type(&settings);
    if (!status)
        status = smol_embedder_prompts(&settings, &config->parts);
    if (!status)
        status = smol_embedder_activation(&settings, "activation_fn", &config->score);
    smol_settings_close(&settings);
    return status;
}

smol_status smol_encoder_read(const char *folder, const struct blob_model *model,
                              struct encoder_config *config, smol_error *error)
{
    struct blob_encoder *encoder = &config->encoder;
    *config = (struct encoder_config){
        .encoder.max_length = model->context_length,
        .files = {[MODULES_JSON].name = "modules.json",
                  [PROMPTS_JSON].name = "config_sentence_transformers.json"}};
    smol_status status = read_modules(folder, model->hidden_size, config, error);
    if (!status)
        status = read_sentence(folder, config, error);
    if (!status)
        status = read_prompts(folder, config, error);
    if (encoder->max_length > model->context_length)
        encoder->max_length = model->context_length;
    return status;
}
