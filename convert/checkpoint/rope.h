/* Computes the frequencies of rotary embeddings, rounded as transformers rounds them. */
#ifndef SMOL_CONVERT_ROPE_H
#define SMOL_CONVERT_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/layout.h"

enum rope_type { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_LONGROPE };

/* A rotary embedding, with config.json's names. Fields that the type does not use are 0. */
struct rope {
    enum rope_type type;
    double theta;
    double factor;
    uint32_t original_context;                /* original_max_position_embeddings */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: none */
    bool truncate;                            /* yarn */
    double attention_factor;                  /* yarn, longrope; 0: computed from the others */
    float factors[MAX_HEAD_DIM / 2];          /* longrope: short_factor or long_factor */
};

/* Fills inv_freq (dim / 2) with the angle per position of each pair of a head in which `dim`
 * elements rotate. */
void smol_rope_frequencies(const struct rope *rope, uint32_t dim, float *inv_freq);

/* Returns the factor of cosine and sine. */
float smol_rope_scale(const struct rope *rope);

#endif
