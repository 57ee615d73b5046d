/* Opens a checkpoint, see source.h. The cheap checks come first, so that unsupported input is
 * refused early. */
#include "convert/source.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "convert/base/foreign.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/fused.h"
#include "convert/checkpoint/gguf_tensors.h"
#include "convert/checkpoint/hub.h"
#include "convert/gguf/settings.h"
#include "convert/ranker.h"
#include "format/layout.h"
#include "format/model.h"

/* Returns whether the file `path` begins as a GGUF file does. */
static bool is_gguf(const char *path)
{
    uint8_t data[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe does not block */
    if (fd < 0)
        return false;
    ssize_t n = pread(fd, data, sizeof data, 0);
    close(fd);
    return n == sizeof data && smol_gguf_is(data, sizeof data);
}

bool smol_source_is_checkpoint(const char *path)
{
    return smol_is_folder(path) || smol_shards_is_index(path) || is_gguf(path);
}

/* Finds the weights in a folder: the first existing file, in the order of transformers
 * (modeling_utils.py). *path is NULL if there is none. */
static smol_status find_weights(const char *folder, char **path, smol_error *error)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *path = smol_path_join(folder, names[i]);
        if (!*path)
            return smol_fail_memory(error, "a file name");
        if (!smol_is_missing(*path))
            return SMOL_OK;
        free(*path);
        *path = NULL;
    }
    return SMOL_OK;
}

static smol_status fail_no_weights(const char *folder, smol_error *error)
{
    char name[FOREIGN_NAME];
    const char *kind = smol_foreign_in_folder(folder, name);
    if (kind)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: no model.safetensors or model.safetensors.index.json, only %s, %s",
                         folder, name, kind);
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%s: no model.safetensors or model.safetensors.index.json in it: name the "
                     "folder of a checkpoint",
                     folder);
}

/* Returns whether `text` has the form OWNER/NAME of a model on the Hub. */
static bool is_hub_name(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t owner = strspn(text, plain);
    const char *name = text + owner + 1;
    return owner > 0 && text[owner] == '/' && text[0] != '.' && name[0] && name[0] != '.' &&
           name[strspn(name, plain)] == '\0';
}

static smol_status check_exists(const char *input, smol_error *error)
{
    if (!is_hub_name(input) || !smol_is_missing(input))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%s: no such file or folder: to download this model from the Hugging Face "
                     "Hub, run smol-fetch %s",
                     input, input);
}

static smol_status open_weights(struct source *source, const char *input, bool whole,
                                smol_error *error)
{
    char *path = NULL;
    if (whole)
        return smol_shards_open_gguf(input, &source->shards, error);
    if (!smol_is_folder(input))
        return smol_shards_open(input, &source->shards, error);
    smol_status status = find_weights(input, &path, error);
    if (!status && !path)
        status = fail_no_weights(input, error);
    if (!status)
        status = smol_shards_open(path, &source->shards, error);
    free(path);
    return status;
}

/* Finds the folder of a checkpoint in the cache of the Hub. *snapshot is NULL if `input` is not a
 * folder of the cache. */
static smol_status find_snapshot(const char *input, char **snapshot, smol_error *error)
{
    char *path = NULL;
    *snapshot = NULL;
    if (!smol_is_folder(input))
        return SMOL_OK;
    smol_status status = find_weights(input, &path, error);
    if (!status && !path)
        status = smol_hub_snapshot(input, snapshot, error);
    free(path);
    return status;
}

/* Finds the folder of all files except the weights, which is that of config.json. `whole`: the
 * input is a GGUF file, which has the settings itself. */
static smol_status find_settings(struct source *source, const char *input, bool whole,
                                 const char *config, smol_error *error)
{
    bool beside = !config && smol_is_folder(input);
    if (whole && config)
        return smol_fail(
            error, SMOL_ERROR_USAGE,
            "--config: cannot be combined with a GGUF file, which has its own settings");
    source->folder = beside ? strdup(input) : smol_path_folder(config ? config : input);
    source->config_name = strdup(config  ? smol_base_name(config)
                                 : whole ? smol_base_name(input)
                                         : "config.json");
    return source->folder && source->config_name ? SMOL_OK : smol_fail_memory(error, "a file name");
}

/* Returns the dtype of a model whose matrices have a dtype. */
static enum blob_dtype arithmetic_of(enum blob_dtype dtype)
{
    return is_grouped(dtype) ? DTYPE_INT8 : dtype;
}

/* Writes "211 of 272 tensors: 166 Q5_0, 45 Q4_K": the tensors that were quantized already, in
 * blocks or with scales. Writes nothing if there are none. */
static void describe_quantized(const struct safetensors *all, char text[QUANTIZED_TEXT])
{
    size_t counts[N_ELEMENT_DTYPES] = {0}, n = 0, length;
    for (size_t i = 0; i < all->n_tensors; i++) {
        const struct safetensors_tensor *tensor = &all->tensors[i];
        bool is_quantized = smol_element_block(tensor->dtype).elements > 1 || tensor->scales.data;
        counts[tensor->dtype] += is_quantized;
        n += is_quantized;
    }
    if (n == 0)
        return;
    length = (size_t)snprintf(text, QUANTIZED_TEXT, "%zu of %zu tensors", n, all->n_tensors);
    const char *before = ": ";
    for (unsigned i = 0; i < N_ELEMENT_DTYPES; i++) {
        if (counts[i] == 0)
            continue;
        length += (size_t)snprintf(text + length, QUANTIZED_TEXT - length, "%s%zu %s", before,
                                   counts[i], smol_element_name((enum safetensors_dtype)i));
        before = ", ";
    }
}

/* Makes the embedder section, if the model needs one. */
static smol_status build_embedder(struct source *source, smol_error *error)
{
    bool ahead = source->config.encodes;
    free(source->embedder);
    source->embedder = NULL;
    source->n_embedder = 0;
    if (!source->embeds ||
        !smol_embedder_is_needed(&source->encoder.parts, &source->encoder.encoder, ahead))
        return SMOL_OK;
    return smol_embedder_build(&source->encoder.parts, &source->config.model, &source->embedder,
                               &source->n_embedder, error);
}

smol_status smol_source_set_dtype(struct source *source, enum blob_dtype dtype, smol_error *error)
{
    struct blob_model *model = &source->config.model;
    smol_mix_free(&source->mix);
    source->dtype = dtype;
    model->dtype = arithmetic_of(dtype);
    smol_status status = smol_mix_make(model, dtype, &source->mix, error);
    return status ? status : build_embedder(source, error);
}

static smol_status check_model(struct source *source, enum blob_dtype dtype, smol_error *error)
{
    smol_error reason;
    source->config.model.dtype = arithmetic_of(dtype);
    if (smol_model_check(&source->config.model, &reason))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "%s/%s: %s", source->folder,
                         source->config_name, reason.message);
    return smol_source_set_dtype(source, dtype, error);
}

/* Finds an encoder's embedding of types of tokens, whose first row belongs to every token. */
static smol_status find_types(struct source *source, smol_error *error)
{
    const char *name = source->config.family->types;
    if (!name)
        return SMOL_OK;
    const struct safetensors_tensor *types = smol_safetensors_find(&source->shards.all, name);
    source->types = types;
    if (types && types->rank == 2 && types->shape[0] > 0 &&
        types->shape[1] == source->config.model.hidden_size && smol_element_is_weight(types->dtype))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: tensor %s is missing, or not what config.json calls for",
                     source->shards.all.path, name);
}

/* Replaces the family with a copy that can be changed. */
static smol_status make_variant(struct source *source, smol_error *error)
{
    if (source->variant)
        return SMOL_OK;
    source->variant = malloc(sizeof *source->variant);
    if (!source->variant)
        return smol_fail_memory(error, "the family");
    *source->variant = *source->config.family;
    source->config.family = source->variant;
    return SMOL_OK;
}

/* Checks what an encoder, whose tokens see the whole text, cannot be. */
static smol_status check_ahead(const struct source *source, enum blob_dtype dtype,
                               smol_error *error)
{
    const struct blob_model *model = &source->config.model;
    if (model->context_length > ENCODER_MAX_CONTEXT)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s/%s: %u positions (max_position_embeddings): encoders of at most %d "
                         "positions are supported",
                         source->folder, source->config_name, model->context_length,
                         ENCODER_MAX_CONTEXT);
    if (dtype > DTYPE_INT8 || names_stats(source->calibration))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: an encoder: f32, bf16 and int8 are supported, without calibration",
                         source->folder);
    return SMOL_OK;
}

/* Takes the tokenizer's longest text as the model's, if the files of sentence-transformers state
 * none, as its version 6 writes them. */
static void limit_length(struct source *source)
{
    struct blob_encoder *encoder = &source->encoder.encoder;
    const json_t *most = json_object_get(source->tokenizer_config.object, "model_max_length");
    json_int_t value = json_is_integer(most) ? json_integer_value(most) : 0;
    if (!source->encoder.has_length && value > 0 && value < encoder->max_length)
        encoder->max_length = (uint32_t)value;
}

/* Makes a model of embeddings of a decoder: its output is not used. */
static smol_status drop_output(struct source *source, smol_error *error)
{
    smol_status status = make_variant(source, error);
    if (status)
        return status;
    source->variant->has_no_output = true;
    source->variant->lacks_norm_biases = !source->config.norm_biased;
    source->config.model.tied_embeddings = 1;
    if (source_is_gguf(source) && source->encoder.parts.n_dense > 0) { /* they have been read */
        source->variant->heads[0] = "dense_2.";
        source->variant->heads[1] = "dense_3.";
    }
    return SMOL_OK;
}

/* Checks that the modules suit the model's purpose. */
static smol_status check_modules(const struct source *source, smol_error *error)
{
    const struct encoder_config *encoder = &source->encoder;
    const char *remedy = NULL;
    if (encoder->has_answers && !source->config.score)
        remedy = "LogitScore: only Qwen3-Reranker is supported, with --reranker";
    else if (encoder->has_modules && !encoder->has_pooling && !source->config.score)
        remedy = "a model without a Pooling module has no embedding of a text";
    return remedy ? smol_fail(error, SMOL_ERROR_UNSUPPORTED, "%s/modules.json: %s", source->folder,
                              remedy)
                  : SMOL_OK;
}

/* Reads how a model makes embeddings, if that is its purpose. A decoder is one if it has the files
 * of sentence-transformers. */
static smol_status check_encoder(struct source *source, enum blob_dtype dtype, bool reranker,
                                 smol_error *error)
{
    struct config *config = &source->config;
    bool ahead = config->encodes;
    if (reranker)
        config->score = SCORE_LOGISTIC;
    if (reranker &&
        (!config->family->scorer || ahead || config->head == HEAD_NONE || source_is_gguf(source)))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--reranker: %s/%s: only for a checkpoint of Qwen3ForCausalLM",
                         source->folder, source->config_name);
    smol_status status = ahead ? check_ahead(source, dtype, error) : SMOL_OK;
    if (!status && source_is_gguf(source))
        status = smol_gguf_embedder(&source->shards.gguf, &source->shards.all, &config->model,
                                    &source->encoder, error);
    else if (!status)
        status = smol_encoder_read(source->folder, &config->model, &source->encoder, error);
    if (config->score && source->encoder.score)
        config->score = source->encoder.score;
    if (!status)
        status = check_modules(source, error);
    source->embeds = ahead || source->encoder.has_modules || config->score;
    if (!status && !source->embeds) {
        smol_embedder_close(&source->encoder.parts);
        source->encoder = (struct encoder_config){0};
        if (config->head == HEAD_NONE)
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                             "%s/%s: a model without an output layer, and without the modules.json "
                             "that says how it makes embeddings",
                             source->folder, source->config_name);
        return SMOL_OK;
    }
    limit_length(source);
    if (!status)
        status = drop_output(source, error);
    if (!status)
        source->encoder.encoder.norms_embedding =
            ahead && config->family->embedding_norm[0] && !config->family->layer_norm[0];
    if (!status && config->score)
        status = make_variant(source, error);
    if (!status && config->score)
        source->variant->scores = true;
    return status;
}

void smol_source_drop_positions(const struct family *family, uint64_t context_length, uint64_t n,
                                struct safetensors *all)
{
    uint64_t rows = context_length + n;
    for (size_t i = 0; i < all->n_tensors && n > 0; i++) {
        struct safetensors_tensor *tensor = &all->tensors[i];
        if (strcmp(tensor->name, family->names[ROLE_POSITIONS]) != 0 || tensor->rank != 2 ||
            tensor->shape[0] != rows)
            continue;
        uint64_t bytes = tensor->size / rows * n;
        tensor->scales.first += n * tensor->shape[1];
        tensor->shape[0] -= n;
        tensor->data += bytes;
        tensor->begin += bytes;
        tensor->size -= bytes;
    }
}

static smol_status map_tensors(struct source *source, smol_error *error)
{
    struct blob_model *model = &source->config.model;
    const struct config *config = &source->config;
    smol_status status = smol_nested_strip(config->family, config->nest, &source->shards.all,
                                           &source->skipped, error);
    if (!status)
        status = smol_scales_attach(&config->scales, &source->shards.all, error);
    if (!status)
        describe_quantized(&source->shards.all, source->quantized);
    if (!status)
        status = smol_fused_split(config->family, model, &source->shards.all, error);
    if (status)
        return status;
    smol_source_drop_positions(config->family, model->context_length, config->skipped_positions,
                               &source->shards.all);
    source->tensors = calloc(smol_tensor_count(model), sizeof(*source->tensors));
    if (!source->tensors)
        return smol_fail_memory(error, "the tensor list");
    status = smol_checkpoint_map(&source->shards.all, source->config.family, model, source->tensors,
                                 error);
    if (!status)
        status = find_types(source, error);
    return status;
}

static smol_status open_adapter(struct source *source, const struct option_texts *adapters,
                                smol_error *error)
{
    if (adapters->n == 0)
        return SMOL_OK;
    if (adapters->n > 1)
        return smol_fail(
            error, SMOL_ERROR_USAGE,
            "--lora: %zu adapters, but only one can be merged: merge the others with PEFT",
            adapters->n);
    return smol_lora_open(adapters->items[0], &source->config.model, source->tensors, &source->lora,
                          error);
}

/* Refuses a checkpoint that has a tokenizer, but no tokenizer.json. */
static smol_status check_tokenizer_file(const struct source *source, smol_error *error)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "vocab.json",
                                        "vocab.txt", "sentencepiece.bpe.model"};
    enum { N_NAMES = sizeof names / sizeof names[0] };
    size_t found = N_NAMES; /* the first that exists */
    for (size_t i = N_NAMES; i-- > 0;) {
        char *path = smol_path_join(source->folder, names[i]);
        if (!path)
            return smol_fail_memory(error, "a file name");
        found = smol_is_missing(path) ? found : i;
        free(path);
    }
    if (found == 0 || found == N_NAMES)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: no tokenizer.json, only %s: let transformers make one "
                     "(AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))",
                     source->folder, names[found]);
}

/* Opens tokenizer.json if it is not open yet, and checks that it is supported. */
static smol_status check_tokenizer(struct source *source, smol_error *error)
{
    struct json_settings *json = &source->tokenizer_json;
    smol_status status = SMOL_OK;
    if (!json->object)
        status = smol_settings_open(source->folder, "tokenizer.json", true, json, error);
    source->tokenizer_mark = json->mark;
    if (!status)
        status =
            smol_tokenizer_check_rules(json->object, json->path, &source->tokenizer_rules, error);
    return status ? status
                  : smol_normalizer_check_settings(json->object, json->path,
                                                   &source->tokenizer_config);
}

/* Returns whether an ordinary text may contain the token: it is not special, or it is put around
 * each text, or it stands for unknown characters. */
static bool occurs_in_texts(const struct text_rules *rules, const json_t *added, uint32_t id)
{
    const json_t *unknown =
        json_object_getn(rules->vocab, rules->unknown.data, rules->unknown.size);
    bool special = false, occurs = unknown && json_integer_value(unknown) == (json_int_t)id;
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        special = special || (json_is_true(json_object_get(token, "special")) &&
                              json_integer_value(json_object_get(token, "id")) == (json_int_t)id);
    }
    for (size_t i = 0; i < rules->n_before; i++)
        occurs = occurs || rules->before[i] == id;
    for (size_t i = 0; i < rules->n_after; i++)
        occurs = occurs || rules->after[i] == id;
    return occurs || !special;
}

/* Refuses positions that depend on the token of padding, which has none, where texts have it. */
static smol_status check_padding(const struct source *source, smol_error *error)
{
    uint32_t n = source->config.skipped_positions;
    const json_t *added = json_object_get(source->tokenizer_json.object, "added_tokens");
    if (n == 0 || !occurs_in_texts(&source->tokenizer_rules.text, added, n - 1))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s/%s: pad_token_id %u must be a special token that no text contains, "
                     "because it has no position in this family",
                     source->folder, source->config_name, n - 1);
}

static smol_status open_template(struct source *source, const struct source_options *options,
                                 smol_error *error)
{
    const struct chat_template_choice choice = {
        .folder = source_template_folder(source),
        .name = options->template_name,
        .file = options->template_file,
        .config = &source->tokenizer_config,
    };
    return smol_chat_template_open(&choice, &source->template, error);
}

smol_status smol_source_settle(const struct source *source, smol_status status, smol_error *error)
{
    status = file_settle(&source->lora.weights.file, source->lora.path, status, error);
    status = file_settle(&source->stats.file, source->stats.path, status, error);
    return smol_shards_settle(&source->shards, status, error);
}

smol_status smol_source_open_weights(const char *input, const struct source_options *options,
                                     struct source *source, smol_error *error)
{
    char *snapshot;
    *source = (struct source){0};
    smol_status status = check_exists(input, error);
    if (status)
        return status;
    status = find_snapshot(input, &snapshot, error);
    if (snapshot)
        input = snapshot;
    bool whole = !status && is_gguf(input);
    if (!status)
        status = find_settings(source, input, whole, options->config, error);
    if (!status) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): close frees what it finds */
        status = open_weights(source, input, whole, error);
    free(snapshot);
    if (status)
        smol_source_close(source);
    else
        describe_quantized(&source->shards.all, source->quantized);
    return status;
}

struct blob_contents smol_source_contents(const struct source *source)
{
    const struct config *config = &source->config;
    return (struct blob_contents){
        .model = &config->model,
        .inv_freq = config->inv_freq,
        .layers = config->layers,
        .stop = config->stop,
        .n_stop = config->n_stop,
        .generation = &config->generation,
        .text = source->tokenizer.text.data,
        .n_text = source->tokenizer.text.size,
        .tokenizer = source->tokenizer.data,
        .n_tokenizer = source->tokenizer.size,
        .scanner = source->tokenizer_rules.pretokenizer.scanner.data,
        .n_scanner = source->tokenizer_rules.pretokenizer.scanner.size,
        .template_section = source->template.section.data,
        .n_template = source->template.section.size,
        .encoder = source->embeds ? &source->encoder.encoder : NULL,
        .sees_ahead = config->encodes,
        .embedder = source->embedder,
        .n_embedder = source->n_embedder,
        .mix = source->mix,
    };
}

smol_status smol_source_config(const struct source *source, struct json_settings *config,
                               smol_error *error)
{
    if (source_is_gguf(source))
        return smol_gguf_config(&source->shards.gguf, &source->shards.all, config, error);
    return smol_settings_open(source->folder, source->config_name, true, config, error);
}

smol_status smol_source_tokenizer_config(const struct source *source, struct json_settings *config,
                                         smol_error *error)
{
    if (source_is_gguf(source))
        return smol_gguf_tokenizer_config(&source->shards.gguf, config, error);
    return smol_settings_open(source->folder, "tokenizer_config.json", false, config, error);
}

/* Makes the variant of the family whose tensors are as GGUF files have them. */
static smol_status adapt_family(struct source *source, smol_error *error)
{
    const struct gguf_arch *arch = smol_gguf_arch(&source->shards.gguf);
    smol_status status = make_variant(source, error);
    if (!status && arch) /* NULL: the file has changed since, which is reported later */
        smol_gguf_adapt(arch, source->variant);
    return status;
}

static smol_status open_gguf_settings(struct source *source, uint32_t context, smol_error *error)
{
    struct json_settings config = {0};
    smol_status status = smol_source_config(source, &config, error);
    if (!status)
        status = smol_source_tokenizer_config(source, &source->tokenizer_config, error);
    if (!status)
        status = smol_gguf_tokenizer(&source->shards.gguf, &source->tokenizer_json, error);
    if (!status)
        status = smol_config_read(&config, &source->tokenizer_config, &source->tokenizer_json,
                                  context, &source->config);
    smol_settings_close(&config);
    return status ? status : adapt_family(source, error);
}

/* Opens the settings that the model and its tokenizer have. */
static smol_status open_settings(struct source *source, uint32_t context, smol_error *error)
{
    if (source_is_gguf(source))
        return open_gguf_settings(source, context, error);
    smol_status status = check_tokenizer_file(source, error);
    return status ? status
                  : smol_config_open(source->folder, source->config_name, context, &source->config,
                                     &source->tokenizer_config, &source->tokenizer_json, error);
}

smol_status smol_source_open(const char *input, const struct source_options *options,
                             enum blob_dtype dtype, struct source *source, smol_error *error)
{
    smol_status status = smol_source_open_weights(input, options, source, error);
    source->calibration = options->calibration;
    if (!status)
        status = open_settings(source, options->context, error);
    if (!status)
        status = check_model(source, dtype, error);
    if (!status)
        status = check_encoder(source, dtype, options->reranker, error);
    if (!status)
        status = map_tensors(source, error);
    if (!status)
        status = open_adapter(source, &options->lora, error);
    if (!status)
        status = check_tokenizer(source, error);
    if (!status)
        status = check_padding(source, error);
    if (!status && source->config.score)
        status = smol_ranker_read(source, error);
    if (!status)
        status = build_embedder(source, error);
    if (!status)
        status = open_template(source, options, error);
    status = smol_source_settle(source, status, error);
    if (status)
        smol_source_close(source);
    return status;
}

smol_status smol_source_compile_tokenizer(struct source *source, smol_error *error)
{
    struct json_settings *json = &source->tokenizer_json;
    smol_status status =
        smol_tokenizer_compile(json->object, json->path, &source->tokenizer_rules,
                               source->config.model.vocab_size, &source->tokenizer, error);
    smol_settings_close(json); /* it is large */
    return status;
}

smol_status smol_source_open_tokenizer(const struct source *source, struct tokenizer_tables *tables,
                                       smol_error *error)
{
    const struct tokenizer_section *compiled = &source->tokenizer;
    const struct text_section *text = &compiled->text;
    const struct scanner_section *scanner = &source->tokenizer_rules.pretokenizer.scanner;
    struct text_tables rules;
    smol_status status =
        text->size ? smol_text_tables_open(text->data, text->size, &rules, error) : SMOL_OK;
    if (!status)
        status = smol_tokenizer_tables_open(compiled->data, compiled->size,
                                            source->config.model.vocab_size,
                                            text->size ? &rules : NULL, tables, error);
    if (!status && scanner->size)
        status = smol_scanner_tables_open(scanner->data, scanner->size, &tables->scanner, error);
    return status;
}

static bool is_file_in(const char *folder, const char *name, const char *path, bool *no_memory)
{
    char *file = smol_path_join(folder, name);
    bool same = file && smol_same_file(file, path);
    *no_memory = *no_memory || !file;
    free(file);
    return same;
}

/* Returns whether `path` is one of the JSON files of the folder and its modules. */
static bool is_setting(const struct source *source, const char *path, bool *no_memory)
{
    const char *const names[] = {source->config_name, "generation_config.json", "tokenizer.json",
                                 "tokenizer_config.json", "special_tokens_map.json"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !found; i++)
        found = is_file_in(source->folder, names[i], path, no_memory);
    for (size_t i = 0; i < N_ENCODER_FILES && !found; i++)
        found = source->encoder.files[i].name[0] &&
                is_file_in(source->folder, source->encoder.files[i].name, path, no_memory);
    return found;
}

/* Returns whether `path` is one of the two files of the adapter. */
static bool is_adapter(const struct lora *lora, const char *path, bool *no_memory)
{
    if (!lora->path)
        return false;
    char *folder = smol_path_folder(lora->path);
    bool found = smol_same_file(lora->path, path) ||
                 (folder && is_file_in(folder, "adapter_config.json", path, no_memory));
    *no_memory = *no_memory || !folder;
    free(folder);
    return found;
}

smol_status smol_source_check_output(const struct source *source,
                                     const struct source_options *options, const char *output,
                                     smol_error *error)
{
    bool no_memory = false, found = source->shards.path && smol_shards_has(&source->shards, output);
    if (!found && source->folder && !source_is_gguf(source))
        found = is_setting(source, output, &no_memory);
    found = found || is_adapter(&source->lora, output, &no_memory);
    for (size_t i = 0; i < N_CHAT_TEMPLATES && !found; i++)
        found = source->template.files[i].path &&
                smol_same_file(source->template.files[i].path, output);
    found = found || (options->template_file && smol_same_file(options->template_file, output)) ||
            (names_stats(options->calibration) && smol_same_file(options->calibration, output));
    if (found)
        return smol_fail(error, SMOL_ERROR_USAGE, "%s: is a file of the input: name another output",
                         output);
    return no_memory ? smol_fail_memory(error, "a file name") : SMOL_OK;
}

void smol_source_close(struct source *source)
{
    smol_shards_close(&source->shards);
    smol_lora_close(&source->lora);
    smol_settings_close(&source->tokenizer_config);
    smol_settings_close(&source->tokenizer_json);
    smol_tokenizer_section_free(&source->tokenizer);
    smol_tokenizer_rules_free(&source->tokenizer_rules);
    smol_chat_template_close(&source->template);
    smol_mix_free(&source->mix);
    smol_stats_close(&source->stats);
    smol_embedder_close(&source->encoder.parts);
    free(source->embedder);
    free(source->tensors);
    free(source->variant);
    free(source->config_name);
    free(source->folder);
    *source = (struct source){0};
}
