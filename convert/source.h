/* A checkpoint that is open: all that a blob is made of, read and checked. */
#ifndef SMOL_CONVERT_SOURCE_H
#define SMOL_CONVERT_SOURCE_H

#include <stdint.h>

#include "cli/options.h"
#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/blob/writer.h"
#include "convert/checkpoint/config.h"
#include "convert/checkpoint/lora.h"
#include "convert/checkpoint/shards.h"
#include "convert/template/template.h"
#include "convert/tokenizer/tokenizer.h"
#include "format/format.h"
#include "format/tokenizer.h"

/* How a checkpoint is read; zeroed: as it lies there. */
struct source_options {
    const char *config;        /* config.json elsewhere, or NULL */
    struct option_texts lora;  /* an adapter to merge, see smol_lora_open; one at most */
    uint32_t context;          /* texts of up to how many tokens the blob is for, see
                                  smol_config_open; 0: does not matter */
    const char *template_name; /* which of several chat templates, or NULL: "default" */
    const char *template_file; /* the chat template to take instead, or NULL */
};

struct source {
    char *folder;      /* where config.json and the other JSON files are */
    char *config_name; /* "config.json", or what --config names */
    struct shards shards;
    struct config config;
    struct json_settings tokenizer_config; /* open, for the chat template */
    struct json_settings tokenizer_json;   /* open until it is compiled */
    struct json_mark tokenizer_mark;       /* what it was */
    struct tokenizer_rules tokenizer_rules;
    struct tokenizer_section tokenizer;        /* empty until it is compiled */
    struct chat_template template;             /* see template.h */
    const struct safetensors_tensor **tensors; /* (smol_tensor_count), see checkpoint.h */
    struct lora lora;                          /* zeroed: none */
};

/* Opens `input`, a checkpoint's folder (or that of one in the cache of the Hub, see hub.h), or the
 * model.safetensors or model.safetensors.index.json in it, for a blob of `dtype`. All but the
 * tokenizer's tables and the tensors' elements is checked. On an error nothing stays open. Errors:
 * SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY, SMOL_ERROR_USAGE
 * (a choice of revisions). */
smol_status smol_source_open(const char *input, const struct source_options *options,
                             enum blob_dtype dtype, struct source *source, smol_error *error);

/* The first step of that alone, for saying what there is although it is not supported: the weights,
 * and where the settings are. The other fields are zeroed. */
smol_status smol_source_open_weights(const char *input, const struct source_options *options,
                                     struct source *source, smol_error *error);

/* All that a blob is made of but its weights and provenance, pointing into the source. */
struct blob_contents smol_source_contents(const struct source *source);

/* Whether `path` is something that only a checkpoint is: a folder or an index. */
bool smol_source_is_checkpoint(const char *path);

/* Fills source->tokenizer, once, and frees what it was compiled from. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_source_compile_tokenizer(struct source *source, smol_error *error);

/* Opens what was compiled as the reader of a blob does. */
smol_status smol_source_open_tokenizer(const struct source *source, struct tokenizer_tables *tables,
                                       smol_error *error);

/* The result of a step that read the tensors and ended with `status`, see file_settle. */
smol_status smol_source_settle(const struct source *source, smol_status status, smol_error *error);

/* Gives everything back; a zeroed source is fine. */
void smol_source_close(struct source *source);

#endif
