/* Reads how a reranker scores a pair of texts, see ranker.h. */
#include "convert/ranker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/tensor.h"

static smol_status find(const struct source *source, const char *name,
                        const struct safetensors_tensor **tensor, smol_error *error)
{
    *tensor = smol_safetensors_find(&source->shards.all, name);
    return *tensor ? SMOL_OK
                   : smol_fail(error, SMOL_ERROR_DAMAGED,
                               "%s: tensor %s is missing: config.json calls for it",
                               source->shards.all.path, name);
}

/* --- encoders ------------------------------------------------------------------------------- */

/* Returns whether a piece of a template is that token, or, if it is NULL, the text `text`. A type
 * below 0 stands for any. */
static bool is_piece(const json_t *piece, const json_t *token, const char *text, int type)
{
    const json_t *part = json_object_get(piece, token ? "SpecialToken" : "Sequence");
    const char *id = json_string_value(json_object_get(part, "id"));
    const char *wanted = token ? json_string_value(token) : text;
    return id && wanted && strcmp(id, wanted) == 0 &&
           (type < 0 || json_integer_value(json_object_get(part, "type_id")) == type);
}

/* Returns how a template puts a pair together, of the pieces before the text A and `n` more. */
static enum embedder_pair form_of(const json_t *pieces, size_t before, const int types[2])
{
    size_t n = json_array_size(pieces);
    const json_t *end = json_object_get(
        json_object_get(json_array_get(pieces, n ? n - 1 : 0), "SpecialToken"), "id");
    size_t n_between = n >= before + 3 ? n - before - 3 : 0;
    bool fits = end && (n_between == 1 || n_between == 2) &&
                is_piece(json_array_get(pieces, before), NULL, "A", types[0]) &&
                is_piece(json_array_get(pieces, n - 2), NULL, "B", types[1]) &&
                is_piece(json_array_get(pieces, n - 1), end, NULL, types[1]);
    for (size_t i = 0; i < n_between && fits; i++)
        fits = is_piece(json_array_get(pieces, before + 1 + i), end, NULL, types[0]);
    return !fits ? PAIR_NONE : n_between == 1 ? PAIR_SEPARATED : PAIR_DOUBLED;
}

/* Returns how the tokenizer puts a pair together: tokens before, a text, the separator once or
 * twice, the other text, the separator. If the model tells types of tokens apart, the second one
 * begins with the other text or, where a model knows only the first, nowhere. PAIR_NONE: in another
 * way. */
static enum embedder_pair pair_of(const struct source *source)
{
    const struct safetensors_tensor *rows = source->types;
    bool second = source->config.family->types_pairs;
    bool typed = rows && (second || rows->shape[0] > 1);
    const int types[2] = {typed ? 0 : -1, typed ? second : -1};
    const struct text_rules *rules = &source->tokenizer_rules.text;
    const json_t *processor = json_object_get(source->tokenizer_json.object, "post_processor");
    const char *type = json_string_value(json_object_get(processor, "type"));
    if (rules->n_after != 1 || !type)
        return PAIR_NONE;
    if (strcmp(type, "BertProcessing") == 0)
        return types[1] ? PAIR_SEPARATED : PAIR_NONE;
    if (strcmp(type, "RobertaProcessing") == 0)
        return types[1] == 1 ? PAIR_NONE : PAIR_DOUBLED;
    if (strcmp(type, "TemplateProcessing") != 0)
        return PAIR_NONE;
    return form_of(json_object_get(processor, "pair"), rules->n_before, types);
}

/* Takes what the second text's tokens have instead of the first type. */
static smol_status take_types(struct source *source, smol_error *error)
{
    const struct safetensors_tensor *types = source->types;
    size_t n = source->config.model.hidden_size;
    float *rows = types->shape[0] > 1 ? calloc(2 * n, sizeof *rows) : NULL;
    if (types->shape[0] < 2)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tensor %s has one row: a reranker needs two types of tokens",
                         types->path, types->name);
    if (!rows)
        return smol_fail_memory(error, "types of tokens");
    source->encoder.parts.types = rows;
    tensor_widen(types, 0, 2 * n, rows);
    for (size_t i = 0; i < n; i++) {
        rows[i] = rows[n + i] - rows[i];
        if (!f32_is_finite(rows[i]))
            return smol_fail(error, SMOL_ERROR_DAMAGED,
                             "%s: tensor %s: element %zu is not finite: the checkpoint is broken",
                             types->path, types->name, i);
    }
    return SMOL_OK;
}

/* Finds a vector of hidden_size numbers. */
static smol_status find_vector(const struct source *source, const char *name,
                               const struct safetensors_tensor **tensor, smol_error *error)
{
    const struct safetensors_tensor *found = smol_safetensors_find(&source->shards.all, name);
    if (!found)
        return find(source, name, tensor, error);
    *tensor = found;
    return found->rank == 1 && smol_element_is_weight(found->dtype) &&
                   found->shape[0] == source->config.model.hidden_size
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%s: tensor %s has a shape or type other than config.json calls for",
                           found->path, name);
}

/* Merges weight and bias (or NULL) of a norm with the layer after it, which has a bias. */
static smol_status fold_norm(const struct safetensors_tensor *weight,
                             const struct safetensors_tensor *bias, struct dense_layer *dense,
                             smol_error *error)
{
    bool finite = true;
    for (size_t row = 0; row < dense->outputs; row++) {
        double sum = (double)dense->bias[row];
        for (size_t col = 0; col < dense->inputs; col++) {
            float *element = &dense->matrix[row * dense->inputs + col], scale, offset = 0;
            tensor_widen(weight, col, 1, &scale);
            if (bias)
                tensor_widen(bias, col, 1, &offset);
            sum += (double)*element * (double)offset;
            *element *= scale;
            finite = finite && f32_is_finite(*element);
        }
        dense->bias[row] = (float)sum;
        finite = finite && f32_is_finite(dense->bias[row]);
    }
    return finite ? SMOL_OK
                  : smol_fail(error, SMOL_ERROR_DAMAGED,
                              "%s: tensor %s: not finite, or too large: the checkpoint is broken",
                              weight->path, weight->name);
}

/* Adds layer `i` of the score: its weight and, unless it has none, its bias. *weight is the former.
 */
static smol_status add_layer(struct source *source, size_t i, bool biased,
                             const struct safetensors_tensor **weight, smol_error *error)
{
    const struct family *family = source->config.family;
    struct embedder_parts *parts = &source->encoder.parts;
    const struct safetensors_tensor *bias = NULL;
    uint32_t inputs = i > 0 ? parts->dense[i - 1].outputs : source->config.model.hidden_size;
    enum dense_activation activation = i > 0 ? DENSE_IDENTITY : family->score_activation;
    char name[MAX_CHECKPOINT_NAME];
    snprintf(name, sizeof name, "%s.weight", family->score_layers[i]);
    smol_status status = find(source, name, weight, error);
    snprintf(name, sizeof name, "%s.bias", family->score_layers[i]);
    if (!status && biased)
        status = find(source, name, &bias, error);
    return status ? status
                  : smol_embedder_add_dense(parts, inputs, activation, *weight, bias, error);
}

/* ModernBERT's norm, between the layers. */
static smol_status read_norm(struct source *source, smol_error *error)
{
    const struct safetensors_tensor *norm = NULL, *bias = NULL;
    smol_status status = find_vector(source, "head.norm.weight", &norm, error);
    if (!status && source->config.norm_biased)
        status = find_vector(source, "head.norm.bias", &bias, error);
    return status ? status : fold_norm(norm, bias, &source->encoder.parts.dense[1], error);
}

/* Reads the layer before the classifier, and that. */
static smol_status read_layers(struct source *source, smol_error *error)
{
    const struct config *config = &source->config;
    const struct family *family = config->family;
    const struct safetensors_tensor *dense = NULL, *classifier = NULL;
    bool biased = !family->norms_score || config->score_biased;
    smol_status status = add_layer(source, 0, biased, &dense, error);
    if (!status && source->encoder.parts.dense[0].outputs != config->model.hidden_size)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: tensor %s has a shape other than config.json calls for", dense->path,
                         dense->name);
    if (!status)
        status = add_layer(source, 1, true, &classifier, error);
    if (!status && family->norms_score)
        status = read_norm(source, error);
    return !status && family->types_pairs ? take_types(source, error) : status;
}

static smol_status read_encoder(struct source *source, smol_error *error)
{
    struct embedder_parts *parts = &source->encoder.parts;
    parts->pair = pair_of(source);
    if (parts->pair == PAIR_NONE)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: post_processor: pairs of texts other than BERT's and RoBERTa's are "
                         "not supported",
                         source->tokenizer_json.path);
    parts->separator = source->tokenizer_rules.text.after[0];
    source->encoder.encoder.pooling = source->config.score_pooling;
    return read_layers(source, error);
}

/* --- decoders that answer yes or no ---------------------------------------------------------- */

/* The text that Qwen3-Reranker's authors publish for it. */
#define QWEN3_TASK "Given a web search query, retrieve relevant passages that answer the query"
static const char *const qwen3_texts[3] = {
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: " QWEN3_TASK "\n<Query>: ",
    "\n<Document>: ",
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
};

static smol_status token_id(const struct source *source, const char *text, uint32_t *id,
                            smol_error *error)
{
    const json_t *model = json_object_get(source->tokenizer_json.object, "model");
    const json_t *value = json_object_get(json_object_get(model, "vocab"), text);
    *id = (uint32_t)json_integer_value(value);
    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        json_integer_value(value) < source->config.model.vocab_size)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: no token \"%s\": a reranker of this family answers yes or no",
                     source->tokenizer_json.path, text);
}

/* Checks that the tokens which modules.json names, if any, are these. */
static smol_status check_answers(const struct source *source, const uint32_t ids[2],
                                 smol_error *error)
{
    const struct encoder_config *encoder = &source->encoder;
    if (!encoder->has_answers || memcmp(encoder->answers, ids, sizeof encoder->answers) == 0)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s/%s: true_token_id and false_token_id must be those of yes and no, %u and "
                     "%u: only Qwen3-Reranker is supported",
                     source->folder, encoder->files[ANSWERS_JSON].name, ids[0], ids[1]);
}

/* Makes a layer of one output of two rows of the output matrix: the score of `yes` above that of
 * `no`. */
static smol_status subtract_rows(struct source *source, const uint32_t ids[2], smol_error *error)
{
    const struct family *family = source->config.family;
    size_t n = source->config.model.hidden_size;
    const struct safetensors_tensor *output =
        smol_safetensors_find(&source->shards.all, family->names[ROLE_OUTPUT]);
    smol_status status = SMOL_OK;
    if (!output)
        status = find(source, family->names[ROLE_EMBED], &output, error);
    if (status)
        return status;
    if (output->rank != 2 || output->shape[1] != n || !smol_element_is_weight(output->dtype) ||
        output->shape[0] != source->config.model.vocab_size)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: tensor %s has a shape or type other than config.json calls for",
                         output->path, output->name);
    float *rows = calloc(2 * n, sizeof *rows);
    if (!rows)
        return smol_fail_memory(error, "the score");
    for (size_t i = 0; i < 2; i++)
        tensor_widen(output, ids[i] * n, n, rows + i * n);
    for (size_t i = 0; i < n; i++)
        rows[i] -= rows[n + i];
    const struct safetensors_tensor layer = {.name = output->name,
                                             .path = output->path,
                                             .dtype = ST_F32,
                                             .rank = 2,
                                             .shape = {1, n},
                                             .data = (const uint8_t *)rows};
    status = smol_embedder_add_dense(&source->encoder.parts, (uint32_t)n, DENSE_IDENTITY, &layer,
                                     NULL, error);
    free(rows);
    return status;
}

static smol_status read_decoder(struct source *source, smol_error *error)
{
    struct embedder_parts *parts = &source->encoder.parts;
    const struct safetensors_tensor *head = NULL;
    uint32_t ids[2] = {0};
    smol_status status = SMOL_OK;
    parts->pair = PAIR_TEXTS;
    memcpy(parts->texts, qwen3_texts, sizeof qwen3_texts);
    source->encoder.encoder.pooling = ENCODER_LAST;
    if (source->config.head == HEAD_SCORE) {
        status = find(source, "score.weight", &head, error);
        return status ? status
                      : smol_embedder_add_dense(parts, source->config.model.hidden_size,
                                                DENSE_IDENTITY, head, NULL, error);
    }
    status = token_id(source, "yes", &ids[0], error);
    if (!status)
        status = token_id(source, "no", &ids[1], error);
    if (!status)
        status = check_answers(source, ids, error);
    return status ? status : subtract_rows(source, ids, error);
}

/* Refuses a prompt that belongs before each query, unless it is in the text of the model anyway. */
static smol_status check_prompt(const struct source *source, smol_error *error)
{
    const struct embedder_parts *parts = &source->encoder.parts;
    const char *name = parts->default_prompt;
    const char *text = name ? json_string_value(json_object_get(parts->prompts, name)) : NULL;
    if (!text || !*text || (parts->pair == PAIR_TEXTS && strcmp(text, QWEN3_TASK) == 0))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s/%s: default_prompt_name is \"%.48s\": a prompt of a reranker is not "
                     "supported",
                     source->folder, source->encoder.files[PROMPTS_JSON].name, name);
}

smol_status smol_ranker_read(struct source *source, smol_error *error)
{
    struct embedder_parts *parts = &source->encoder.parts;
    if (parts->n_dense > 0 || source->encoder.encoder.normalizes)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s/modules.json: a reranker with Dense or Normalize modules is not "
                         "supported",
                         source->folder);
    parts->score = source->config.score;
    smol_status status =
        source->config.encodes ? read_encoder(source, error) : read_decoder(source, error);
    if (!status)
        status = check_prompt(source, error);
    if (!status && parts->dense[parts->n_dense - 1].outputs != 1)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: a model of %u labels: one is supported, the score", source->folder,
                         parts->dense[parts->n_dense - 1].outputs);
    return status;
}
