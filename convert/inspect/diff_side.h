/* One of the two models of a comparison, open. */
#ifndef SMOL_CONVERT_DIFF_SIDE_H
#define SMOL_CONVERT_DIFF_SIDE_H

#include <stdint.h>

#include "common/error.h"
#include "convert/inspect/model_file.h"
#include "convert/inspect/model_tensor.h"
#include "convert/source.h"

enum diff_kind { DIFF_BLOB, DIFF_CHECKPOINT, DIFF_SAFETENSORS };

/* One of the two models. Parts that a safetensors file lacks (settings, tokenizer) are NULL. */
struct diff_side {
    const char *path; /* not owned */
    enum diff_kind kind;
    struct model_file file;      /* for a blob or a safetensors file */
    struct safetensors split;    /* the tensors of `file`, with fused ones split */
    struct source source;        /* for a checkpoint */
    const struct family *family; /* for a blob: a family with its blocks */
    const struct blob_model *model;
    const float *inv_freq; /* (n_rope_tables, rotary_dim / 2) */
    const uint8_t *layers; /* (n_layers), NULL: all 0 */
    const uint32_t *stop;  /* (n_stop) */
    size_t n_stop;
    const struct blob_generation *generation;
    const uint8_t *text; /* (n_text), the text section; n_text is 0 without one */
    size_t n_text;
    const uint8_t *template_section; /* (n_template), or NULL */
    size_t n_template;
    struct tokenizer_tables tokenizer;
    size_t n_tokenizer;           /* bytes of the section: header, spans and other tables */
    struct model_tensor *tensors; /* (n_tensors) */
    size_t n_tensors;
    char (*names)[MAX_NAME]; /* storage for the names of roles */
};

/* Opens `path`, a checkpoint if it is a folder. Checks every digest of a blob. After an error,
 * nothing stays open. */
smol_status smol_diff_side_open(const char *path, struct diff_side *side, smol_error *error);

/* Lists the tensors: by role if either side has a model, otherwise by name. */
smol_status smol_diff_side_list(struct diff_side *side, const struct diff_side *other,
                                smol_error *error);

/* Returns the final status of a step that ended with `status`, see file_settle. */
smol_status smol_diff_side_settle(const struct diff_side *side, smol_status status,
                                  smol_error *error);

void smol_diff_side_close(struct diff_side *side);

#endif
