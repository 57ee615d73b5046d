/* The parts of a comparison of two models: lists of their tensors, rows of tables that show
 * differences, and the functions that find these. */
#ifndef SMOL_CONVERT_DIFF_H
#define SMOL_CONVERT_DIFF_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "convert/inspect/subject.h"

/* Lists the tensors of `side` for a comparison with `other`: by role if either has a model,
 * otherwise by name. `split` gets the tensors of a safetensors file with fused ones split, if there
 * are any; the caller closes it after the comparison, also after an error. In diff_list.c. */
smol_status smol_diff_list(struct subject *side, const struct subject *other,
                           struct safetensors *split, smol_error *error);

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

/* diff_settings.c: compares hyper-parameters, RoPE frequencies, stop ids, generation defaults and
 * how embeddings are made; for two blobs, also the format. Both must have settings. */
void smol_diff_settings(const struct subject *a, const struct subject *b, struct diff_table *table);

/* Shows the lines in which two blobs' provenances differ; returns whether there are any. */
bool smol_diff_provenance(const struct blob *a, const struct blob *b, FILE *out);

/* diff_tokenizer.c */
void smol_diff_tokenizer(const struct subject *a, const struct subject *b,
                         struct diff_table *table);

/* diff_tensors.c: shows a line for each different tensor, and counts these and all tensors of
 * either side. */
smol_status smol_diff_tensors(const struct subject *a, const struct subject *b, FILE *out,
                              uint64_t *n_different, uint64_t *n_compared, smol_error *error);

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
