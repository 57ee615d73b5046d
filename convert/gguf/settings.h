/* Makes the settings of a checkpoint from the keys of a GGUF file: the objects that config.json and
 * tokenizer_config.json would hold. */
#ifndef SMOL_CONVERT_GGUF_SETTINGS_H
#define SMOL_CONVERT_GGUF_SETTINGS_H

#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/encoder.h"
#include "convert/checkpoint/gguf.h"

/* Makes the object of config.json. `tensors` are the file's, named by smol_gguf_name_tensors: they
 * tell what the keys leave open, such as biases and the factors of rotary embeddings. The caller
 * closes *config, also after an error. Errors: SMOL_ERROR_UNSUPPORTED (an architecture, or a key of
 * it that smolconv does not know), SMOL_ERROR_DAMAGED (a value of another type), SMOL_ERROR_MEMORY.
 */
smol_status smol_gguf_config(const struct gguf *gguf, const struct safetensors *tensors,
                             struct json_settings *config, smol_error *error);

/* Makes the object of tokenizer_config.json: the special tokens and the chat templates. */
smol_status smol_gguf_tokenizer_config(const struct gguf *gguf, struct json_settings *config,
                                       smol_error *error);

/* Reads how the model makes embeddings, if it does, as smol_encoder_read does: the kind of pooling,
 * and dense layers among the tensors. Like llama.cpp's programs, it normalizes them. Errors:
 * SMOL_ERROR_UNSUPPORTED (a kind of pooling, or no dense layers where the model has some),
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_gguf_embedder(const struct gguf *gguf, const struct safetensors *tensors,
                               const struct blob_model *model, struct encoder_config *config,
                               smol_error *error);

/* Makes the object of tokenizer.json. Errors: SMOL_ERROR_UNSUPPORTED (a kind of tokenizer, or a
 * pre-tokenizer, that cannot be stated exactly), SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_gguf_tokenizer(const struct gguf *gguf, struct json_settings *tokenizer,
                                smol_error *error);

#endif
