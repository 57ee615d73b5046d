/* The parts of a comparison: two open models, rows of tables that show their differences, and the
 * functions that find these. */
#ifndef SMOL_CONVERT_DIFF_H
#define SMOL_CONVERT_DIFF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "convert/inspect/model_tensor.h"
#include "convert/source.h"

/* --- the models: diff_side.c ---------------------------------------------------------------- */

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

/* --- rows ----------------------------------------------------------------------------------- */

enum { DIFF_CELL = 256 }; /* bytes of a value's text */

/* Rows under a heading, which is printed before the first row. */
struct diff_table {
    FILE *out;
    const char *heading;
    uint64_t n;       /* rows */
    uint64_t n_group; /* rows of the current group */
};

/* Adds a row: the name of a value, and the value in A and in B. */
void smol_diff_row(struct diff_table *table, const char *name, const char *a, const char *b);

/* Adds a row of a group. Only the first rows of a group are shown; smol_diff_end_group prints the
 * number of the others. */
void smol_diff_group_row(struct diff_table *table, const char *name, const char *a, const char *b);
void smol_diff_end_group(struct diff_table *table);

/* Returns whether the group already shows its maximum of rows; if so, counts one more. Call it
 * before formatting a row if there may be a million rows. */
bool smol_diff_group_is_full(struct diff_table *table);

/* --- the comparisons: each adds a row for each difference ---------------------------------- */

/* diff_settings.c: compares hyper-parameters, RoPE frequencies, stop ids and generation defaults;
 * for two blobs, also the format. */
void smol_diff_settings(const struct diff_side *a, const struct diff_side *b,
                        struct diff_table *table);

/* Shows the lines in which two blobs' provenances differ; returns whether there are any. */
bool smol_diff_provenance(const struct blob *a, const struct blob *b, FILE *out);

/* diff_tokenizer.c */
void smol_diff_tokenizer(const struct diff_side *a, const struct diff_side *b,
                         struct diff_table *table);

/* diff_tensors.c: shows a line for each different tensor, and counts them. */
smol_status smol_diff_tensors(const struct diff_side *a, const struct diff_side *b, FILE *out,
                              uint64_t *n_different, smol_error *error);

/* Differences between two tensors' elements as numbers: 0 equals -0, and any NaN equals any NaN. */
struct diff_values {
    uint64_t n; /* elements */
    uint64_t n_different;
    uint64_t n_not_finite; /* of these: NaN or infinite on either side */
    uint64_t first_not_finite;
    double largest; /* of |a - b| over the finite ones, in double */
    uint64_t largest_at;
    double mean; /* of |a - b| over all elements except n_not_finite */
};

/* Compares two tensors of the same shape whose elements are numbers. */
struct diff_values smol_diff_values(const struct model_tensor *a, const struct model_tensor *b);

#endif
