/* Collects and writes what an embedding model has beyond pooling: prompts, dense layers, and how
 * pairs of texts are scored (format/FORMAT.md, 5.16). */
#ifndef SMOL_CONVERT_EMBEDDER_H
#define SMOL_CONVERT_EMBEDDER_H

#include <stdbool.h>

#include "common/error.h"
#include "convert/base/json.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/safetensors.h"
#include "format/format.h"

/* A dense layer, whose numbers are owned. */
struct dense_layer {
    uint32_t inputs, outputs, activation; /* enum dense_activation */
    float *matrix;                        /* (outputs, inputs) */
    float *bias;                          /* (outputs), or NULL */
};

struct embedder_parts {
    json_t *prompts; /* an object of texts, owned, or NULL */
    char *default_prompt;
    struct dense_layer dense[EMBEDDER_MAX_DENSE];
    size_t n_dense;
    enum embedder_score score;
    enum embedder_pair pair;
    const char *texts[3]; /* of PAIR_TEXTS; static */
    uint32_t separator;   /* of PAIR_SEPARATED */
    float *types;         /* (hidden_size), owned, or NULL */
};

/* Reads `prompts` and `default_prompt_name`. Prompts that are all empty count as none. Errors:
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (more than fit). */
smol_status smol_embedder_prompts(const struct json_settings *settings,
                                  struct embedder_parts *parts);

/* Reads the class of PyTorch that makes a score of a number: Sigmoid or Identity. *score stays
 * unchanged if the key is absent or null. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_embedder_activation(const struct json_settings *settings, const char *key,
                                     enum embedder_score *score);

/* Adds a dense layer of `weight` (rank 2) and `bias` (or NULL), after checking their shapes: the
 * inputs must be those given. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_embedder_add_dense(struct embedder_parts *parts, uint32_t inputs,
                                    enum dense_activation activation,
                                    const struct safetensors_tensor *weight,
                                    const struct safetensors_tensor *bias, smol_error *error);

/* Returns whether a blob needs the section at all. */
bool smol_embedder_is_needed(const struct embedder_parts *parts, const struct blob_encoder *encoder,
                             bool sees_ahead);

/* Makes the section for a model whose dtype is set. The caller frees *data. Errors:
 * SMOL_ERROR_UNSUPPORTED (a number that bf16 cannot hold), SMOL_ERROR_MEMORY. */
smol_status smol_embedder_build(const struct embedder_parts *parts, const struct blob_model *model,
                                uint8_t **data, size_t *size, smol_error *error);

void smol_embedder_close(struct embedder_parts *parts);

#endif
