/* Reads how an encoder makes embeddings, from the files that sentence-transformers adds to a
 * checkpoint. */
#ifndef SMOL_CONVERT_ENCODER_H
#define SMOL_CONVERT_ENCODER_H

#include "common/error.h"
#include "convert/base/json.h"
#include "format/format.h"

enum encoder_file { MODULES_JSON, POOLING_JSON, SENTENCE_JSON, N_ENCODER_FILES };

struct encoder_config {
    struct blob_encoder encoder;
    struct json_mark marks[N_ENCODER_FILES]; /* of the files; zeroed for those that are missing */
    char pooling_name[64];                   /* of the file below the folder */
};

/* Reads modules.json, the configuration of its pooling module and sentence_bert_config.json in
 * `folder`, all optional: without them embeddings are means, as in sentence-transformers. Refuses
 * modules other than Transformer, Pooling and Normalize, in this order. Errors: SMOL_ERROR_FILE,
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_encoder_read(const char *folder, const struct blob_model *model,
                              struct encoder_config *config, smol_error *error);

#endif
