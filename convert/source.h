/* An open checkpoint: all inputs of a blob, read and checked. */
#ifndef SMOL_CONVERT_SOURCE_H
#define SMOL_CONVERT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cli/options.h"
#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/blob/writer.h"
#include "convert/calibration/stats_file.h"
#include "convert/checkpoint/config.h"
#include "convert/checkpoint/encoder.h"
#include "convert/checkpoint/lora.h"
#include "convert/checkpoint/nested.h"
#include "convert/checkpoint/shards.h"
#include "convert/template/template.h"
#include "convert/tokenizer/tokenizer.h"
#include "convert/weights/mix.h"
#include "format/format.h"
#include "format/tokenizer.h"

/* Options for reading a checkpoint. If zeroed, the checkpoint is read without changes. */
struct source_options {
    const char *config;       /* another path of config.json, or NULL */
    struct option_texts lora; /* adapters to merge, see smol_lora_open; at most one */
    uint32_t context; /* expected length of texts in tokens, see smol_config_open; 0: unknown */
    const char *template_name; /* the name of the chat template, or NULL: "default" */
    const char *template_file; /* a file that replaces the chat template, or NULL */
    int reranker;              /* 1: the checkpoint is a decoder that scores pairs, by yes and no */
    const char *calibration;   /* statistics (format/STATS.md) for int8 to int4; "none"; or NULL:
                                  for int6 to int4 they are estimated from the weights */
};

/* Returns whether the option names a file of statistics. */
static inline bool names_stats(const char *calibration)
{
    return calibration && strcmp(calibration, "none") != 0;
}

struct source {
    char *folder;      /* of config.json and the other JSON files */
    char *config_name; /* "config.json", or the file name in --config */
    struct shards shards;
    struct config config;
    struct family *variant;                /* config.family, changed for this source, or NULL */
    struct json_settings tokenizer_config; /* open, for the chat template */
    struct json_settings tokenizer_json;   /* open until it is compiled */
    struct json_mark tokenizer_mark;       /* of tokenizer.json */
    struct tokenizer_rules tokenizer_rules;
    struct encoder_config encoder; /* of a model of embeddings */
    bool embeds;                   /* it is one */
    uint8_t *embedder;             /* (n_embedder), its embedder section, if it needs one */
    size_t n_embedder;
    struct skipped_tensors skipped;
    char quantized[QUANTIZED_TEXT]; /* how many tensors of the file were already, or empty */
    const struct safetensors_tensor *types;    /* an encoder's types of tokens, or NULL */
    struct tokenizer_section tokenizer;        /* empty until it is compiled */
    struct chat_template template;             /* see template.h */
    const struct safetensors_tensor **tensors; /* (smol_tensor_count), see checkpoint.h */
    struct lora lora;                          /* zeroed if there is none */
    enum blob_dtype dtype;                     /* of the blob: that of most weights of the layers */
    struct mix mix;                            /* see smol_source_set_dtype */
    const char *calibration;                   /* of the options */
    struct stats_file stats;                   /* zeroed without calibration */
};

/* Returns whether the statistics are estimated from the weights. int8 measures no better with such
 * an estimate. */
static inline bool source_estimates(const struct source *source)
{
    return !source->calibration && source->dtype > DTYPE_INT8;
}

/* Opens `input` for a blob of `dtype`. `input` is a checkpoint's folder, a model's folder in the
 * cache of the Hub (see hub.h), the model.safetensors or model.safetensors.index.json of a
 * checkpoint, or a GGUF file. Checks everything except the tokenizer's tables and the elements of
 * tensors. After an error the source is closed. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY, SMOL_ERROR_USAGE (a choice of revisions, or several
 * adapters). */
smol_status smol_source_open(const char *input, const struct source_options *options,
                             enum blob_dtype dtype, struct source *source, smol_error *error);

/* Changes the dtype of the blob, and with it source->mix. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_source_set_dtype(struct source *source, enum blob_dtype dtype, smol_error *error);

/* Performs only the first step of smol_source_open, to describe checkpoints that are not supported:
 * opens the weights and finds the folder of the settings. The other fields are zeroed. */
smol_status smol_source_open_weights(const char *input, const struct source_options *options,
                                     struct source *source, smol_error *error);

/* Returns the contents of the blob except its weights and provenance. The pointers point into the
 * source. */
struct blob_contents smol_source_contents(const struct source *source);

/* Leaves out the first `n` rows of an encoder's positions, which no token of a text has, if there
 * are `n` more than context_length. */
void smol_source_drop_positions(const struct family *family, uint64_t context_length, uint64_t n,
                                struct safetensors *all);

/* Returns whether `path` can only be a checkpoint: a folder, an index or a GGUF file. */
bool smol_source_is_checkpoint(const char *path);

/* Returns whether the source is a GGUF file, whose settings are in the file itself. */
static inline bool source_is_gguf(const struct source *source)
{
    return source->shards.gguf.version > 0;
}

/* Opens the settings config.json of the source, and its tokenizer_config.json if there is one. A
 * GGUF file's are made from its keys. The caller closes them, also after an error. */
smol_status smol_source_config(const struct source *source, struct json_settings *config,
                               smol_error *error);
smol_status smol_source_tokenizer_config(const struct source *source, struct json_settings *config,
                                         smol_error *error);

/* Returns the folder in which the source has templates, or NULL. */
static inline const char *source_template_folder(const struct source *source)
{
    return source_is_gguf(source) ? NULL : source->folder;
}

/* Fills source->tokenizer and closes tokenizer.json. May be called once. Errors:
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_source_compile_tokenizer(struct source *source, smol_error *error);

/* Opens the compiled tokenizer as the reader of a blob does. */
smol_status smol_source_open_tokenizer(const struct source *source, struct tokenizer_tables *tables,
                                       smol_error *error);

/* Returns the result of a step that read the tensors and ended with `status`, see file_settle. */
smol_status smol_source_settle(const struct source *source, smol_status status, smol_error *error);

/* Checks that `output` is none of the files that were opened: renaming over it would destroy the
 * input. Errors: SMOL_ERROR_USAGE, SMOL_ERROR_MEMORY. */
smol_status smol_source_check_output(const struct source *source,
                                     const struct source_options *options, const char *output,
                                     smol_error *error);

/* Closes the files and frees the memory. A zeroed source is allowed. */
void smol_source_close(struct source *source);

#endif
