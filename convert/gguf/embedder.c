/* How the model of a GGUF file makes embeddings, see settings.h. */
#include <stdio.h>
#include <string.h>

#include "convert/gguf/maker.h"
#include "convert/gguf/settings.h"

/* Reads the kind of pooling, by its number in the format. */
static smol_status take_pooling(const struct maker *m, struct encoder_config *config)
{
    static const enum encoder_pooling poolings[] = {ENCODER_MEAN, ENCODER_FIRST, ENCODER_LAST};
    const struct gguf_value *value = smol_maker_find(m, "pooling_type");
    uint64_t kind = 0;
    config->has_modules = config->has_pooling = value;
    if (!value)
        return SMOL_OK;
    if (!smol_gguf_integer(value, &kind) || kind < 1 || kind > 3)
        return smol_maker_fail_value(m, value, "1 (mean), 2 (first token) or 3 (last token)");
    config->encoder.pooling = poolings[kind - 1];
    return SMOL_OK;
}

/* Adds the dense layers, which have numbers from 2 and no activation. */
static smol_status take_dense(const struct maker *m, const struct safetensors *tensors,
                              uint32_t inputs, struct embedder_parts *parts)
{
    bool ends = false;
    for (int number = 2; number <= 3; number++) {
        char name[32], bias[32];
        snprintf(name, sizeof name, "dense_%d.weight", number);
        snprintf(bias, sizeof bias, "dense_%d.bias", number);
        const struct safetensors_tensor *weight = smol_safetensors_find(tensors, name);
        ends = ends || !weight;
        if (ends)
            continue;
        smol_status status = smol_embedder_add_dense(
            parts, inputs, DENSE_IDENTITY, weight, smol_safetensors_find(tensors, bias), m->error);
        if (status)
            return status;
        inputs = parts->dense[parts->n_dense - 1].outputs;
    }
    return SMOL_OK;
}

smol_status smol_gguf_embedder(const struct gguf *gguf, const struct safetensors *tensors,
                               const struct blob_model *model, struct encoder_config *config,
                               smol_error *error)
{
    const struct maker m = {.gguf = gguf, .arch = smol_gguf_arch(gguf), .error = error};
    *config = (struct encoder_config){.encoder = {.max_length = model->context_length}};
    if (!m.arch) /* the file has changed since, which is reported later */
        return SMOL_OK;
    smol_status status = take_pooling(&m, config);
    config->encoder.normalizes = 1;
    if (!status)
        status = take_dense(&m, tensors, model->hidden_size, &config->parts);
    if (!status && config->parts.n_dense == 0 && strcmp(m.arch->name, "gemma-embedding") == 0)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: it lacks the dense layers that make the model's embeddings "
                         "(dense_2.weight, dense_3.weight): convert the original checkpoint",
                         gguf->path);
    return status;
}
