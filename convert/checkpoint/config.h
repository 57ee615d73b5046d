/* The model that a checkpoint's JSON files describe, with every default resolved:
 * config.json, generation_config.json, tokenizer_config.json. */
#ifndef SMOL_CONVERT_CONFIG_H
#define SMOL_CONVERT_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/family.h"
#include "format/layout.h"
#include "format/model.h"

enum { CONFIG_MAX_STOP = 64 };

/* Which of its two lists of factors a model with rope_type longrope is converted with. */
enum longrope { LONGROPE_NONE, LONGROPE_SHORT, LONGROPE_LONG };

enum config_file { CONFIG_JSON, GENERATION_JSON, TOKENIZER_CONFIG_JSON, N_CONFIG_FILES };

struct config {
    const struct family *family;
    struct blob_model model; /* .dtype is left 0; .tied_embeddings is what the config says */
    uint8_t layers[MODEL_MAX_LAYERS]; /* (n_layers): bits of enum layer_bit */
    float inv_freq[MAX_HEAD_DIM];     /* (n_rope_tables, rotary_dim / 2) */
    uint32_t max_positions;           /* max_position_embeddings */
    uint32_t wanted_context;          /* --context; 0: none */
    enum longrope longrope;
    struct blob_generation generation;
    /* The union of the eos ids of config.json, generation_config.json and tokenizer_config.json,
     * ascending, without duplicates. */
    uint32_t stop[CONFIG_MAX_STOP];
    size_t n_stop;
    struct json_mark marks[N_CONFIG_FILES];
};

/* Reads config.json (required; `name` is what it is called), generation_config.json and
 * tokenizer_config.json (optional) in `folder`. The last stays open as *tokenizer_config. A token's
 * name in it is looked up in tokenizer.json, which then stays open as *tokenizer, to be compiled;
 * its object is NULL where there was no need. No file is read twice, as it might have changed.
 * `context` is what texts may come to: with rope_type longrope, more than
 * original_max_position_embeddings takes the long factors, and the model's context_length is what
 * its factors are good for. The caller closes both, after an error too. Every complaint names file,
 * key and value. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED (not what its key calls for, or
 * contradicting another key), SMOL_ERROR_UNSUPPORTED (meaningful, but not something we run: an
 * architecture, a rope_type, an activation), SMOL_ERROR_MEMORY. */
smol_status smol_config_open(const char *folder, const char *name, uint32_t context,
                             struct config *config, struct json_settings *tokenizer_config,
                             struct json_settings *tokenizer, smol_error *error);

#endif
