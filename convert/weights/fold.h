/* Folding: factors moved from the inputs of matrices into what computes these inputs, so that the
 * channels of an input that share a scale are of similar size. The product stays the same: an
 * input's channel is divided by s, and the matrix's column multiplied by it. The division is free,
 * because it is part of the weights before: of a norm, of the value projection's rows, or of the up
 * projection's rows (SmoothQuant; Xiao et al., 2023). A channel of latent vectors is the same in
 * keys and values, so the rows of k_up that meet it in keys are multiplied too. With s = (mean
 * square of the channel)^(1/4) the channels' sizes and the columns' share the difference. */
#ifndef SMOL_CONVERT_FOLD_H
#define SMOL_CONVERT_FOLD_H

#include "convert/calibration/stats_file.h"
#include "format/layout.h"

struct fold {
    const struct blob_model *model;    /* NULL: nothing is folded */
    const struct stats_header *header; /* of the statistics */
    float *factors;  /* for each layer, of the inputs of q, of o, of gate and of down; the output's;
                        each expert's of its down, or each state's, or each layer's of queries */
    float *inverses; /* 1 / factors */
    float *values;   /* (n_layers, n_kv_heads * head_dim): inverses for the rows of v */
    /* of latent vectors, which all heads share; NULL without */
    float *keys;    /* (n_layers, n_heads * kv_rank): their factors, for the rows of k_up */
    float *latents; /* (n_layers, kv_rank): inverses */
};

/* The factors of a tensor's rows and columns; NULL: all are 1. A vector has columns. */
struct fold_factors {
    const float *rows, *cols;
};

/* Derives the factors from statistics of the model. Both must outlive them. Zeroes *fold after an
 * error. Errors: SMOL_ERROR_DAMAGED (the statistics), SMOL_ERROR_MEMORY. */
smol_status smol_fold_make(const struct stats_file *stats, const struct blob_model *model,
                           struct fold *fold, smol_error *error);

/* Returns the factors that a tensor's elements are multiplied by. */
struct fold_factors smol_fold_factors(const struct fold *fold, struct tensor_key key);

/* Returns 1 / factors of the inputs that a record of the statistics is about, or NULL: all are 1.
 */
const float *smol_fold_inverses(const struct fold *fold, size_t record);

/* Frees the factors. A zeroed fold is allowed. */
void smol_fold_free(struct fold *fold);

#endif
