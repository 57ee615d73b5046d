/* Reads the model that config.json, generation_config.json and tokenizer_config.json describe, with
 * all defaults resolved. */
#ifndef SMOL_CONVERT_CONFIG_H
#define SMOL_CONVERT_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/scales.h"
#include "convert/families/family.h"
#include "format/layout.h"
#include "format/model.h"

enum { CONFIG_MAX_STOP = 64 };

/* The list of factors that the conversion uses for a model with rope_type longrope. */
enum longrope { LONGROPE_NONE, LONGROPE_SHORT, LONGROPE_LONG };

enum config_file { CONFIG_JSON, GENERATION_JSON, TOKENIZER_CONFIG_JSON, N_CONFIG_FILES };

/* The part of a model after its layers. */
enum config_head { HEAD_OUTPUT, HEAD_NONE, HEAD_SCORE };

struct config {
    const struct family *family;
    const struct nest *nest; /* the model that contains this one, see nested.h, or NULL */
    enum config_head head;
    enum embedder_score score; /* of HEAD_SCORE, with the next two of an encoder's */
    enum encoder_pooling score_pooling;
    uint32_t score_biased;            /* the layer before the classifier has a bias */
    struct blob_model model;          /* .dtype is 0; .tied_embeddings as in config.json */
    uint8_t layers[MODEL_MAX_LAYERS]; /* (n_layers): bits of enum layer_bit */
    float inv_freq[MAX_HEAD_DIM];     /* (n_rope_tables, rotary_dim / 2) */
    uint32_t max_positions;           /* max_position_embeddings, without skipped_positions */
    uint32_t skipped_positions;       /* the first rows of learned positions, which have no use */
    uint32_t wanted_context;          /* --context; 0: none */
    enum longrope longrope;
    bool encodes;              /* each token sees the whole text */
    bool norm_biased;          /* LayerNorms have biases in the checkpoint */
    bool lacks_types;          /* no type is added to tokens, whatever the family's .types */
    struct scale_rules scales; /* of weights that are quantized already */
    struct blob_generation generation;
    /* The union of the eos ids of config.json, generation_config.json and tokenizer_config.json,
     * ascending, without duplicates. */
    uint32_t stop[CONFIG_MAX_STOP];
    size_t n_stop;
    struct json_mark marks[N_CONFIG_FILES];
};

/* Reads config.json (required; `name` is its file name), generation_config.json and
 * tokenizer_config.json (both optional) in `folder`. tokenizer_config.json stays open as
 * *tokenizer_config. If it names a token by its text, tokenizer.json is opened to look up the id,
 * and stays open as *tokenizer; otherwise tokenizer->object is NULL. No file is read twice, because
 * it could change in between.
 *
 * `context` is the expected length of texts in tokens, 0 if unknown. It matters only for rope_type
 * longrope: a length above original_max_position_embeddings selects the long factors. The model's
 * context_length is then the length that the factors are made for.
 *
 * The caller closes *tokenizer_config and *tokenizer, also after an error. Messages name file, key
 * and value. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (a value of the wrong type or range, or
 * one that contradicts another key), SMOL_ERROR_UNSUPPORTED (a valid value that smol does not
 * support: an architecture, a rope_type, an activation), SMOL_ERROR_MEMORY. */
smol_status smol_config_open(const char *folder, const char *name, uint32_t context,
                             struct config *config, struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, smol_error *error);

/* Reads the same from settings that are open already: *config_json, *tokenizer_config and, to look
 * up ids, *tokenizer. Without generation_config.json. */
smol_status smol_config_read(const struct json_settings *config_json,
                             const struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, uint32_t context,
                             struct config *config);

#endif
