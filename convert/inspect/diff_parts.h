/* The parts of smol_diff, one file each. */
#ifndef SMOL_CONVERT_DIFF_PARTS_H
#define SMOL_CONVERT_DIFF_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "convert/inspect/model_file.h"
#include "convert/inspect/model_tensor.h"
#include "convert/source.h"

/* --- diff_side.c: what is compared -------------------------------------------------------- */

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
    char (*names)[MAX_NAME]; /* behind the names of roles */
};

/* Opens `path`, a checkpoint if it is a folder; every digest of a blob is checked. On an error
 * nothing stays open. */
smol_status smol_diff_side_open(const char *path, struct diff_side *side, smol_error *error);

/* Lists the tensors: by role where the side or the other one has a model, otherwise by name. */
smol_status smol_diff_side_list(struct diff_side *side, const struct diff_side *other,
                                smol_error *error);

/* What has become of a step that ended with `status`, see file_settle. */
smol_status smol_diff_side_settle(const struct diff_side *side, smol_status status,
                                  smol_error *error);

void smol_diff_side_close(struct diff_side *side);

/* --- diff_table.c: how it is shown -------------------------------------------------------- */

enum { DIFF_CELL = 256 }; /* room for a value */

/* Rows under a heading, which appears with the first. */
struct diff_table {
    FILE *out;
    const char *heading;
    uint64_t n;       /* rows */
    uint64_t n_group; /* those of the group that is being listed */
};

/* Adds a row: what it is about, and what it is in A and B. */
void smol_diff_row(struct diff_table *table, const char *name, const char *a, const char *b);

/* The same for a row of a group, of which only the first are shown, up to smol_diff_end_group,
 * which says how many more there were. */
void smol_diff_group_row(struct diff_table *table, const char *name, const char *a, const char *b);
void smol_diff_end_group(struct diff_table *table);

/* Whether the group has as many rows as are shown; if so, counts one more. To be asked before a
 * row's text is made, where there may be a million. */
bool smol_diff_group_is_full(struct diff_table *table);

/* --- the comparisons: each adds a row for each difference ---------------------------------- */

/* diff_settings.c: hyper-parameters, RoPE's frequencies, stop ids, generation defaults; of two
 * blobs the format too. */
void smol_diff_settings(const struct diff_side *a, const struct diff_side *b,
                        struct diff_table *table);

/* Shows the lines of two blobs' provenances that differ; whether any do. */
bool smol_diff_provenance(const struct blob *a, const struct blob *b, FILE *out);

/* diff_tokenizer.c */
void smol_diff_tokenizer(const struct diff_side *a, const struct diff_side *b,
                         struct diff_table *table);

/* diff_tensors.c: shows a line for each tensor that differs, and counts them. */
smol_status smol_diff_tensors(const struct diff_side *a, const struct diff_side *b, FILE *out,
                              uint64_t *n_different, smol_error *error);

/* --- diff_values.c: elements as numbers ---------------------------------------------------- */

struct diff_values {
    uint64_t n;            /* elements */
    uint64_t n_different;  /* as numbers: 0 equals -0, and a NaN every NaN */
    uint64_t n_not_finite; /* of those, the ones that are NaN or infinite on a side */
    uint64_t first_not_finite;
    double largest; /* of |a - b| over the finite ones, in double */
    uint64_t largest_at;
    double mean; /* of |a - b| over all but those that are not finite */
};

/* Compares two tensors of the same shape whose elements are numbers. */
struct diff_values smol_diff_values(const struct model_tensor *a, const struct model_tensor *b);

#endif
