/* One of the two models that are compared, open. */
#ifndef SMOL_CONVERT_DIFF_SIDE_H
#define SMOL_CONVERT_DIFF_SIDE_H

#include <stdint.h>

#include "common/error.h"
#include "convert/inspect/model_file.h"
#include "convert/inspect/model_tensor.h"
#include "convert/source.h"

enum diff_kind { DIFF_BLOB, DIFF_CHECKPOINT, DIFF_SAFETENSORS };

/* One of the two models. What a safetensors file does not have (settings, tokenizer) is NULL. */
struct diff_side {
    const char *path; /* not owned */
    enum diff_kind kind;
    struct model_file file;      /* unless it is a checkpoint's folder or index */
    struct safetensors split;    /* the tensors of that file with the fused ones as their parts */
    struct source source;        /* if it is */
    const struct family *family; /* of a blob: one with its names */
    const struct blob_model *model;
    const float *inv_freq; /* (n_rope_tables, rotary_dim / 2) */
    const uint8_t *layers; /* (n_layers), NULL: all 0 */
    const uint32_t *stop;  /* (n_stop) */
    size_t n_stop;
    const struct blob_generation *generation;
    const uint8_t *text; /* (n_text), the text section; 0 without one */
    size_t n_text;
    const uint8_t *template_section; /* (n_template), or NULL */
    size_t n_template;
    struct tokenizer_tables tokenizer;
    size_t n_tokenizer; /* bytes of the section: the header, the spans, the other tables */
    struct model_tensor *tensors; /* (n_tensors) */
    size_t n_tensors;
    char (*names)[MAX_NAME]; /* storage of the names of roles */
};

/* Opens `path`, a checkpoint if it is a folder; every digest of a blob is checked. On an error
 * nothing stays open. */
smol_status smol_diff_side_open(const char *path, struct diff_side *side, smol_error *error);

/* Lists the tensors: by role where the side or the other one has a model, otherwise by name. */
smol_status smol_diff_side_list(struct diff_side *side, const struct diff_side *other,
                                smol_error *error);

/* The result of a step that ended with `status`, see file_settle. */
smol_status smol_diff_side_settle(const struct diff_side *side, smol_status status,
                                  smol_error *error);

void smol_diff_side_close(struct diff_side *side);

#endif
