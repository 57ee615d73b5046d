/* Opens a checkpoint, see source.h. The cheap checks come first, so that unsupported input is
 * refused early. */
#include "convert/source.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/fused.h"
#include "convert/checkpoint/gguf_tensors.h"
#include "convert/gguf/settings.h"
#include "convert/ranker.h"
#include "format/layout.h"
#include "format/model.h"

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

/* --- settings --------------------------------------------------------------------------------- */

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

/* --- models of embeddings --------------------------------------------------------------------- */

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
    source->variant->lacks_norm_biases |= !source->config.norm_biased;
    if (source->config.lacks_types)
        source->variant->types = NULL;
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

/* --- the model -------------------------------------------------------------------------------- */

/* Returns the dtype of a model whose matrices have a dtype. */
static enum blob_dtype arithmetic_of(enum blob_dtype dtype)
{
    return is_grouped(dtype) ? DTYPE_INT8 : dtype;
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

/* --- tensors ---------------------------------------------------------------------------------- */

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
        tensor->shape[0] -= n;
        tensor->data += bytes;
        tensor->begin += bytes;
        tensor->size -= bytes;
    }
}

/* Finds an encoder's embedding of types of tokens, whose first row belongs to every token. */
static smol_status find_types(struct source *source, smol_error *error)
{
    const struct family *family = source->config.family;
    source->types = smol_checkpoint_types(&source->shards.all, family, &source->config.model);
    return source->types || !family->types
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%s: tensor %s is missing, or not what config.json calls for",
                           source->shards.all.path, family->types);
}

static smol_status map_tensors(struct source *source, smol_error *error)
{
    struct blob_model *model = &source->config.model;
    const struct config *config = &source->config;
    smol_status status = smol_nested_strip(config->family, config->nest != NULL,
                                           &source->shards.all, &source->skipped, error);
    if (!status)
        status = smol_scales_attach(&config->scales, &source->shards.all, error);
    if (!status)
        smol_scales_describe(&source->shards.all, source->quantized);
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
    return status ? status : find_types(source, error);
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

/* --- tokenizer and chat template -------------------------------------------------------------- */

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

/* --- opening and use -------------------------------------------------------------------------- */

smol_status smol_source_settle(const struct source *source, smol_status status, smol_error *error)
{
    status = file_settle(&source->lora.weights.file, source->lora.path, status, error);
    status = file_settle(&source->stats.file, source->stats.path, status, error);
    return smol_shards_settle(&source->shards, status, error);
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
