/* Reads how an encoder makes embeddings, from the files that sentence-transformers adds to a
 * checkpoint. */
#ifndef SMOL_CONVERT_ENCODER_H
#define SMOL_CONVERT_ENCODER_H

#include "common/error.h"
#include "convert/base/json.h"
#include "convert/checkpoint/embedder.h"
#include "format/format.h"

enum encoder_file {
    MODULES_JSON,
    POOLING_JSON,
    SENTENCE_JSON,
    PROMPTS_JSON,
    ANSWERS_JSON,
    DENSE_JSON,                                      /* and the next ones */
    DENSE_WEIGHTS = DENSE_JSON + EMBEDDER_MAX_DENSE, /* and the next ones */
    N_ENCODER_FILES = DENSE_WEIGHTS + EMBEDDER_MAX_DENSE
};

struct encoder_config {
    struct blob_encoder encoder;
    struct embedder_parts parts; /* owned */
    bool has_modules;            /* modules.json exists */
    bool has_pooling;            /* it has a Pooling module */
    bool has_answers;            /* it has a LogitScore module */
    uint32_t answers[2];         /* the tokens of yes and of no that it states, or NO_TOKEN */
    enum embedder_score score;   /* what a reranker's files state; SCORE_NONE: nothing */
    bool has_length;             /* the files state the longest text */
    struct {
        struct json_mark mark; /* zeroed for a file that is missing */
        char name[96];         /* below the folder */
    } files[N_ENCODER_FILES];
};

/* Reads modules.json, the configurations of its modules, sentence_bert_config.json (or one of its
 * older names) and config_sentence_transformers.json in `folder`, all optional: without them
 * embeddings are means, as in sentence-transformers. Refuses modules other than Transformer,
 * Pooling, Dense, Normalize and LogitScore, in this order. Close the config with
 * smol_embedder_close, also after an error. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_encoder_read(const char *folder, const struct blob_model *model,
                              struct encoder_config *config, smol_error *error);

#endif
