/* The frequencies of rotary embeddings, rounded as the reference rounds them. */
#ifndef SMOL_CONVERT_ROPE_H
#define SMOL_CONVERT_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/layout.h"

enum rope_type { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_LONGROPE };

/* A rotary embedding by config.json's names. What its type does not use is 0. */
struct rope {
    enum rope_type type;
    double theta;
    double factor;
    uint32_t original_context;                /* original_max_position_embeddings */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: none */
    bool truncate;                            /* yarn */
    double attention_factor;                  /* yarn, longrope; 0: follows from the others */
    float factors[MAX_HEAD_DIM / 2];          /* longrope: those of short_factor or long_factor */
};

/* Fills inv_freq (dim / 2) with the angle for each position of the pairs of a head of which `dim`
 * elements rotate. */
void smol_rope_frequencies(const struct rope *rope, uint32_t dim, float *inv_freq);

/* The factor of cosine and sine. */
float smol_rope_scale(const struct rope *rope);

#endif
